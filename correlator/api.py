"""Python API: open a job, read its incidents, ask in SQL, export its timeline."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from correlator import sandbox
from correlator.errors import CorrelatorError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class Job:
    """A diagnosed job. Close it (or use ``with``): a temporary job file is removed then.

    Attributes:
        path: the job file (DuckDB). document: the JSON document of ``diagnose --format json``.
    """

    def __init__(self, path: str, document: dict[str, Any], *, temporary: bool) -> None:
        self.path, self.document, self._temporary = path, document, temporary
        self._con: duckdb.DuckDBPyConnection | None = None

    def __repr__(self) -> str:
        return f"<Job {self.document['job']['path']}: {self.document['job']['state']}, {len(self.incidents)} incidents>"

    @property
    def incidents(self) -> list[dict[str, Any]]:
        """Incidents in order of attempts; ``correlator/show/schema.json`` describes them."""
        return self.document["incidents"]

    @property
    def primary(self) -> dict[str, Any] | None:
        """The incident whose cause explains the others, None for a job without incident."""
        return self.incidents[self.document["primary"]] if self.incidents else None

    def sql(self, query: str, *, timeout_s: float = sandbox.TIMEOUT_S) -> pa.Table:
        """Rows of one read-only query over the job's tables.

        Raises:
            CorrelatorError: the query is not a single SELECT, fails, or takes longer than ``timeout_s`` seconds.
        """
        if self._con is None:
            self._con = sandbox.connect(self.path)
        return sandbox.query(self._con, query, timeout_s=timeout_s)

    def timeline(self, incident: str | None = None) -> pa.Table:
        """Events of an incident (default the primary) in order, with roles; t_ms counts from the onset.

        Raises:
            CorrelatorError: there is no incident with that id.
        """
        from correlator.export import timeline

        return timeline(self, incident)

    def export(self, path: str | os.PathLike[str], table: str = "timeline", incident: str | None = None, format: str | None = None) -> None:
        """Writes a table as Parquet, CSV, JSONL or Arrow IPC, by suffix or ``format``.

        Raises:
            CorrelatorError: unknown format, table or incident, or the file cannot be written.
        """
        from correlator.export import export

        export(self, os.fspath(path), table=table, incident=incident, format=format)

    def close(self) -> None:
        """Closes the connection and removes a temporary job file. Closing twice is harmless."""
        if self._con is not None:
            self._con.close()
            self._con = None
        if self._temporary:
            Path(self.path).unlink(missing_ok=True)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_job(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    rules: Sequence[str] = (),
    world_size: int | None = None,
    tz: Mapping[str, str] | None = None,
    rank_map: Mapping[str, int] | None = None,
    attempt: int | None = None,
    job: str | None = None,
    why_not: int | None = None,
    store: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Job:
    """Diagnoses logs, or opens a job file that was kept.

    Args:
        path: directory, file, archive, ``-``, or several of them; or one ``job.duckdb``.
        rules: folders with further rules.
        world_size: number of ranks, where the logs do not tell.
        tz: zone per host or path glob, for example ``{"node1": "Europe/Berlin"}``.
        rank_map: rank per log path.
        attempt: judge only this restart attempt, counted from 0.
        job: which run, where a directory holds several.
        why_not: a rank to explain; needed only in jobs of more than 64 ranks.
        store: keep the job file at this path.
        progress: called with bytes done and bytes in all.

    Raises:
        CorrelatorError: a path does not exist, nothing is readable, a rule is wrong, or hints were given for a job
            file, which is judged already.
    """
    paths = [os.fspath(p) for p in ([path] if isinstance(path, str | os.PathLike) else path)]
    if len(paths) == 1 and paths[0].endswith(".duckdb") and Path(paths[0]).is_file():
        given = {"rules": rules, "world_size": world_size, "tz": tz, "rank_map": rank_map, "attempt": attempt, "job": job, "store": store}
        late = [name for name, value in given.items() if value not in (None, (), [], {})]
        if late:
            raise CorrelatorError(f"{', '.join(late)} cannot change a kept job file", where=paths[0], why="it was judged when it was made", help="give the logs instead")
        return Job(paths[0], _kept(paths[0]), temporary=False)
    from correlator import engine

    hints = engine.Hints(world_size=world_size, zones=dict(tz or {}), rank_map=dict(rank_map or {}), attempt=attempt, job=job, why_not=why_not)
    book = engine.rulebook(tuple(rules))
    if store is not None:
        _spare(store)
    file = store or _temporary()
    try:
        _, diagnosis = engine.run(paths, rules=book, hints=hints, store_path=file, progress=progress)
    except BaseException:
        if store is None:
            Path(file).unlink(missing_ok=True)
        raise
    return Job(file, diagnosis.document, temporary=store is None)


def _spare(store: str) -> None:
    """Keeps a slip of the keyboard (``-o rank_0.log``) from overwriting something that is not a job file."""
    file = Path(store)
    if file.exists() and (not file.is_file() or (file.stat().st_size and file.open("rb").read(12)[8:] != b"DUCK")):
        raise CorrelatorError("will not overwrite this", where=store, why="it exists and is not a job file", help="choose another name, for example job.duckdb")
    if not file.absolute().parent.is_dir():
        raise CorrelatorError("cannot write the job file", where=store, why="its folder does not exist", help="make the folder first")


def _temporary() -> str:
    handle, file = tempfile.mkstemp(prefix="correlator-", suffix=".duckdb")
    os.close(handle)
    return file


def _kept(file: str) -> dict[str, Any]:
    """The document of a job file."""
    con = sandbox.connect(file)
    try:
        return json.loads(sandbox.query(con, "SELECT json FROM document").column(0)[0].as_py())
    except (CorrelatorError, IndexError) as exc:
        raise CorrelatorError(
            "not a finished job file", where=file, why="it holds no diagnosis", help="make it again with: correlator ingest LOGS -o job.duckdb"
        ) from exc
    finally:
        con.close()
