"""Judges a whole job file: facts, incidents, findings, timeline and the document."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from correlator.judge.laws import run_laws
from correlator.judge.verdict import Incident, judge_attempt
from correlator.rulebook import Rulebook
from correlator.store import insert, one, sql_text


@dataclass(slots=True)
class Diagnosis:
    """The result of a diagnosis; ``document`` is the JSON document of the contract."""

    document: dict[str, Any] = field(default_factory=dict)


def judge(con: Any, rulebook: Rulebook, *, path: str, world_size: int | None, attempts: int, other_runs: list[str] | None = None,
          only_attempt: int | None = None, why_not: int | None = None) -> Diagnosis:  # fmt: skip
    """Runs the laws and builds incidents. Writes facts, edges, incidents, findings and timeline."""
    import pyarrow as pa

    con.execute("CREATE OR REPLACE TEMP TABLE predicates(predicate VARCHAR, can_initiate VARCHAR, ends_subject BOOLEAN, certainty VARCHAR, names VARCHAR)")
    text = pa.string()
    insert(con, "predicates", [(p.name, p.can_initiate, p.ends_subject, p.certainty, p.names) for p in rulebook.predicates.values()],
           {"predicate": text, "can_initiate": text, "ends_subject": pa.bool_(), "certainty": text, "names": text})  # fmt: skip
    run_laws(con)
    incidents: list[Incident] = []
    states: dict[int, bool] = {}
    for attempt in range(attempts):
        states[attempt] = _completed(con, attempt)
        if only_attempt is not None and attempt != only_attempt:
            continue
        incident = judge_attempt(con, attempt, rulebook, states[attempt], why_not)
        if incident is not None:
            incidents.append(incident)
    incidents = [i for i in incidents if not _outlived(con, i)]
    incidents.sort(key=lambda i: i.document["attempt"])
    _write(con, incidents)
    document = {
        "schema_version": 1,
        "job": _job(con, path, world_size, attempts, incidents, states, other_runs or []),
        "primary": _primary(incidents) if incidents else None,
        "incidents": [i.document for i in incidents],
        "hazards": [],
        "problems": [
            dict(zip(("path", "line", "kind", "detail"), row, strict=True))
            for row in con.execute("SELECT path, line, kind, detail FROM problems ORDER BY ALL LIMIT 200").fetchall()
        ],
    }
    con.execute("CREATE TABLE IF NOT EXISTS document (json VARCHAR)")
    con.execute("DELETE FROM document")
    con.execute("INSERT INTO document VALUES (?)", [json.dumps(document, default=str)])
    return Diagnosis(document)


def _outlived(con: Any, incident: Incident) -> bool:
    """A stop from outside behind which a later attempt made progress: preempted and resumed, or a node handed back.

    Nothing failed and nothing is left to be done: the attempt was told to end, and the job went on.
    """
    if incident.document["scope"] != "external":
        return False
    return one(con, "SELECT count(*) FROM steps WHERE attempt > ?", [incident.document["attempt"]])[0] > 0


def _completed(con: Any, attempt: int) -> bool:
    """Every rank that has a log said that it finished, or left with code 0, and nobody ended badly."""
    row = one(
        con,
        "SELECT count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state IN ('killed', 'exited', 'raised', 'waiting', 'terminated')), count(*) FROM ranks WHERE attempt = ?",
        [attempt],
    )
    bad = one(
        con,
        "SELECT count(*) FROM ev WHERE attempt = ? AND kind IN ('exit_record', 'external_signal', 'preempted') AND coalesce(attrs->>'exitcode', '1') <> '0'",
        [attempt],
    )
    done = one(con, "SELECT count(*) FROM ev WHERE attempt = ? AND kind = 'finished'", [attempt])
    if bad[0]:
        return False
    # one "training complete" of a job in which only rank 0 talks is the job's word, if nobody complained after it
    if row[0] and not row[1]:
        return True
    if done[0] and row[1] == 0:
        return True
    if done[0] and row[0] < row[2]:
        last = one(
            con,
            "SELECT count(*) FROM facts f JOIN predicates p USING (predicate) WHERE f.attempt = ? AND f.status = 'active' AND p.ends_subject AND f.predicate NOT IN ('nan_global', 'nan_local')",
            [attempt],
        )
        return last[0] == 0
    return False


def _primary(incidents: list[Incident]) -> int:
    """The first failed attempt, unless its log only shows effects and a later one names a cause."""
    for i, incident in enumerate(incidents):
        if incident.document["scope"] != "undetermined":
            return i
    return 0


def _job(con: Any, path: str, world_size: int | None, attempts: int, incidents: list[Incident], states: dict[int, bool], other_runs: list[str]) -> dict[str, Any]:
    ranks = con.execute("SELECT rank, state, coverage, host FROM ranks WHERE attempt = ? ORDER BY rank", [attempts - 1]).fetchall()
    first_run = one(con, "SELECT count(*) FROM steps")[0]
    state = "cut"
    if incidents:
        last = incidents[-1].document
        state = {"hung": "hung", "stopped": "stopped", "degraded": "completed"}.get(last["outcome"], "failed")
        if last["attempt"] < attempts - 1:
            state = "completed" if states.get(attempts - 1) else "running"
    elif states.get(attempts - 1):
        state = "completed"
    elif first_run and not one(con, "SELECT count(*) FROM streams WHERE attempt = ? AND ending = 'torn'", [attempts - 1])[0]:
        state = "running"
    frameworks = {
        k.split(".")[-2] if "." in k else k: v
        for k, v in con.execute("SELECT key, min(value) FROM config WHERE key LIKE '%.version' GROUP BY key ORDER BY key").fetchall()
    }
    hosts = [h for (h,) in con.execute("SELECT DISTINCT host FROM streams WHERE host IS NOT NULL ORDER BY host").fetchall()]
    return {
        "path": path, "state": state, "world_size": world_size, "ranks_seen": [r for r, _, c, _ in ranks if c != "absent"],
        "ranks_missing": [r for r, _, c, _ in ranks if c == "absent"], "ranks_alive": [], "hosts": hosts, "attempts": attempts,
        "frameworks": frameworks, "other_runs": other_runs,
    }  # fmt: skip


def _write(con: Any, incidents: list[Incident]) -> None:
    import pyarrow as pa

    ts, i32, i64, f64, text = pa.timestamp("us", tz="UTC"), pa.int32(), pa.int64(), pa.float64(), pa.string()
    rows, findings = [], []
    for inc in incidents:
        d = inc.document
        rows.append((d["id"], d["attempt"], d["outcome"], d["scope"], d["initiating_ranks"], d["initiating_hosts"], d["failure_class"], d["rule"], d["confidence"],
                     d["class_confidence"], inc.onset, d["onset"]["step"], d["summary"]))  # fmt: skip
        findings.extend((d["id"], fact, role, by, via) for fact, (role, by, via) in inc.roles.items())
    insert(con, "incidents", rows, {"incident_id": text, "attempt": i32, "outcome": text, "scope": text, "initiating_ranks": pa.list_(i32), "initiating_hosts": pa.list_(text),
                                    "failure_class": text, "rule": text, "confidence": f64, "class_confidence": f64, "onset_ts": ts, "onset_step": i64, "summary": text})  # fmt: skip
    con.execute("CREATE OR REPLACE TEMP TABLE roles(incident_id VARCHAR, fact_id INTEGER, role VARCHAR, explained_by INTEGER, via VARCHAR)")
    insert(con, "roles", findings, {"incident_id": text, "fact_id": i32, "role": text, "explained_by": i32, "via": text})
    con.execute(
        "INSERT INTO findings SELECT r.incident_id, r.fact_id, f.first_event_id, CASE WHEN f.subject_kind = 'rank' THEN CAST(f.subject AS INTEGER) END, r.role, r.explained_by, r.via"
        " FROM roles r JOIN facts f USING (fact_id) ORDER BY ALL"
    )
    con.execute(f"INSERT INTO timeline {sql_text('timeline')}")
