"""Tables of a job as files for colleagues: Parquet with documented columns, CSV, JSONL, Arrow IPC."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from correlator.errors import CorrelatorError
from correlator.export.columns import DOCS

if TYPE_CHECKING:
    import pyarrow as pa

    from correlator.api import Job

SCHEMA_VERSION = "1"
FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".arrow": "arrow", ".ipc": "arrow"}
_NAME = re.compile(r"[A-Za-z_]\w*")


def timeline(job: Job, incident: str | None = None) -> pa.Table:
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


def export(job: Job, path: str, *, table: str = "timeline", incident: str | None = None, format: str | None = None) -> None:
    """Writes one table. The format follows the suffix unless it is given.

    Raises:
        CorrelatorError: unknown format, table or incident, or the file cannot be written.
    """
    kind = format or FORMATS.get(Path(path).suffix.lower())
    if kind not in set(FORMATS.values()):
        why = f"--format {format}" if format else f"suffix {Path(path).suffix or '(none)'}"
        raise CorrelatorError(
            "unknown export format", where=path, why=why, help=f"use one of {', '.join(sorted(FORMATS))}, or --format {'|'.join(sorted(set(FORMATS.values())))}"
        )
    if not _NAME.fullmatch(table):
        raise CorrelatorError("not a table name", where=table, why="names are letters, digits and _", help="SHOW TABLES lists them")
    if incident is not None and table != "timeline":
        raise CorrelatorError("--incident goes with the timeline only", where=table, why="the other tables hold the whole job", help="use correlator sql with a WHERE")
    write(timeline(job, incident) if table == "timeline" else job.sql(f"SELECT * FROM {table}"), path, kind)


def write(data: pa.Table, path: str, kind: str) -> None:
    """Writes an Arrow table as ``parquet``, ``csv``, ``jsonl`` or ``arrow``.

    Parquet and Arrow carry the meaning of known columns in the field metadata (key ``doc``) and ``schema_version`` in
    the metadata of the file.

    Raises:
        CorrelatorError: the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [f.with_metadata({"doc": DOCS[f.name]}) if f.name in DOCS else f for f in data.schema]
    data = data.cast(pa.schema(fields, metadata={"schema_version": SCHEMA_VERSION, "writer": "correlator"}))
    try:
        if kind == "parquet":
            pq.write_table(data, path, compression="zstd")
        elif kind == "arrow":
            with pa.OSFile(path, "wb") as out, pa.ipc.new_file(out, data.schema) as writer:
                writer.write_table(data)
        else:
            Path(path).write_text(csv_text(data) if kind == "csv" else jsonl_text(data), encoding="utf-8")
    except OSError as exc:
        raise CorrelatorError("cannot write the file", where=path, why=str(exc.strerror or exc), help="choose a writable path") from exc


def plain(data: pa.Table) -> Iterator[list[Any]]:
    """Rows for text formats: times are ISO 8601 in UTC to the microsecond, the rest as Python values."""
    # by column, since two columns of a query may have one name
    for row in zip(*(column.to_pylist() for column in data.columns), strict=True):
        yield [_iso(v) if isinstance(v, datetime) else v for v in row]


def csv_text(data: pa.Table) -> str:
    """CSV with a header; null is empty, lists are JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(data.column_names)
    writer.writerows([json.dumps(v, default=str) if isinstance(v, list | dict) else v for v in row] for row in plain(data))
    return out.getvalue()


def jsonl_text(data: pa.Table) -> str:
    """One JSON object a line."""
    return "".join(_json(data.column_names, row) + "\n" for row in plain(data))


def json_text(data: pa.Table) -> str:
    """A JSON array with one object a line."""
    return "[\n" + ",\n".join(_json(data.column_names, row) for row in plain(data)) + "\n]\n"


def _json(names: list[str], row: list[Any]) -> str:
    # JSON has no NaN or infinity, and a loss can be either
    cells = [None if isinstance(v, float) and (v != v or v in (float("inf"), float("-inf"))) else v for v in row]
    return json.dumps(dict(zip(names, cells, strict=True)), default=str, ensure_ascii=False)


def _iso(value: datetime) -> str:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
