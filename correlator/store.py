"""The job file: a DuckDB database that is written once, then reopened read-only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from correlator.parsers.schema import Problem, Stamp

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from correlator.parsers.pipeline import Part


def sql_text(name: str) -> str:
    """Text of ``correlator/sql/NAME.sql``."""
    return (resources.files("correlator") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def create(path: str) -> duckdb.DuckDBPyConnection:
    """A new job file with empty tables."""
    import duckdb

    con = duckdb.connect(path)
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET threads = 1")  # most jobs are small, where threads only cost start-up time
    con.execute(sql_text("tables"))
    return con


def open_readonly(path: str) -> duckdb.DuckDBPyConnection:
    """A finished job file. Nothing can be changed through this connection."""
    import duckdb

    con = duckdb.connect(path, read_only=True)
    con.execute("SET TimeZone = 'UTC'")
    return con


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]], columns: dict[str, pa.DataType]) -> None:
    """Inserts row tuples through Arrow (far cheaper than statement parameters)."""
    if not rows:
        return
    import pyarrow as pa

    arrays = [pa.array(list(column), type=kind) for column, kind in zip(zip(*rows, strict=True), columns.values(), strict=True)]
    batch = pa.table(arrays, names=list(columns))
    con.register("_incoming", batch)
    con.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM _incoming")
    con.unregister("_incoming")


def _us(stamp: Stamp | None, zone_us: int) -> int | None:
    """UTC microseconds; a stamp without a printed zone is shifted by the source's hint (``--tz``)."""
    if stamp is None or not stamp.has_date:
        return None
    return stamp.utc_us if stamp.offset_min is not None else stamp.naive_us - zone_us


def first(con: Any, sql: str, params: Sequence[Any] | None = None) -> tuple[Any, ...] | None:
    """First row of a query, fetched to its end (an unfinished result blocks the connection)."""
    rows = con.execute(sql, params or []).fetchall()
    return rows[0] if rows else None


def one(con: Any, sql: str, params: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """The row of a query that always has one, such as a count."""
    return con.execute(sql, params or []).fetchall()[0]


def insert_problems(con: duckdb.DuckDBPyConnection, problems: Sequence[Problem]) -> None:
    """Rows of ``problems`` that were found before any parsing."""
    import pyarrow as pa

    insert(con, "problems", [(p.path, p.line, p.kind, p.detail) for p in problems],
           {"path": pa.string(), "line": pa.int64(), "kind": pa.string(), "detail": pa.string()})  # fmt: skip


def write_parts(
    con: duckdb.DuckDBPyConnection, parts: Sequence[Part], ids: dict[tuple[int, str], int], launchers: dict[int, str | None], zones_us: dict[int, int]
) -> None:
    """Writes all parts. ``ids``: stream ids by (source_id, stream key); event ids follow sorted path and line."""
    import pyarrow as pa

    ts = pa.timestamp("us", tz="UTC")
    i32, i64, f64, text = pa.int32(), pa.int64(), pa.float64(), pa.string()
    sources, streams, events, steps, configs, problems = [], [], [], [], [], []
    event_id = 0
    for part in parts:
        zone = zones_us.get(part.source_id, 0)
        sources.append((part.source_id, part.path, part.bytes, part.lines, part.format, launchers.get(part.source_id),
                        _us(part.first, zone), _us(part.last, zone), part.steps_total))  # fmt: skip
        for key, info in part.streams.items():
            sid = ids[part.source_id, key]
            streams.append((sid, part.source_id, key, info.last_line, info.last_text, info.unit, "torn" if part.torn else "open"))
        for ev in sorted(part.events, key=lambda e: (e.line, e.line_end)):
            stamp = ev.stamp
            events.append((
                event_id, part.source_id, ids[part.source_id, ev.stream], ev.line, ev.line_end, ev.byte_offset,
                stamp.text if stamp else None, _us(stamp, zone), stamp.resolution_us if stamp else None, ev.ts_origin,
                ev.rank, ev.step, ev.pg, ev.seq, ev.op, ev.level, ev.source, ev.kind, ev.peer_rank, ev.peer_host,
                ev.duration_ms, json.dumps(ev.attrs, default=str), ev.message,
            ))  # fmt: skip
            event_id += 1
        for st in part.steps:
            steps.append((part.source_id, ids[part.source_id, st.stream], st.line, st.rank, st.step, _us(st.stamp, zone),
                          st.stamp.resolution_us if st.stamp else None, st.loss, st.grad_norm, st.loss_scale, st.skipped,
                          st.duration_ms, part.steps_every))  # fmt: skip
        configs.extend((part.source_id, None, key, value, origin, line) for line, _, key, value, origin in part.configs)
        problems.extend((p.path, p.line, p.kind, p.detail) for p in part.problems)
    if len(events) + len(steps) > 50_000:
        con.execute("RESET threads")
    insert(con, "sources", sources, {"source_id": i32, "path": text, "bytes": i64, "lines": i64, "format": text,
                                     "launcher": text, "first_ts": ts, "last_ts": ts, "steps_total": i64})  # fmt: skip
    insert(con, "streams", streams, {"stream_id": i32, "source_id": i32, "key": text, "last_line": i64, "last_text": text, "unit": text, "ending": text})
    insert(con, "event_rows", events, {
        "event_id": i64, "source_id": i32, "stream_id": i32, "line": i64, "line_end": i64, "byte_offset": i64, "ts_raw": text,
        "ts_utc": ts, "ts_resolution_us": i64, "ts_origin": text, "rank_on_line": i32, "step": i64, "pg": text, "seq": i64,
        "op": text, "level": text, "source": text, "kind": text, "peer_rank": i32, "peer_host": text, "duration_ms": f64,
        "attrs": text, "message": text,
    })  # fmt: skip
    insert(con, "step_rows", steps, {"source_id": i32, "stream_id": i32, "line": i64, "rank_on_line": i32, "step": i64, "ts_utc": ts,
                                     "ts_resolution_us": i64, "loss": f64, "grad_norm": f64, "loss_scale": f64,
                                     "skipped": pa.bool_(), "duration_ms": f64, "every": i64})  # fmt: skip
    insert(con, "config", configs, {"source_id": i32, "rank": i32, "key": text, "value": text, "origin": text, "line": i64})
    insert(con, "problems", problems, {"path": text, "line": i64, "kind": text, "detail": text})
