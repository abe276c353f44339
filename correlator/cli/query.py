"""``correlator sql`` and ``correlator export``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from correlator.cli import common
from correlator.errors import CorrelatorError

ROW_CAP = 200


class Format(StrEnum):
    """Output formats of a query."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def sql(
    path: common.OnePath,
    query: Annotated[str | None, typer.Argument(help="One query; without it an interactive prompt.")] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", help="A file of queries, separated by semicolons.", metavar="FILE")] = None,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Write to a file (parquet needs one).", metavar="FILE")] = None,
    rules: common.Rules = None,
    world_size: common.WorldSize = None,
) -> None:
    """Ask your own question in SQL: read-only, no file or network access."""
    with common.open_any([path], rules=rules or (), world_size=world_size) as job:
        if query is not None:
            _show(job.sql(query), format, output)
        elif file is not None:
            for statement in _statements(file):
                _show(job.sql(statement), format, output)
        else:
            _prompt(job, format)


def export(
    path: common.OnePath,
    output: Annotated[str, typer.Option("--output", "-o", help="timeline.parquet, .csv, .jsonl or .arrow.", metavar="FILE")],
    incident: Annotated[str | None, typer.Option("--incident", help="Incident id; default the primary.")] = None,
    table: Annotated[str, typer.Option("--table", help="Another table of the job.")] = "timeline",
    format: Annotated[str | None, typer.Option("--format", help="parquet, csv, jsonl or arrow, against the suffix.")] = None,
    rules: common.Rules = None,
    world_size: common.WorldSize = None,
) -> None:
    """Write the incident's timeline (or a table) for colleagues."""
    with common.open_any([path], rules=rules or (), world_size=world_size) as job:
        job.export(output, table=table, incident=incident, format=format)
    typer.echo(output, err=True)


def _statements(file: str) -> list[str]:
    import duckdb

    try:
        text = Path(file).read_text(encoding="utf-8")
        return [s.query for s in duckdb.extract_statements(text)]
    except (OSError, duckdb.Error) as exc:
        raise CorrelatorError("cannot read the queries", where=file, why=str(exc).splitlines()[0], help="a text file with SELECT statements") from exc


def _prompt(job: Any, format: Format) -> None:
    if sys.stdin.isatty():
        import readline  # noqa: F401  line editing and history of the prompt

        print("tables: events, facts, edges, incidents, timeline, ranks, steps, collectives, clocks, streams, sources, config, problems; end with Ctrl-D")
    buffer = ""
    while True:
        try:
            buffer += input("sql> " if not buffer and sys.stdin.isatty() else "") + "\n"
        except EOFError:
            if not buffer.strip():
                return
        if not buffer.rstrip().endswith(";") and buffer.strip() and sys.stdin.isatty():
            continue
        try:
            if buffer.strip():
                _show(job.sql(buffer), format, None)
        except CorrelatorError as exc:
            print(exc, file=sys.stderr)
        buffer = ""


def _show(table: Any, format: Format, output: str | None) -> None:
    if format is Format.parquet:
        if output is None:
            raise CorrelatorError("parquet needs a file", where="--format parquet", why="it is not text", help="add -o FILE")
        from correlator.export import write

        write(table, output, "parquet")
    elif format is Format.csv:
        import csv
        import io

        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows([["" if v is None else v for v in row.values()] for row in table.to_pylist()])
        common.emit(buffer.getvalue(), output)
    elif format is Format.json:
        import json

        common.emit(json.dumps(table.to_pylist(), indent=1, default=str, ensure_ascii=False) + "\n", output)
    else:
        common.emit(_table(table), output)


def _table(table: Any) -> str:
    """Aligned columns; long cells are cut, many rows are counted."""
    names = table.column_names
    rows = [["" if v is None else " ".join(str(v).split()) for v in row.values()] for row in table.slice(0, ROW_CAP).to_pylist()]
    cap = 60 if len(names) > 2 else 160
    rows = [[c if len(c) <= cap else c[: cap - 3] + "..." for c in row] for row in rows]
    widths = [max([len(n), *(len(r[k]) for r in rows)]) for k, n in enumerate(names)]
    out = ["  ".join(n.ljust(w) for n, w in zip(names, widths, strict=True)).rstrip(), "  ".join("-" * w for w in widths)]
    out += ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    n = table.num_rows
    out.append(f"({n} row{'s' if n != 1 else ''}{f', first {ROW_CAP} shown' if n > ROW_CAP else ''})")
    return "\n".join(out) + "\n"
