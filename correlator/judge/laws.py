"""Loads and runs the laws: SQL files whose header says what they claim and when they may run.

Four strata, each reading only earlier ones: ``derive`` (facts from words and records), ``exclude``
(facts that were handled or counted twice), ``absence`` (facts from what did not happen, which need to
know which words still stand), ``explain`` (edges from cause to effect).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from correlator.errors import CorrelatorError

if TYPE_CHECKING:
    import duckdb

STRATA = ("derive", "exclude", "absence", "explain")
FACT_COLUMNS = (
    "attempt, predicate, subject_kind, subject, object_kind, object, onset_low, onset_high, pg, seq, step, coverage, events, first_event_id, last_event_id, attrs"
)
_HEADER = re.compile(r"^-- (law|stratum|needs|claim|source): (.*)$", re.M)


@dataclass(slots=True, frozen=True)
class Law:
    """One law. ``needs``: predicates or event kinds of which at least one must be there, else the law is skipped."""

    name: str
    stratum: str
    claim: str
    needs: frozenset[str]
    sql: str
    file: str


@lru_cache(maxsize=1)
def load_laws() -> tuple[Law, ...]:
    """All laws in file order.

    Raises:
        CorrelatorError: a header is incomplete.
    """
    laws = []
    folder = resources.files("correlator.rules") / "laws"
    for entry in sorted(folder.iterdir(), key=lambda p: p.name):
        if not entry.name.endswith(".sql"):
            continue
        text = entry.read_text(encoding="utf-8")
        head = dict(_HEADER.findall(text))
        if not {"law", "stratum", "claim"} <= head.keys() or head["stratum"] not in STRATA:
            raise CorrelatorError(f"law without a complete header: {entry.name}", where=f"rules/laws/{entry.name}:1",
                                  why="every law states -- law:, -- stratum: and -- claim:", help=f"stratum is one of {', '.join(STRATA)}")  # fmt: skip
        needs = frozenset(n.strip() for n in head.get("needs", "").split(",") if n.strip())
        laws.append(Law(head["law"], head["stratum"], head["claim"], needs, text, entry.name))
    return tuple(sorted(laws, key=lambda law: STRATA.index(law.stratum)))


def run_laws(con: duckdb.DuckDBPyConnection, only: set[str] | None = None) -> None:
    """Derives facts, marks the excluded ones and draws edges. Needs ev, ranks, steps and predicates.

    ``only``: names of the laws to run (tests); all if None.
    """
    # what there is to reason about: event kinds, then predicates; a law that needs none of it is not run (10 ms each)
    seen = {k for (k,) in con.execute("SELECT DISTINCT kind FROM ev").fetchall()}
    bad, hosts = con.execute(
        "SELECT (SELECT count(*) FROM step_rows WHERE NOT isfinite(loss) OR NOT isfinite(grad_norm)), (SELECT count(DISTINCT host) FROM ranks)"
    ).fetchall()[0]
    seen |= ({"non-finite step"} if bad else set()) | ({"several hosts"} if hosts > 1 else set())
    present: set[str] = set(seen)
    hubs_made = False
    for law in load_laws():
        if (law.needs and not (law.needs & present)) or (only is not None and law.name not in only):
            continue
        if law.stratum in ("derive", "absence"):
            con.execute(
                f"INSERT INTO facts (fact_id, status, {FACT_COLUMNS}) SELECT (SELECT coalesce(max(fact_id), -1) FROM facts) +"
                f" row_number() OVER (ORDER BY attempt, predicate, subject_kind, subject, object, seq), 'active', {FACT_COLUMNS} FROM ({law.sql})"
            )
            present = seen | _active(con)
        elif law.stratum == "exclude":
            con.execute(
                f"UPDATE facts SET status = x.status, attrs = json_merge_patch(attrs, json_object('excluded', x.why)) FROM ({law.sql}) x WHERE facts.fact_id = x.fact_id AND facts.status = 'active'"
            )
            present = seen | _active(con)
        else:
            if not hubs_made:
                _make_hubs(con)
                hubs_made = True
            con.execute(
                f"INSERT INTO edges (attempt, cause, effect, law, grade, basis, why) SELECT attempt, cause, effect, '{law.name}', grade, basis, why FROM ({law.sql})"
            )


def _active(con: duckdb.DuckDBPyConnection) -> set[str]:
    return {p for (p,) in con.execute("SELECT DISTINCT predicate FROM facts WHERE status = 'active'").fetchall()}


def _make_hubs(con: duckdb.DuckDBPyConnection) -> None:
    """One hub an attempt: the job's group, through which one end reaches every waiting rank."""
    con.execute(
        f"INSERT INTO facts (fact_id, status, {FACT_COLUMNS}) SELECT (SELECT max(fact_id) FROM facts) + row_number() OVER (ORDER BY attempt), 'active',"
        " attempt, 'group_broken', 'job', 'job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, '{}'"
        " FROM (SELECT DISTINCT f.attempt FROM facts f JOIN predicates p USING (predicate) WHERE f.status = 'active'"
        " AND p.can_initiate = 'no' AND f.predicate NOT IN ('warned', 'teardown_noise', 'group_broken'))"
    )
