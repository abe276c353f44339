"""The checks that loading leaves out find what they are for, and nothing in the built-in rulebook."""

from __future__ import annotations

from dataclasses import replace

from correlator.parsers.catalogue import Signature
from correlator.rulebook import Rule, Rulebook, load
from correlator.rulebook.check import problems

BOOK = load(prove=True)


def rulebook(rule: Rule) -> Rulebook:
    return Rulebook([rule], BOOK.predicates, BOOK.classes)


def given(**changes: object) -> list[str]:
    rule = BOOK.rule("storage-full")
    assert rule is not None
    return [p.split(": ", 1)[1] for p in problems(rulebook(replace(rule, **changes)))]  # type: ignore[arg-type]


def test_the_built_in_rulebook_is_clean() -> None:
    assert problems(BOOK) == []


def test_an_incomplete_entry() -> None:
    rule = BOOK.rule("storage-full")
    assert rule is not None
    doc = {**rule.doc, "fix": "", "summary": "one\ntwo"}
    assert given(doc=doc) == ["doc.fix is missing", "doc.summary is longer than one line"]


def test_sql_that_does_not_run() -> None:
    (found,) = given(sql="SELECT nothing FROM facts WHERE fact_id = $root")
    assert found.startswith("diagnosis.sql does not run: Binder Error")


def test_a_pattern_that_only_python_can_run() -> None:
    (found,) = given(signatures=(Signature("s", "storage-full", "python", "io_failed", r"(?<!x)full", "disk full"),))
    assert found.startswith("signature s: the pattern is not portable to Rust regex")
    assert given(signatures=(Signature("s", "storage-full", "python", "io_failed", r"(?<!x)full", "disk full", "regex"),)) == []


def test_a_line_that_is_never_looked_at() -> None:
    (found,) = given(signatures=(Signature("s", "storage-full", "kernel", "link_down", r"ib\d+: (?:up|no)", "ib0: up"),))
    assert "no literal of the first search" in found


def test_two_owners_of_one_message() -> None:
    first = Signature("a", "storage-full", "python", "io_failed", "disk is full", "the disk is full")
    second = Signature("b", "storage-full", "python", "raised", "full", "the disk is full")
    assert given(signatures=(first, second)) == ["signature b: its sample means io_failed to storage-full, not raised"]
