"""Labelled incidents -> rows (features of the strongest cause, whether scope and ranks would be right, group of the fold)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from correlator import engine, score


@dataclass(slots=True, frozen=True)
class Row:
    """One incident. ``features``: 0 (good) to 1 (bad). ``right``: the candidate's ranks are the label's. ``group``: cases of one kind stay in one fold."""

    case: str
    group: str
    features: dict[str, float]
    right: bool


def rows(corpora: list[str], workers: int = 2) -> list[Row]:
    """Rows of all incidents below the folders, in the order of their names."""
    jobs = [(name, str(logs), label) for corpus in corpora for name, logs, label in score.cases(Path(corpus))]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return [row for found in pool.map(_row, jobs, chunksize=4) for row in found]


def _row(job: tuple[str, str, dict[str, Any]]) -> list[Row]:
    name, logs, label = job
    if not label.get("incident", True):
        return []
    store_path, diagnosis = engine.run([logs])
    Path(store_path).unlink(missing_ok=True)
    return list(_of(diagnosis.document, label, name))


def _of(document: dict[str, Any], label: dict[str, Any], name: str) -> Iterator[Row]:
    if document["primary"] is None:
        return
    incident = document["incidents"][document["primary"]]
    features = {f["feature"]: f["value"] for f in incident["features"] if f["feature"] != "intercept"}
    if not features:  # no cause at all: there is nothing to be sure of
        return
    # below the naming threshold the candidate is kept as suspects: it still was right or wrong
    candidate = incident["initiating_ranks"] or [s["rank"] for s in incident["suspects"]]
    expected = set(label.get("initiating_ranks", ()))
    allowed = [expected, set(label.get("acceptable_ranks") or expected)]
    right = set(candidate) in allowed or (len(expected) > 1 and bool(candidate) and set(candidate) <= expected)
    group = str(label.get("fault") or label.get("parent") or label.get("failure_class")) + "/" + str(label.get("parent") or "")
    yield Row(name, group.split("/")[0], features, right)
