"""Every rule loads, is complete, and does in the whole engine what its examples say."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator.errors import CorrelatorError
from correlator.rulebook import Rule, load
from correlator.rulebook_check import run_example

BOOK = load()
EXAMPLES = [(r, e) for r in BOOK.rules for e in r.examples]
NAMED = [
    "zero3-stale-sync-clipping", "overlap-comm-contiguous-gradients-nan", "watchdog-shape-mismatch", "tensor-parallel-rng-divergence", "xid-13-graphics-exception",
    "adam-epsilon-underflow-fp16", "gradient-explosion",
]  # fmt: skip


@pytest.mark.parametrize(("rule", "example"), EXAMPLES, ids=[f"{r.id}-{i}" for i, (r, _) in enumerate(EXAMPLES)])
def test_example(rule: Rule, example: dict) -> None:  # type: ignore[type-arg]
    if example.get("known_miss"):
        pytest.xfail(example["known_miss"])
    assert run_example(rule, example, BOOK) is None


def test_enough_rules_for_every_class() -> None:
    assert len(BOOK.rules) >= 40
    covered = {r.failure_class for r in BOOK.rules}
    assert set(BOOK.classes) - covered <= {"unknown"}


@pytest.mark.parametrize("rule", BOOK.rules, ids=lambda r: r.id)
def test_rule_is_complete(rule: Rule) -> None:
    for key in ("summary", "mechanism", "symptoms", "confirm", "fix", "verify", "references"):
        assert rule.doc.get(key), f"{rule.id} lacks {key}"
    assert any(e.get("expect") == "silent" for e in rule.examples) or rule.maturity != "stable"
    assert any(e.get("expect") != "silent" for e in rule.examples)


@pytest.mark.parametrize("rule_id", NAMED)
def test_the_failures_asked_for_by_name(rule_id: str) -> None:
    rule = BOOK.rule(rule_id)
    assert rule is not None
    assert rule.doc["do_not"]
    assert rule.doc["prevent"]


def test_zero3_defaults_alone_are_no_alarm() -> None:
    rule = BOOK.rule("zero3-stale-sync-clipping")
    assert rule is not None
    assert rule.root
    assert "overlap_comm" not in " ".join(rule.config)


def test_one_message_one_owner() -> None:
    """No two signatures of one source give one sample different predicates."""
    wrong = []
    for s in BOOK.catalogue.signatures:
        if not s.sample:
            continue
        hit = BOOK.catalogue.match(s.source, s.sample)
        assert hit is not None, s
        if hit.predicate != s.fact:
            wrong.append((s.rule, s.id, s.fact, hit.predicate, hit.attrs["rule"]))
    assert wrong == []


GOOD = """id = "my-rule"
title = "t"
category = "code"
failure_class = "user_exception"
severity = "low"
phase = "data"
maturity = "incubating"
[[signature]]
id = "s"
source = "python"
fact = "raised"
pattern = '''MyError'''
[doc]
summary = "s"
"""


def test_own_rules_are_added(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    assert load([str(tmp_path)]).rule("my-rule") is not None


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("title", "titel", 2, "unknown key titel"),
        ('"user_exception"', '"no_such_class"', 4, "unknown failure class"),
        ('"raised"', '"blamed"', 11, "unknown predicate"),
        ("'''MyError'''", "'''(MyError'''", 12, "does not compile"),
        ('"data"', '"lunch"', 6, "phase"),
        ('id = "my-rule"', 'id = "my-rule', 1, "Illegal character|Unescaped|Invalid|unclosed"),
    ],
)
def test_loader_errors_name_file_and_line(tmp_path: Path, old: str, new: str, line: int, why: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(CorrelatorError) as caught:
        load([str(tmp_path)])
    assert f"mine.toml:{line}" in caught.value.where
    assert __import__("re").search(why, caught.value.why)
    assert caught.value.help
