"""The collective at which a group stood still: who had called it, who had not, who called something else."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from correlator.judge.causes import Cause
from correlator.store import first

_DECIDES = {"stalled", "busy", "mismatch", "never_arrived", "rank_slow", "p2p_stuck", "timed_out_waiting"}


def picture(con: Any, attempt: int, cause: Cause | None) -> dict[str, Any] | None:
    """``{pg, description, seq, op, present, absent, different: [{ranks, what}], unknown}`` of the call that decides, or None.

    present: ranks that made the call. absent: members that are known not to have made it. different: ranks whose operands
    differ from the majority's. unknown: members of whom the logs say nothing. Ranks are global and sorted; ``seq`` is
    None where messages carry no number.
    """
    if cause is not None and cause.predicate not in _DECIDES:
        return None
    chosen = _choose(con, attempt, cause)
    if chosen is None:
        return None
    pg, seq = chosen
    rows = con.execute(
        "SELECT rank, state, concat_ws(' ', op, numel_in, dtype), op FROM collectives WHERE attempt = ? AND pg = ? AND seq IS NOT DISTINCT FROM ? ORDER BY rank",
        [attempt, pg, seq],
    ).fetchall()
    absent = {r for r, state, _, _ in rows if state == "never_arrived"}
    different: dict[str, list[int]] = defaultdict(list)
    for r, state, what, _ in rows:
        if state == "mismatched":
            different[what].append(r)
    present = {r for r, state, _, _ in rows if state not in ("never_arrived", "mismatched")}
    if seq is not None:  # whoever made a later call had made this one
        present |= {
            r
            for (r,) in con.execute(
                "SELECT DISTINCT rank FROM collectives WHERE attempt = ? AND pg = ? AND seq > ? AND state <> 'never_arrived'", [attempt, pg, seq]
            ).fetchall()
        }
    present -= {r for ranks in different.values() for r in ranks} | absent
    members = con.execute("SELECT rank, description FROM process_groups WHERE attempt = ? AND pg = ?", [attempt, pg]).fetchall()
    ops = [op for _, state, _, op in rows if op and state != "mismatched"]
    return {
        "pg": pg, "description": next((d for _, d in members if d), None), "seq": seq, "op": max(set(ops), key=ops.count) if ops else None,
        "present": sorted(present), "absent": sorted(absent), "different": [{"ranks": ranks, "what": what} for what, ranks in sorted(different.items())],
        "unknown": sorted({r for r, _ in members} - present - absent - {r for ranks in different.values() for r in ranks}),
    }  # fmt: skip


def _choose(con: Any, attempt: int, cause: Cause | None) -> tuple[str, int | None] | None:
    """Group and number: those of the cause, else the call that tells most apart, the earliest of its group."""
    lead = cause.lead if cause is not None else None
    row = first(
        con,
        "SELECT pg, seq FROM collectives WHERE attempt = ? AND (awaited OR state = 'mismatched' OR seq IS NULL) GROUP BY pg, seq"
        " ORDER BY (pg IS NOT DISTINCT FROM ? AND seq IS NOT DISTINCT FROM ?) DESC, bool_or(state IN ('never_arrived', 'mismatched')) DESC, seq IS NULL, count(*) DESC, seq, pg LIMIT 1",
        [attempt, lead.pg if lead is not None and lead.pg else "?", lead.seq if lead is not None else None],
    )
    return (row[0], row[1]) if row else None
