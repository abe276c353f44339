"""Tables of a job as files for colleagues: Parquet with documented columns, CSV, JSONL, Arrow IPC."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from correlator.errors import CorrelatorError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = "1"
FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".arrow": "arrow", ".ipc": "arrow"}
COLUMN_DOCS = {
    "incident_id": "incident the row belongs to", "attempt": "restart attempt, from 0", "t_ms": "milliseconds since the incident's onset, null without a clock",
    "ts": "time of the event, UTC, skew-corrected", "ts_uncertainty_ms": "half width of that time, milliseconds", "order_basis": "what the order rests on: clock, line or none",
    "rank": "global rank of the writer, or of the process the event is about", "host": "host of the writer", "step": "training step printed with the event",
    "role": "initiating, propagated, teardown, benign or unknown", "kind": "predicate or structural kind of the event", "failure_class": "class of the incident",
    "message": "the quoted line", "path": "log file, relative to the given path", "line": "line number in it, from 1",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w*")


def timeline(job: Any, incident: str | None = None) -> pa.Table:
    """The ``timeline`` rows of one incident, the primary one by default; empty for a job without incident.

    Raises:
        CorrelatorError: there is no incident with that id.
    """
    known = [i["id"] for i in job.incidents]
    chosen = incident or (job.primary["id"] if job.primary else None)
    if chosen is not None and chosen not in known:
        raise CorrelatorError(f"no incident {chosen}", where=job.path, why=f"known incidents: {', '.join(known) or 'none'}", help="see: correlator diagnose")
    where = f"WHERE incident_id = '{chosen}'" if chosen else "WHERE false"
    return job.sql(f"SELECT * FROM timeline {where} ORDER BY ts NULLS LAST, path, line")


def export(job: Any, path: str, *, table: str = "timeline", incident: str | None = None, format: str | None = None) -> None:
    """Writes one table. The format follows the suffix unless it is given.

    Raises:
        CorrelatorError: unknown format or table, or the file cannot be written.
    """
    kind = format or FORMATS.get(Path(path).suffix.lower())
    if kind not in set(FORMATS.values()):
        raise CorrelatorError("unknown export format", where=path, why=f"suffix {Path(path).suffix or '(none)'}", help=f"use one of {', '.join(sorted(FORMATS))} or --format")
    if not _NAME.fullmatch(table):
        raise CorrelatorError("not a table name", where=table, why="names are letters, digits and _", help="SHOW TABLES lists them")
    data = timeline(job, incident) if table == "timeline" else job.sql(f"SELECT * FROM {table}")
    try:
        write(data, path, kind)
    except OSError as exc:
        raise CorrelatorError("cannot write the export", where=path, why=str(exc.strerror or exc), help="choose a writable path") from exc


def write(data: pa.Table, path: str, kind: str) -> None:
    """Writes an Arrow table in one of the formats."""
    import pyarrow as pa

    fields = [f.with_metadata({"doc": COLUMN_DOCS[f.name]}) if f.name in COLUMN_DOCS else f for f in data.schema]
    data = data.cast(pa.schema(fields, metadata={"schema_version": SCHEMA_VERSION, "writer": "correlator"}))
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(data, path, compression="zstd")
    elif kind == "csv":
        import pyarrow.csv as pc

        flat = [c.cast(pa.string()) if pa.types.is_nested(c.type) is False and pa.types.is_timestamp(c.type) else c for c in data.columns]
        pc.write_csv(pa.table(flat, names=data.column_names), path)
    elif kind == "arrow":
        with pa.OSFile(path, "wb") as f, pa.ipc.new_file(f, data.schema) as w:
            w.write_table(data)
    else:
        import json

        with Path(path).open("w", encoding="utf-8") as out:
            for row in data.to_pylist():
                out.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")
