"""The labelled incidents beside the checkout, where they are: a slow campaign with its floor."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator import score
from correlator.api import open_job
from tests.citations import unresolved

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "right", "classes", "wrong"), [("injected", 0.97, 0.97, 0), ("public", 0.90, 0.90, 1)])
def test_corpus(name: str, right: float, classes: float, wrong: int) -> None:
    folder = CORPUS / name
    if not folder.is_dir():
        pytest.skip("the labelled incidents are not here")
    report = score.run(str(folder), views=True)
    summary = report["summary"]

    assert summary["crashes"] == 0
    assert summary["false_alarms"] == 0
    assert summary["wrong_names"] <= wrong
    assert summary["answerable_right"] >= right
    assert summary["class_right"] >= classes
    assert summary["views_agree"] >= 0.98, report["changes"]
    assert summary["answerable_right"] > 1.5 * max(summary["baselines"].values())


@pytest.mark.slow
def test_every_statement_resolves() -> None:
    if not CORPUS.is_dir():
        pytest.skip("the labelled incidents are not here")
    bad = {}
    for name, logs, _ in score.cases(CORPUS):
        with open_job(str(logs)) as job:
            if found := unresolved(job, logs):
                bad[name] = found
    assert bad == {}
