"""Loading: own rules, errors that name file and line, conditions that follow from signatures, message tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from correlator.errors import CorrelatorError
from correlator.parsers.catalogue import messages
from correlator.rulebook import Condition, load, parse_rule
from correlator.rulebook.lines import line_of

BOOK = load(prove=True)
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
sample = "MyError: no"
[[signature]]
id = "t"
source = "python"
fact = "nan_local"
pattern = '''OtherError'''
sample = "OtherError: no"
[diagnosis]
context = [{ fact = "raised", where = { exception = "A|B" } }]
[doc]
summary = "s"
related = []
[[example]]
name = "e"
expect = { initiating = [1] }
files = { "a.log" = "x" }
"""


def test_own_rules_are_added(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    book = load([str(tmp_path)])
    assert book.rule("my-rule") is not None
    assert len(book.rules) == len(BOOK.rules) + 1


def test_an_equal_id_replaces_the_built_in_rule(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace("my-rule", "python-exception").replace('"t"', '"mine"', 1))
    book = load([str(tmp_path)])
    assert [r.title for r in book.rules if r.id == "python-exception"] == ["mine"]


def test_built_in_rules_load_the_same_whether_proven_or_not() -> None:
    assert load().rules == BOOK.rules


def test_patterns_of_further_folders_are_always_tried(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(re.sub(r"(?m)^sample = .*$", "sample = 'no such words'", GOOD))
    with pytest.raises(CorrelatorError, match="does not match its pattern"):
        load([str(tmp_path)])


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("title", "titel", 2, "unknown key titel"),
        ('title = "t"', "title = 3", 2, "wrong type: int"),
        ('"user_exception"', '"no_such_class"', 4, "unknown failure class"),
        ('"code"', '"memory"', 3, "belongs to category code"),
        ('"data"', '"lunch"', 6, "phase is 'lunch'"),
        ('"raised"', '"blamed"', 11, "unknown predicate blamed"),
        ("'''MyError'''", "'''(MyError'''", 12, "does not compile"),
        ('"MyError: no"', '"Mine: no"', 13, "does not match its pattern"),
        ('sample = "OtherError: no"', "", 14, "signature without sample"),
        ('"nan_local"', '"blamed"', 17, "unknown predicate blamed"),
        ('id = "t"', 'id = "s"', 15, "two signatures have the id s"),
        ("context", "contexts", 21, "unknown key contexts in diagnosis"),
        ('"A|B"', '"(A"', 21, "pattern of where exception does not compile"),
        ("related = []", 'related = ["nobody"]', 24, "related names an unknown rule: nobody"),
        ("initiating", "guilty", 27, "unknown key in expect: guilty"),
        ('"incubating"', '"stable"', 7, "needs a silent example"),
        ('id = "my-rule"', 'id = "my-rule', 1, "Illegal character|unclosed|Unterminated"),
    ],
)
def test_errors_name_file_line_reason_and_help(tmp_path: Path, old: str, new: str, line: int, why: str) -> None:
    file = tmp_path / "mine.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(CorrelatorError) as caught:
        load([str(tmp_path)])
    assert caught.value.where == f"{file}:{line}"
    assert re.search(why, caught.value.why)
    assert caught.value.help


def test_two_files_with_one_id_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD)
    with pytest.raises(CorrelatorError) as caught:
        load([str(tmp_path)])
    assert caught.value.where == f"{tmp_path / 'b.toml'}:1"
    assert "two rules have the id my-rule" in caught.value.why


def test_a_folder_that_does_not_exist() -> None:
    with pytest.raises(CorrelatorError, match="rules folder not found"):
        load(["/nonexistent/rules"])


def test_diagnosis_signatures_narrow_the_root() -> None:
    text = GOOD.replace("[diagnosis]\n", '[diagnosis]\nsignatures = ["s"]\n')
    rule = parse_rule(text, "mine.toml", BOOK.predicates, BOOK.classes)
    assert rule.root == (Condition("raised", {"rule": r"my\-rule", "signature": ["s"]}),)


def test_diagnosis_signatures_must_exist() -> None:
    text = GOOD.replace("[diagnosis]\n", '[diagnosis]\nsignatures = ["u"]\n')
    with pytest.raises(CorrelatorError) as caught:
        parse_rule(text, "mine.toml", BOOK.predicates, BOOK.classes)
    assert caught.value.where == "mine.toml:21"


def test_line_of_skips_multi_line_strings_and_counts_tables() -> None:
    text = "a = '''\nid = 1\n[[signature]]\n'''\nid = 2\n[[signature]]\nid = 3\n[[signature]]\nid = 4\n"
    assert line_of(text, "id") == 5
    assert line_of(text, "id", "signature", 1) == 9
    assert line_of(text, "fact", "signature", 1) == 8
    assert line_of(text, "fact", "nowhere") == 1


def test_message_tables(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("# c\nid\tsource\tfact\tpattern\ttext\nA1\tpython\traised\t\tRank {rank} (lost) {}.\nA2\tnccl\twarned\tx\\d+\n")
    (tmp_path / "xid.tsv").write_text("code\tname\trole\n13\tX\troot\n")
    first, second = messages(tmp_path)
    found = re.search(first.pattern, "Rank 3 (lost) its node.")
    assert found is not None and found["rank"] == "3"
    assert (first.rule, first.fact, second.id, second.pattern) == ("messages/a", "raised", "A2", r"x\d+")


def test_a_broken_message_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\tsource\tfact\tpattern\nA1\tpython\traised\t(\n")
    with pytest.raises(ValueError, match=r"a\.tsv:2: the pattern does not compile"):
        messages(tmp_path)
