"""``correlator diagnose`` and ``correlator ingest``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from correlator.cli import common


class Format(StrEnum):
    """Output formats of a diagnosis."""

    text = "text"
    json = "json"
    markdown = "markdown"


def diagnose(
    paths: common.Paths,
    format: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.text,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Write to a file.", metavar="FILE")] = None,
    rules: common.Rules = None,
    store: Annotated[str | None, typer.Option("--store", help="Keep the job file here.", metavar="FILE")] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if there is an incident.")] = False,
    why: Annotated[bool, typer.Option("--why", help="Show causes, effects and what the confidence rests on.")] = False,
    why_not: Annotated[int | None, typer.Option("--why-not", help="Explain why this rank is not the initiator.", metavar="RANK")] = None,
    world_size: common.WorldSize = None,
    tz: common.Tz = None,
    rank_map: common.RankMap = None,
    attempt: common.Attempt = None,
    job: common.JobName = None,
) -> None:
    """Name the rank that failed first, why, and its collateral."""
    from correlator.show import json as as_json
    from correlator.show import markdown, text

    with common.open_any(paths, **common.hints(rules, world_size, tz, rank_map, attempt, job), why_not=why_not, store=store) as opened:
        document = opened.document
    if format is Format.json:
        rendered = as_json.render(document)
    elif format is Format.markdown:
        rendered = markdown.render(document)
    else:
        rendered = text.render(document, why=why, why_not=why_not)
    common.emit(rendered, output)
    if exit_code and document["incidents"]:
        raise typer.Exit(1)


def ingest(
    paths: common.Paths,
    output: Annotated[str, typer.Option("--output", "-o", help="The job file to write.", metavar="job.duckdb")],
    rules: common.Rules = None,
    world_size: common.WorldSize = None,
    tz: common.Tz = None,
    rank_map: common.RankMap = None,
    attempt: common.Attempt = None,
    job: common.JobName = None,
) -> None:
    """Parse the logs and keep all tables in a DuckDB file."""
    with common.open_any(paths, **common.hints(rules, world_size, tz, rank_map, attempt, job), store=output) as opened:
        counts = {t: opened.sql(f"SELECT count(*) FROM {t}").column(0)[0].as_py() for t in ("sources", "events", "steps", "facts", "incidents", "problems")}
    typer.echo(f"{output}: " + ", ".join(f"{n} {t}" for t, n in counts.items()))
