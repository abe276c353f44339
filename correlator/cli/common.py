"""Options and helpers that several commands share."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from correlator.errors import CorrelatorError

if TYPE_CHECKING:
    from correlator.api import Job

Paths = Annotated[list[str], typer.Argument(help="Log directory, file, archive, job.duckdb, or - for standard input.", metavar="PATH...")]
OnePath = Annotated[str, typer.Argument(help="Log directory, file, archive, or a kept job.duckdb.", metavar="PATH")]
Rules = Annotated[list[str] | None, typer.Option("--rules", help="Folder with further rules (repeatable).", metavar="DIR")]
WorldSize = Annotated[int | None, typer.Option("--world-size", help="Number of ranks, where the logs do not tell.")]
Tz = Annotated[list[str] | None, typer.Option("--tz", help="Zone of a host or path, HOST=ZONE (repeatable).", metavar="HOST=ZONE")]
RankMap = Annotated[str | None, typer.Option("--rank-map", help="CSV or JSON file: log path, rank.", metavar="FILE")]
Attempt = Annotated[int | None, typer.Option("--attempt", help="Judge only this restart attempt.")]
JobName = Annotated[str | None, typer.Option("--job", help="Which run, where a directory holds several.")]


def hints(rules: list[str] | None, world_size: int | None, tz: list[str] | None, rank_map_file: str | None, attempt: int | None, job: str | None) -> dict[str, Any]:
    """The hint options as arguments of ``open_job``.

    Raises:
        CorrelatorError: one of them cannot be read.
    """
    return {"rules": rules or (), "world_size": world_size, "tz": zones(tz), "rank_map": rank_map(rank_map_file), "attempt": attempt, "job": job}


def zones(values: list[str] | None) -> dict[str, str]:
    """``HOST=ZONE`` pairs.

    Raises:
        CorrelatorError: a value has no ``=``.
    """
    out: dict[str, str] = {}
    for value in values or []:
        host, sep, zone = value.partition("=")
        if not sep or not zone:
            raise CorrelatorError("cannot read --tz", where=value, why="it is not HOST=ZONE", help="for example --tz node1=Europe/Berlin or --tz node1=+02:00")
        out[host] = zone
    return out


def rank_map(file: str | None) -> dict[str, int]:
    """Path -> rank from a JSON object or a two-column CSV.

    Raises:
        CorrelatorError: the file is missing or has another shape.
    """
    if file is None:
        return {}
    try:
        text = Path(file).read_text(encoding="utf-8")
        if text.lstrip().startswith("{"):
            return {str(k): int(v) for k, v in json.loads(text).items()}
        return {row[0].strip(): int(row[1]) for row in csv.reader(text.splitlines()) if len(row) >= 2 and row[1].strip().isdigit()}
    except (OSError, ValueError) as exc:
        raise CorrelatorError("cannot read the rank map", where=file, why=str(exc), help="a CSV of `path,rank` lines, or a JSON object") from exc


def progress() -> Callable[[int, int], None] | None:
    """A progress line on stderr for work over a second, only on a terminal."""
    if not sys.stderr.isatty():
        return None
    start = time.monotonic()

    def show(done: int, total: int) -> None:
        if time.monotonic() - start > 1.0:
            share = done / total if total else 1.0
            end = "\n" if done >= total else ""
            print(f"\rreading {share:4.0%} of {total / 1e6:.0f} MB{end}", end="", file=sys.stderr, flush=True)

    return show


def emit(text: str, output: str | None) -> None:
    """Text to a file or to standard output."""
    if output is None:
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise CorrelatorError("cannot write the output", where=output, why=str(exc.strerror or exc), help="choose a writable path") from exc


def open_any(path: list[str], **options: Any) -> Job:
    """A job from paths or a kept job file."""
    from correlator.api import open_job

    return open_job(path, progress=progress(), **options)
