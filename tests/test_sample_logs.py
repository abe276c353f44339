"""Every sample incident is diagnosed as its label says; every healthy sample stays silent."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from correlator import score
from correlator.api import open_job
from tests.citations import unresolved

ROOT = Path(__file__).parents[1] / "sample_logs"
SAMPLES = sorted(p.parent for p in ROOT.glob("*/expected.toml"))


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda p: p.name)
def test_sample(folder: Path) -> None:
    label = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    with open_job(str(folder / "logs")) as job:
        result = score.judge_case(job.document, label, folder.name, 0.0)

    assert result.rank_right, result
    assert result.class_right, result
    assert not result.wrong_name, result


def test_samples_are_wide_enough() -> None:
    labels = [tomllib.loads((s / "expected.toml").read_text(encoding="utf-8")) for s in SAMPLES]
    assert sum(label["incident"] for label in labels) >= 12
    assert sum(not label["incident"] for label in labels) >= 2
    assert all((s / "README.md").stat().st_size > 100 for s in SAMPLES)
    assert sum(f.stat().st_size for f in ROOT.rglob("*") if f.is_file()) < 3_000_000


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda p: p.name)
def test_every_statement_resolves(folder: Path) -> None:
    """No fabricated evidence: quoted lines stand where they are cited, and what has no line is a query that finds rows."""
    with open_job(str(folder / "logs")) as job:
        assert unresolved(job, folder / "logs") == []
