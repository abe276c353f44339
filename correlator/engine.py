"""The whole way from paths to a diagnosis: discover, parse, store, align, judge."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from correlator import store
from correlator.align.identity import number_streams, resolve
from correlator.align.run import align
from correlator.discover import discover
from correlator.errors import CorrelatorError
from correlator.ingest import parse_all
from correlator.judge.run import Diagnosis, judge
from correlator.rulebook import Rulebook, load


@dataclass(slots=True)
class Hints:
    """What the user knows better than the logs."""

    world_size: int | None = None
    zones: dict[str, str] = field(default_factory=dict)  # host or glob of a path -> zone name or +HH:MM
    rank_map: dict[str, int] = field(default_factory=dict)  # path -> rank
    attempt: int | None = None
    job: str | None = None
    why_not: int | None = None


@lru_cache(maxsize=4)
def rulebook(extra: tuple[str, ...] = ()) -> Rulebook:
    """The built-in rulebook, with the folders of ``--rules`` added."""
    return load(list(extra))


def run(paths: Sequence[str], *, rules: Rulebook | None = None, hints: Hints | None = None, store_path: str | None = None,
        progress: Callable[[int, int], None] | None = None) -> tuple[str, Diagnosis]:  # fmt: skip
    """Diagnoses a job.

    Args:
        paths: directories, files, archives or ``-``. rules: default the built-in rulebook.
        store_path: where the job file goes; a temporary file if None (the caller removes it).
        progress: called with bytes done and bytes in all.

    Returns:
        Path of the job file (finished, to be opened read-only) and the diagnosis.

    Raises:
        CorrelatorError: a path does not exist or nothing could be read.
    """
    rules = rules or rulebook()
    hints = hints or Hints()
    found = discover(list(paths), job=hints.job)
    if not found.sources:
        raise CorrelatorError("no log files found", where=", ".join(paths), why="the directory is empty or every file was skipped",
                              help="point correlator at the directory that holds the job's log files")  # fmt: skip
    parts = parse_all(found.sources, rules.catalogue, progress)
    temporary = store_path is None
    if store_path is None:
        handle, store_path = tempfile.mkstemp(prefix="correlator-", suffix=".duckdb")
        os.close(handle)
    Path(store_path).unlink(missing_ok=True)
    con = store.create(store_path)
    try:
        ids = number_streams(parts)
        identity = resolve(parts, found.sources, ids, hints.rank_map, hints.world_size)
        zones = _zones(hints, found.sources)
        store.write_parts(con, parts, ids, {r.source_id: r.hints.launcher for r in found.sources}, zones)
        store.insert_problems(con, found.problems)
        align(con, identity)
        result = judge(con, rules, path=", ".join(paths), world_size=identity.world_size, attempts=identity.attempts,
                       other_runs=list(found.other_runs), only_attempt=hints.attempt, why_not=hints.why_not)  # fmt: skip
    except BaseException:
        con.close()
        if temporary:
            Path(store_path).unlink(missing_ok=True)
        raise
    con.close()
    return store_path, result


def _zones(hints: Hints, sources: list) -> dict[int, int]:  # type: ignore[type-arg]
    """Zone offset in microseconds per source, from ``--tz``."""
    import fnmatch
    from datetime import datetime
    from zoneinfo import ZoneInfo

    out: dict[int, int] = {}
    for pattern, zone in hints.zones.items():
        for ref in sources:
            if ref.hints.node == pattern or fnmatch.fnmatch(ref.path, pattern) or fnmatch.fnmatch(ref.path, f"*{pattern}*"):
                if zone[:1] in "+-":
                    sign = -1 if zone[0] == "-" else 1
                    hours, _, minutes = zone[1:].partition(":")
                    offset = sign * (int(hours) * 3600 + int(minutes or 0) * 60)
                else:
                    when = datetime.fromtimestamp(ref.mtime, ZoneInfo(zone))
                    offset = int((when.utcoffset() or datetime.now(ZoneInfo(zone)).utcoffset()).total_seconds())  # type: ignore[union-attr]
                out[ref.source_id] = offset * 1_000_000
    return out
