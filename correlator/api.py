"""Python API: open a job, read its incidents, ask in SQL, export its timeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from correlator import sandbox
from correlator.errors import CorrelatorError

if TYPE_CHECKING:
    import pyarrow as pa


class Job:
    """A diagnosed job. Close it (or use ``with``): a temporary job file is removed then.

    Attributes:
        document: the JSON document of ``diagnose --format json``. path: the job file (DuckDB).
    """

    def __init__(self, path: str, document: dict[str, Any], *, temporary: bool) -> None:
        self.path, self.document, self._temporary = path, document, temporary
        self._con: Any = None

    @property
    def incidents(self) -> list[dict[str, Any]]:
        """Incidents in order of attempts; see the JSON contract."""
        return self.document["incidents"]

    @property
    def primary(self) -> dict[str, Any] | None:
        """The incident whose cause explains the others, None for a job without incident."""
        return self.incidents[self.document["primary"]] if self.incidents else None

    def sql(self, query: str, *, timeout_s: float = sandbox.TIMEOUT_S) -> pa.Table:
        """Rows of one read-only query over the job's tables.

        Raises:
            CorrelatorError: the query is not a single SELECT, fails, or takes too long.
        """
        if self._con is None:
            self._con = sandbox.connect(self.path)
        return sandbox.query(self._con, query, timeout_s=timeout_s)

    def timeline(self, incident: str | None = None) -> pa.Table:
        """Events of an incident (default the primary) in order, with roles; t_ms counts from the onset."""
        from correlator.export import timeline

        return timeline(self, incident)

    def export(self, path: str, *, table: str = "timeline", incident: str | None = None, format: str | None = None) -> None:
        """Writes a table as Parquet, CSV, JSONL or Arrow IPC, by suffix or ``format``."""
        from correlator.export import export

        export(self, path, table=table, incident=incident, format=format)

    def close(self) -> None:
        """Closes the connection and removes a temporary job file."""
        if self._con is not None:
            self._con.close()
            self._con = None
        if self._temporary:
            Path(self.path).unlink(missing_ok=True)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_job(path: str | Sequence[str], *, rules: Sequence[str] = (), world_size: int | None = None, tz: dict[str, str] | None = None,
             rank_map: dict[str, int] | None = None, attempt: int | None = None, job: str | None = None, why_not: int | None = None,
             store: str | None = None, progress: Callable[[int, int], None] | None = None) -> Job:  # fmt: skip
    """Diagnoses logs, or opens a job file that was kept.

    Args:
        path: directory, file, archive, ``-``, or several of them; or one ``job.duckdb``.
        rules: folders with further rules. world_size, tz (host or path glob -> zone), rank_map (path -> rank),
            attempt, job: hints that override an inference. why_not: a rank to explain in large jobs.
        store: keep the job file at this path. progress: called with bytes done and bytes in all.

    Raises:
        CorrelatorError: a path does not exist, nothing is readable, or a rule is wrong.
    """
    paths = [path] if isinstance(path, str) else list(path)
    if len(paths) == 1 and paths[0].endswith(".duckdb") and Path(paths[0]).is_file():
        con = sandbox.connect(paths[0])
        try:
            document = json.loads(sandbox.query(con, "SELECT json FROM document").column(0)[0].as_py())
        except (CorrelatorError, IndexError) as exc:
            raise CorrelatorError("not a finished job file", where=paths[0], why="it holds no diagnosis", help="make it again with: correlator ingest LOGS -o job.duckdb") from exc
        finally:
            con.close()
        return Job(paths[0], document, temporary=False)
    from correlator import engine

    hints = engine.Hints(world_size=world_size, zones=tz or {}, rank_map=rank_map or {}, attempt=attempt, job=job, why_not=why_not)
    file, diagnosis = engine.run(paths, rules=engine.rulebook(tuple(rules)), hints=hints, store_path=store, progress=progress)
    return Job(file, diagnosis.document, temporary=store is None)
