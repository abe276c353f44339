"""Writes identity, clocks, ranks and collectives of a job file, from what the parts say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from correlator.align.groups import settle_groups
from correlator.align.identity import Identity
from correlator.store import insert, one, sql_text

if TYPE_CHECKING:
    import duckdb

MIN_SHIFT_MS = 1000.0  # differences below this are not corrected: they drown in printing and buffering


def align(con: duckdb.DuckDBPyConnection, identity: Identity) -> None:
    """Fills streams, clocks, ranks, process_groups and collectives; leaves the temp table ``ev`` for the judge."""
    _streams(con, identity)
    _clocks(con)
    con.execute("CREATE OR REPLACE TEMP TABLE ev AS SELECT * FROM events")
    _ranks(con, identity)
    collectives(con)


def collectives(con: duckdb.DuckDBPyConnection) -> None:
    """Fills process_groups and collectives from ``ev`` and ``ranks``; parts that have nothing to work on are not run."""
    settle_groups(con)
    numbered, others = con.execute(
        "SELECT count(*) FILTER (WHERE seq IS NOT NULL OR kind IN ('pg_status', 'fr_dump') OR (attrs->>'at_seq') IS NOT NULL),"
        " count(*) FILTER (WHERE kind IN ('accused', 'timed_out_waiting')) FROM ev WHERE kind IN"
        " ('timed_out_waiting', 'enqueued', 'completed', 'pg_status', 'mismatch', 'fr_dump', 'accused')"
    ).fetchall()[0]
    if numbered:
        con.execute(f"INSERT INTO collectives {sql_text('collectives')}")
        con.execute(  # a rank that speaks through its flight recorder alone
            "UPDATE ranks SET state = 'waiting' WHERE state = 'silent' AND (attempt, rank) IN (SELECT (attempt, rank) FROM collectives"
            " WHERE awaited AND basis = 'dump' AND completed_ts IS NULL AND state IN ('enqueued', 'started', 'timed_out', 'mismatched'))"
        )
    if others:
        con.execute(f"INSERT INTO collectives {sql_text('unnumbered_waits')}")


def _streams(con: duckdb.DuckDBPyConnection, identity: Identity) -> None:
    import pyarrow as pa

    rows = [(s.stream_id, s.key_kind, s.host, s.pid, s.node_rank, s.rank, s.local_rank, s.attempt, s.evidence) for s in identity.streams]
    con.execute(
        "CREATE OR REPLACE TEMP TABLE resolved(stream_id INTEGER, key_kind VARCHAR, host VARCHAR, pid BIGINT, node_rank INTEGER,"
        " rank INTEGER, local_rank INTEGER, attempt INTEGER, evidence VARCHAR)"
    )
    i32, i64, text = pa.int32(), pa.int64(), pa.string()
    insert(con, "resolved", rows, {"stream_id": i32, "key_kind": text, "host": text, "pid": i64, "node_rank": i32, "rank": i32,
                                   "local_rank": i32, "attempt": i32, "evidence": text})  # fmt: skip
    # a stream that spans a restart becomes one stream per attempt
    for old, first_line, new in sorted(identity.moves, key=lambda m: m[1]):
        con.execute(
            "INSERT INTO streams SELECT ?, source_id, key_kind, key, host, pid, node_rank, rank, local_rank, attempt, evidence, ending,"
            " last_line, last_text, unit FROM streams WHERE stream_id = ?",
            [new, old],
        )
        for table in ("event_rows", "step_rows"):
            con.execute(
                f"UPDATE {table} SET stream_id = ? WHERE line >= ? AND stream_id IN"
                " (SELECT stream_id FROM streams WHERE (source_id, key) = (SELECT (source_id, key) FROM streams WHERE stream_id = ?))",
                [new, first_line, old],
            )
    con.execute(
        "UPDATE streams SET key_kind = r.key_kind, host = r.host, pid = r.pid, node_rank = r.node_rank, rank = r.rank,"
        " local_rank = r.local_rank, attempt = r.attempt, evidence = r.evidence FROM resolved r WHERE streams.stream_id = r.stream_id"
    )


def _clocks(con: duckdb.DuckDBPyConnection) -> None:
    hosts = one(con, "SELECT count(DISTINCT host) FROM streams WHERE host IS NOT NULL")
    if hosts is None or hosts[0] < 2:
        return
    con.execute(f"INSERT INTO clocks (host, offset_ms, low_ms, high_ms, barriers) {sql_text('clocks')}")
    con.execute("UPDATE clocks SET utc_offset = printf('%+.2f h', offset_ms / 3600000.0) WHERE abs(offset_ms) >= 900000")
    con.execute("UPDATE clocks SET offset_ms = 0 WHERE abs(offset_ms) < ? OR (low_ms <= 0 AND high_ms >= 0)", [MIN_SHIFT_MS])


def _ranks(con: duckdb.DuckDBPyConnection, identity: Identity) -> None:
    import pyarrow as pa

    i32, i64, text = pa.int32(), pa.int64(), pa.string()
    con.execute("CREATE OR REPLACE TEMP TABLE world(attempt INTEGER, rank INTEGER)")
    insert(con, "world", [(a, r) for a in range(identity.attempts) for r in range(identity.world_size or 0)], {"attempt": i32, "rank": i32})
    con.execute("CREATE OR REPLACE TEMP TABLE known_ranks(attempt INTEGER, rank INTEGER, host VARCHAR, local_rank INTEGER, pid BIGINT, gpu INTEGER, pci_bus VARCHAR)")
    rows = [(a, r, k.get("host"), k.get("local_rank"), k.get("pid"), k.get("gpu"), k.get("pci_bus")) for (a, r), k in sorted(identity.known.items()) if r >= 0]
    rows = [(a, r, h, _int(lr), _int(p), _int(g), b) for a, r, h, lr, p, g, b in rows]
    insert(con, "known_ranks", rows, {"attempt": i32, "rank": i32, "host": text, "local_rank": i32, "pid": i64, "gpu": i32, "pci_bus": text})
    con.execute(f"INSERT INTO ranks {sql_text('ranks')}")


def _int(value: object) -> int | None:
    try:
        return None if value is None else int(str(value))
    except ValueError:
        return None
