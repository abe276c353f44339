"""``correlator sql`` and ``correlator export``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from correlator.cli import common
from correlator.errors import CorrelatorError

if TYPE_CHECKING:
    import pyarrow as pa

    from correlator.api import Job

ROW_CAP = 200
_BANNER = (
    "tables: incidents, timeline, ranks, steps, events, facts, edges, findings, collectives, clocks, streams,\n"
    "sources, config, problems. End a query with ;  DESCRIBE ranks; shows columns. Ctrl-D leaves."
)


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
    tz: common.Tz = None,
    rank_map: common.RankMap = None,
    attempt: common.Attempt = None,
    job: common.JobName = None,
) -> None:
    """Ask in SQL: read-only, no file or network access."""
    hints = common.hints(rules, world_size, tz, rank_map, attempt, job)
    queries = [query] if query is not None else _statements(file) if file is not None else None
    if format is Format.parquet and output is None:
        raise CorrelatorError("parquet needs a file", where="--format parquet", why="it is not text", help="add -o FILE")
    if output is not None and (queries is None or len(queries) != 1):
        raise CorrelatorError(
            "-o takes the result of one query", where=output, why=f"there are {len(queries)}" if queries else "the prompt asks many", help="run them one by one"
        )
    with common.open_any([path], **hints) as opened:
        if queries is None:
            _prompt(opened, format)
        for one in queries or []:
            _show(opened.sql(one), format, output)


def export(
    path: common.OnePath,
    output: Annotated[str, typer.Option("--output", "-o", help="timeline.parquet, .csv, .jsonl or .arrow.", metavar="FILE")],
    incident: Annotated[str | None, typer.Option("--incident", help="Incident id; default the primary.", metavar="ID")] = None,
    table: Annotated[str, typer.Option("--table", help="Another table of the job.", metavar="NAME")] = "timeline",
    format: Annotated[str | None, typer.Option("--format", help="parquet, csv, jsonl or arrow, against the suffix.")] = None,
    rules: common.Rules = None,
    world_size: common.WorldSize = None,
    tz: common.Tz = None,
    rank_map: common.RankMap = None,
    attempt: common.Attempt = None,
    job: common.JobName = None,
) -> None:
    """Write the timeline (or a table) for colleagues."""
    with common.open_any([path], **common.hints(rules, world_size, tz, rank_map, attempt, job)) as opened:
        opened.export(output, table=table, incident=incident, format=format)
    typer.echo(f"wrote {output}", err=True)


def _statements(file: str) -> list[str]:
    """The queries of a file.

    Raises:
        CorrelatorError: it cannot be read, is not SQL, or holds no query.
    """
    import duckdb

    try:
        found = [s.query for s in duckdb.extract_statements(Path(file).read_text(encoding="utf-8"))]
    except (OSError, UnicodeDecodeError, duckdb.Error) as exc:
        raise CorrelatorError("cannot read the queries", where=file, why=str(exc).splitlines()[0], help="a text file with SELECT statements") from exc
    if not found:
        raise CorrelatorError("no query in the file", where=file, why="it is empty or holds only comments", help="a text file with SELECT statements")
    return found


def _prompt(job: Job, format: Format) -> None:
    """Queries from the terminal, or from a pipe; a failed query does not end the session."""
    terminal = sys.stdin.isatty()
    if not terminal:
        text = sys.stdin.read()
        if text.strip():
            _show(job.sql(text), format, None)
        return
    import readline  # noqa: F401  line editing and history of the prompt

    print(_BANNER)
    buffer = ""
    while True:
        try:
            buffer += input("...> " if buffer else "sql> ") + "\n"
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            buffer = ""
            print()
            continue
        if not buffer.strip():
            buffer = ""
        if not buffer.rstrip().endswith(";"):
            continue
        try:
            _show(job.sql(buffer), format, None)
        except CorrelatorError as exc:
            print(exc, file=sys.stderr)
        buffer = ""


def _show(table: pa.Table, format: Format, output: str | None) -> None:
    from correlator import export as writer

    if format is Format.table:
        common.emit(render_table(table), output)
    elif format is Format.csv:
        common.emit(writer.csv_text(table), output)
    elif format is Format.json:
        common.emit(writer.json_text(table), output)
    elif output is not None:
        writer.write(table, output, "parquet")


def render_table(table: pa.Table) -> str:
    """Aligned columns, numbers to the right; long cells are cut, rows beyond the cap are counted."""
    import pyarrow as pa

    from correlator.export import plain

    names = table.column_names
    cap = 60 if len(names) > 2 else 160
    rows = [["" if v is None else " ".join(str(v).split()) for v in row] for row in plain(table.slice(0, ROW_CAP))]
    rows = [[c if len(c) <= cap else c[: cap - 3] + "..." for c in row] for row in rows]
    widths = [max([len(n), *(len(r[k]) for r in rows)]) for k, n in enumerate(names)]
    right = [pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in table.schema]

    def line(cells: list[str]) -> str:
        return "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)).rstrip()

    n = table.num_rows
    count = f"({n} row{'' if n == 1 else 's'}{f', first {ROW_CAP} shown; --format csv shows all' if n > ROW_CAP else ''})"
    return "\n".join([line(names), "  ".join("-" * w for w in widths), *map(line, rows), count]) + "\n"
