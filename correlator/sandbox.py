"""User SQL on a job file: one read-only statement, no file or network access, bounded in time and memory.

SQL is code. This guards against accidents and against queries that came with a shared report; a real
adversary belongs into an isolated process of the operating system.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from correlator.errors import CorrelatorError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

TIMEOUT_S = 60.0
MEMORY = "2GB"
_ALLOWED = {"SELECT", "EXPLAIN"}


def connect(path: str) -> duckdb.DuckDBPyConnection:
    """A locked read-only connection to a finished job file.

    Raises:
        CorrelatorError: the file is not a job file.
    """
    import duckdb

    try:
        con = duckdb.connect(path, read_only=True)
        con.execute("SET TimeZone = 'UTC'")
        con.execute(f"SET memory_limit = '{MEMORY}'")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
    except duckdb.Error as exc:
        raise CorrelatorError("not a job file", where=path, why=str(exc).splitlines()[0], help="make one with: correlator ingest LOGS -o job.duckdb") from exc
    return con


def query(con: duckdb.DuckDBPyConnection, sql: str, *, timeout_s: float = TIMEOUT_S) -> pa.Table:
    """Runs one SELECT (or EXPLAIN, DESCRIBE, SHOW, SUMMARIZE) and returns all its rows.

    Raises:
        CorrelatorError: more than one statement, another kind of statement, an error in it, or it took too long.
    """
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as exc:
        raise _error(sql, exc) from exc
    if not statements:
        raise CorrelatorError("no query", why="the text is empty or only a comment", help="for example: SELECT rank, state FROM ranks")
    if len(statements) > 1:
        raise CorrelatorError("one statement at a time", where=_short(sql), why=f"{len(statements)} statements were given", help="use -f FILE for several queries")
    kind = str(statements[0].type).rsplit(".", 1)[-1]
    if kind.removesuffix("_STATEMENT") not in _ALLOWED:
        raise CorrelatorError(
            "only queries are allowed",
            where=_short(sql),
            why=f"this is a {kind} statement; the job file is read-only",
            help="use SELECT, or copy the file and open it with duckdb",
        )
    timer = threading.Timer(timeout_s, con.interrupt)
    timer.start()
    try:
        return con.sql(sql).to_arrow_table()
    except duckdb.InterruptException as exc:
        raise CorrelatorError("the query took too long", where=_short(sql), why=f"it was stopped after {timeout_s:.0f} s", help="add a filter or LIMIT") from exc
    except duckdb.Error as exc:
        raise _error(sql, exc) from exc
    finally:
        timer.cancel()


def _error(sql: str, exc: Exception) -> CorrelatorError:
    lines = str(exc).strip().splitlines()
    return CorrelatorError("the query failed", where=_short(sql), why="\n       ".join(lines[:6]), help="SHOW TABLES lists the tables, DESCRIBE events its columns")


def _short(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 120 else text[:117] + "..."
