"""Runs the engine on a scenario and keeps what the tests compare."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from correlator import engine, score
from tests.simulator.scenario import Scenario


@dataclass(slots=True)
class Verdict:
    """What the engine said: the document, and a few tables of its job file."""

    document: dict[str, Any]
    tables: dict[str, list[tuple[Any, ...]]]

    @property
    def primary(self) -> dict[str, Any] | None:
        return self.document["incidents"][self.document["primary"]] if self.document["incidents"] else None

    def answer(self) -> tuple[Any, ...]:
        """What must not change when nothing that matters changes."""
        p = self.primary
        return (p["scope"], tuple(p["initiating_ranks"]), p["failure_class"], p["outcome"]) if p else ()


QUERIES = {
    "initiating": "SELECT f.predicate, f.subject_kind, f.subject FROM findings x JOIN facts f USING (fact_id) WHERE x.role = 'initiating'",
    "roles": "SELECT f.predicate, f.subject_kind, f.subject, x.role FROM findings x JOIN facts f USING (fact_id)",
    "effects": "SELECT f.fact_id, f.predicate, f.subject, f.attempt FROM facts f WHERE f.status = 'active' AND f.subject_kind = 'rank' AND f.fact_id NOT IN (SELECT fact_id FROM findings)",
    "bases": "SELECT DISTINCT basis FROM edges",
}


def diagnose(paths: list[Path]) -> Verdict:
    """The engine's verdict on paths."""
    with tempfile.TemporaryDirectory() as folder:
        kept, diagnosis = engine.run([str(p) for p in paths], store_path=str(Path(folder) / "job.duckdb"))
        con = duckdb.connect(kept, read_only=True)
        tables = {name: con.execute(sql).fetchall() for name, sql in QUERIES.items()}
        con.close()
    return Verdict(json.loads(json.dumps(diagnosis.document, default=str)), tables)


def judge(case: Scenario, folder: Path) -> tuple[Verdict, score.Result]:
    """Writes a scenario, diagnoses it and compares with its label."""
    verdict = diagnose([case.write(folder)])
    return verdict, score.judge_case(verdict.document, case.label, case.label["id"], 0.0)
