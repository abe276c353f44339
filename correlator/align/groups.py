"""Process groups: who is a member, and which global rank a number inside a group means.

A sequence number is comparable inside one group only, and gloo, the desync report, fingerprints and RAS count
ranks inside their group. Memberships come from flight-recorder dumps (``pg_config``), from c10d prefixes
(``[rank17]: ... [PG ID 1 PG GUID 3(tp) Rank 1]`` ties a global rank to its place) and from NCCL Init lines.
Written to ``process_groups``; events in ``ev`` get their group and global numbers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from correlator.parsers.sources.group_ranks import expand
from correlator.store import insert

if TYPE_CHECKING:
    import duckdb

DEFAULT = "0"  # the default group: all ranks, in their global order
UNKNOWN = "?"  # appended to the name of a group that cannot be told from others: nothing is compared in it

_KINDS = ("pg_status", "enqueued", "completed", "accused", "mismatch", "fr_dump", "watchdog_stuck", "init_done")


@dataclass(slots=True)
class Group:
    """Members by place in the group. ``size`` is known where a list or an Init line told it."""

    places: dict[int, int] = field(default_factory=dict)  # place -> global rank
    size: int | None = None
    description: str | None = None

    @property
    def complete(self) -> bool:
        """Every member is known."""
        return self.size is not None and len(self.places) == self.size

    def place_of(self, rank: int) -> int | None:
        """Number of a global rank in this group."""
        return next((p for p, r in self.places.items() if r == rank), None)


def settle_groups(con: duckdb.DuckDBPyConnection) -> None:
    """Fills ``process_groups`` and corrects group, ranks and certainty of the events that speak of groups."""
    con.execute("UPDATE ev SET pg = '0' WHERE pg = 'default_pg'")
    _attempts_of_dumps(con)
    con.execute("INSERT INTO process_groups SELECT attempt, '0', rank, rank, count(*) OVER (PARTITION BY attempt), 'default_pg', true FROM ranks")
    kinds = ", ".join(f"'{k}'" for k in _KINDS)
    if not con.execute(f"SELECT count(*) FROM ev WHERE kind IN ({kinds}) OR (kind = 'timed_out_waiting' AND seq IS NOT NULL)").fetchall()[0][0]:
        return
    groups = _listed(con)
    _paired(con, groups)
    _initialised(con, groups)
    _groups_of_waits(con)
    _write(con, groups)
    _global_numbers(con, groups)
    _processes(con)


def _attempts_of_dumps(con: Any) -> None:
    """Dump files carry no attempt and a restart overwrites them: they are of the last attempt that was under way at their newest call."""
    if con.execute("SELECT count(DISTINCT attempt) FROM ranks").fetchall()[0][0] < 2:
        return
    con.execute(
        "UPDATE ev SET attempt = x.attempt FROM (WITH begun AS (SELECT attempt, min(first_ts) AS ts FROM ranks GROUP BY attempt),"
        " dumps AS (SELECT source_id, max(make_timestamptz(TRY_CAST((attrs->>'newest_us') AS BIGINT))) AS ts FROM ev WHERE kind = 'fr_dump' GROUP BY source_id)"
        " SELECT d.source_id, coalesce(max(b.attempt) FILTER (WHERE b.ts <= d.ts), max(b.attempt)) AS attempt FROM dumps d CROSS JOIN begun b GROUP BY d.source_id) x"
        " WHERE ev.source_id = x.source_id AND ev.source = 'flight_recorder'"
    )


def _listed(con: Any) -> dict[tuple[int, str], Group]:
    """Groups whose members a dump lists. Two lists under one name are two groups: a mesh names its rows alike."""
    rows = con.execute(
        "SELECT attempt, pg, attrs->>'group_ranks' AS members, any_value(attrs->>'desc') FROM ev WHERE kind = 'mapping' AND pg IS NOT NULL"
        " AND (attrs->>'group_ranks') IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    lists: dict[tuple[int, str], list[tuple[list[int], str | None]]] = defaultdict(list)
    for attempt, pg, members, desc in rows:
        lists[attempt, pg].append((expand(json.loads(members) if members.startswith("[") else members), desc))
    groups: dict[tuple[int, str], Group] = {}
    renamed: list[tuple[int, str, int, str]] = []
    for (attempt, pg), found in lists.items():
        if pg == DEFAULT:
            continue
        taken: set[int] = set()
        apart = len(found) > 1 and all(not (taken & set(m)) and not taken.update(m) for m, _ in found)
        for members, desc in found if apart or len(found) == 1 else []:
            name = f"{pg}@{min(members)}" if apart else pg
            groups[attempt, name] = Group(dict(enumerate(members)), len(members), desc)
            if apart:
                renamed.extend((attempt, pg, rank, name) for rank in members)
        if len(found) > 1 and not apart:  # lists that overlap: the name is no key
            renamed.extend((attempt, pg, rank, pg + UNKNOWN) for members, _ in found for rank in members)
    _rename(con, renamed)
    return groups


def _paired(con: Any, groups: dict[tuple[int, str], Group]) -> None:
    """Groups known from c10d prefixes only, member by member."""
    rows = con.execute(
        "SELECT DISTINCT attempt, pg, TRY_CAST((attrs->>'group_rank') AS INTEGER), rank, attrs->>'desc' FROM ev WHERE source = 'c10d_nccl' AND pg IS NOT NULL"
        " AND pg <> '0' AND rank IS NOT NULL AND (attrs->>'group_rank') IS NOT NULL AND (attrs->>'assumed_rank') IS NULL ORDER BY ALL"
    ).fetchall()
    found: dict[tuple[int, str], Group] = {}
    doubtful: list[tuple[int, str, int, str]] = []
    for attempt, pg, place, rank, desc in rows:
        if (attempt, pg) in groups:
            continue
        group = found.setdefault((attempt, pg), Group(description=desc))
        if group.places.setdefault(place, rank) != rank:
            doubtful.append((attempt, pg, rank, pg + UNKNOWN))
    for attempt, pg in {(a, p) for a, p, _, _ in doubtful}:
        doubtful.extend((attempt, pg, r, pg + UNKNOWN) for r in found.pop((attempt, pg)).places.values())
    _rename(con, doubtful)
    groups.update(found)


def _initialised(con: Any, groups: dict[tuple[int, str], Group]) -> None:
    """NCCL communicators; the calls of one are kept in the group ``nccl:KEY``. Keys shared by too many ranks are no keys."""
    rows = con.execute(
        "SELECT DISTINCT attempt, 'nccl:' || pg, TRY_CAST((attrs->>'comm_rank') AS INTEGER), rank, TRY_CAST((attrs->>'nranks') AS INTEGER) FROM ev"
        " WHERE kind IN ('init_start', 'init_done') AND pg IS NOT NULL AND rank IS NOT NULL AND (attrs->>'comm_rank') IS NOT NULL ORDER BY ALL"
    ).fetchall()
    doubtful: set[tuple[int, str]] = set()
    for attempt, pg, place, rank, size in rows:
        group = groups.setdefault((attempt, pg), Group(size=size))
        if group.places.setdefault(place, rank) != rank:
            doubtful.add((attempt, pg))
    crowded = con.execute(
        "SELECT attempt, pg FROM ev WHERE kind = 'enqueued' AND pg LIKE 'nccl:%' AND rank IS NOT NULL GROUP BY ALL"
        " HAVING count(DISTINCT rank) > max(TRY_CAST((attrs->>'nranks') AS INTEGER))"
    ).fetchall()
    for attempt, pg in doubtful | set(crowded):
        groups.pop((attempt, pg), None)
        con.execute("UPDATE ev SET pg = pg || '?' WHERE attempt = ? AND pg = ? AND kind = 'enqueued'", [attempt, pg])


def _rename(con: Any, rows: list[tuple[int, str, int, str]]) -> None:
    if not rows:
        return
    import pyarrow as pa

    con.execute("CREATE OR REPLACE TEMP TABLE regrouped(attempt INTEGER, pg VARCHAR, rank INTEGER, name VARCHAR)")
    insert(con, "regrouped", rows, {"attempt": pa.int32(), "pg": pa.string(), "rank": pa.int32(), "name": pa.string()})
    con.execute(
        "UPDATE ev SET pg = x.name FROM (SELECT attempt, pg, rank, min(name) AS name FROM regrouped GROUP BY ALL) x"
        " WHERE ev.attempt = x.attempt AND ev.pg = x.pg AND ev.rank = x.rank"
    )


def _groups_of_waits(con: Any) -> None:
    """A ``WorkNCCL`` text has no group: the status line of the same writer and work has. Without one, the place in the
    text that differs from the global rank proves that it is not the default group."""
    con.execute(
        "UPDATE ev SET pg = x.pg FROM (SELECT w.event_id, arg_min(s.pg, abs(s.event_id - w.event_id)) AS pg FROM ev w JOIN ev s ON s.attempt = w.attempt"
        " AND s.rank = w.rank AND s.kind = 'pg_status' AND s.pg IS NOT NULL AND TRY_CAST((s.attrs->>'work') AS BIGINT) = w.seq"
        " WHERE w.kind = 'timed_out_waiting' AND w.pg IS NULL AND w.seq IS NOT NULL GROUP BY w.event_id) x WHERE ev.event_id = x.event_id"
    )
    con.execute(
        "UPDATE ev SET pg = '?' WHERE kind = 'timed_out_waiting' AND pg IS NULL AND seq IS NOT NULL AND rank IS NOT NULL"
        " AND (attrs->>'assumed_rank') IS NULL AND TRY_CAST((attrs->>'group_rank') AS INTEGER) <> rank"
    )


def _write(con: Any, groups: dict[tuple[int, str], Group]) -> None:
    import pyarrow as pa

    rows = [(a, pg, rank, place, g.size, g.description, g.complete) for (a, pg), g in sorted(groups.items()) for place, rank in sorted(g.places.items())]
    i32, text = pa.int32(), pa.string()
    insert(con, "process_groups", rows, {"attempt": i32, "pg": text, "rank": i32, "group_rank": i32, "size": i32, "description": text, "complete": pa.bool_()})
    # ranks that made calls in a group whose members nobody lists
    con.execute(
        "INSERT INTO process_groups SELECT DISTINCT e.attempt, e.pg, e.rank, CAST(NULL AS INTEGER), CAST(NULL AS INTEGER), CAST(NULL AS VARCHAR), false FROM ev e"
        " WHERE e.kind IN ('enqueued', 'pg_status') AND e.rank IS NOT NULL AND e.pg IS NOT NULL AND e.pg NOT LIKE '%?'"
        " AND NOT EXISTS (SELECT 1 FROM process_groups g WHERE g.attempt = e.attempt AND g.pg = e.pg AND g.rank = e.rank)"
        " AND NOT EXISTS (SELECT 1 FROM process_groups g WHERE g.attempt = e.attempt AND g.pg = e.pg AND g.complete)"
    )


# ---- numbers inside a group ---------------------------------------------------------------------
def _global_numbers(con: Any, groups: dict[tuple[int, str], Group]) -> None:
    """Statements in group numbers (desync, monitored barrier, fingerprint) get the global ranks, if one reading fits."""
    rows = con.execute(
        "SELECT event_id, attempt, pg, rank, peer_rank, attrs FROM ev WHERE kind IN ('accused', 'mismatch', 'store_wait', 'lost_store')"
        " AND (attrs->>'group_local') = 'true' ORDER BY event_id"
    ).fetchall()
    if not rows or not groups:
        return
    by_member: dict[tuple[int, int, int], list[Group]] = defaultdict(list)  # attempt, global rank, place -> groups
    for (attempt, pg), group in groups.items():
        if not pg.startswith("nccl:"):
            for place, rank in group.places.items():
                by_member[attempt, rank, place].append(group)
    changed: list[tuple[int, int | None, str]] = []
    for event_id, attempt, pg, rank, peer, text in rows:
        attrs = json.loads(text)
        place = next((attrs[k] for k in ("group_rank", "group_self_rank", "self_rank") if attrs.get(k) is not None), None)
        if pg is not None and pg != DEFAULT:
            fits = [groups[attempt, pg]] if (attempt, pg) in groups else []
        elif pg is None and rank is not None and place is not None:
            fits = by_member.get((attempt, int(rank), int(place)), [])
        else:
            continue
        if fits and (new := _translate(attrs, peer, fits, maybe_default=pg is None and place == rank)) is not None:
            changed.append((event_id, *new))
    if changed:
        import pyarrow as pa

        con.execute("CREATE OR REPLACE TEMP TABLE renumbered(event_id BIGINT, peer_rank INTEGER, attrs VARCHAR)")
        insert(con, "renumbered", changed, {"event_id": pa.int64(), "peer_rank": pa.int32(), "attrs": pa.string()})
        con.execute("UPDATE ev SET peer_rank = x.peer_rank, attrs = CAST(x.attrs AS JSON) FROM renumbered x WHERE ev.event_id = x.event_id")


def _translate(attrs: dict[str, Any], peer: int | None, fits: list[Group], *, maybe_default: bool) -> tuple[int | None, str] | None:
    """Peer rank and attrs in global numbers. Readings that disagree leave an accusation unreliable."""
    names = {"self_rank": "group_self_rank", "other_rank": "group_other_rank"}
    local = {n: attrs.get(g, attrs.get(n)) for n, g in names.items()}
    listed = attrs.get("ranks")
    spoken = attrs.get("peer_group_rank", peer if "peer_group_rank" not in attrs else None)
    wanted = [*(listed or ()), *(v for v in local.values() if v is not None), *((spoken,) if spoken is not None else ())]
    readings = [{int(n): g.places.get(int(n)) for n in wanted} for g in fits]
    if maybe_default:
        readings.append({int(n): int(n) for n in wanted})
    out = dict(attrs)
    if any(r != readings[0] for r in readings) or None in readings[0].values():
        out["reliable"] = False
        for n in names:
            out.pop(n, None)
        return None, json.dumps(out)
    places = readings[0]
    if listed is not None:
        out["ranks"] = sorted(places[int(n)] for n in listed)  # type: ignore[type-var]
    for n, value in local.items():
        if value is not None:
            out[n] = places[int(value)]
    out["reliable"], out["group_local"] = True, False
    return (places[int(spoken)] if spoken is not None else None), json.dumps(out)


def _processes(con: Any) -> None:
    """RAS names processes by pid and node: the rank whose process it is, if exactly one rank has that pid on that node."""
    con.execute(
        "UPDATE ev SET peer_rank = x.rank, attrs = json_merge_patch(ev.attrs, '{\"reliable\": true}') FROM ("
        "SELECT e.event_id, any_value(r.rank) AS rank FROM ev e JOIN ranks r ON r.attempt = e.attempt AND r.pid = TRY_CAST((e.attrs->>'pid') AS BIGINT)"
        " AND (split_part(e.peer_host, '.', 1) = split_part(r.host, '.', 1) OR (SELECT count(DISTINCT coalesce(o.host, '')) FROM ranks o WHERE o.attempt = e.attempt) = 1)"
        " WHERE e.source = 'nccl_ras' AND e.kind = 'accused' GROUP BY e.event_id HAVING count(DISTINCT r.rank) = 1) x WHERE ev.event_id = x.event_id"
    )
