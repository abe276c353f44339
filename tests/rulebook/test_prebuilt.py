"""Rules read once are the rules; what was kept is trusted only for exactly these texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from correlator.parsers.catalogue import anchors, literal
from correlator.rulebook import load
from correlator.rulebook.prebuilt import Prebuilt

TEXTS = {"a.toml": "id = 'a'\n[[signature]]\npattern = 'fell over (?P<x>\\d+)'\n", "b.toml": "id = 'b'\n"}


def test_second_start_reads_what_the_first_kept(tmp_path: Path) -> None:
    first, second = Prebuilt(TEXTS, tmp_path), Prebuilt(TEXTS, tmp_path)
    assert (first.fresh, second.fresh) == (True, False)
    assert second.raw == first.raw == {"a.toml": {"id": "a", "signature": [{"pattern": "fell over (?P<x>\\d+)"}]}, "b.toml": {"id": "b"}}
    assert second.holds("fell over (?P<x>\\d+)") == (literal("fell over (?P<x>\\d+)"), anchors("fell over (?P<x>\\d+)")) == ("fell over ", ("fell over ",))
    assert second.holds("another") is None


def test_a_changed_rule_is_read_anew_and_the_old_is_gone(tmp_path: Path) -> None:
    Prebuilt(TEXTS, tmp_path)
    changed = Prebuilt(TEXTS | {"b.toml": "id = 'c'\n"}, tmp_path)
    assert changed.fresh
    assert changed.raw["b.toml"] == {"id": "c"}
    assert [f.name for f in tmp_path.iterdir()] == [changed.file.name]


@pytest.mark.parametrize("kept", ["", "{", "[]", "null", '{"raw": {}, "held": {}}', '{"raw": 1}'])
def test_what_is_broken_is_not_trusted(tmp_path: Path, kept: str) -> None:
    file = Prebuilt(TEXTS, tmp_path).file
    file.write_text(kept)
    again = Prebuilt(TEXTS, tmp_path)
    assert again.fresh
    assert set(json.loads(file.read_text())["raw"]) == set(TEXTS)


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Prebuilt(TEXTS, tmp_path / "file").raw["b.toml"] == {"id": "b"}


def test_the_rulebook_is_the_same_either_way() -> None:
    kept, plain = load(), load(prove=True)
    assert kept.rules == plain.rules
    assert kept.catalogue.signatures == plain.catalogue.signatures
    assert kept.catalogue.tokens == plain.catalogue.tokens
