"""User SQL: read-only, one statement, no files, bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from correlator import sandbox
from correlator.api import Job, open_job
from correlator.errors import CorrelatorError

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "torchrun-sigkill" / "logs"


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with open_job(str(SAMPLE)) as opened:
        yield opened


def test_select(job: Job) -> None:
    assert job.sql("SELECT rank FROM ranks WHERE signal = 'SIGKILL'").to_pylist() == [{"rank": 2}]


@pytest.mark.parametrize("sql", ["DESCRIBE events", "SHOW TABLES", "EXPLAIN SELECT 1", "SUMMARIZE ranks"])
def test_looking_around_is_allowed(job: Job, sql: str) -> None:
    assert job.sql(sql).num_rows > 0


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE facts", "DELETE FROM facts", "CREATE TABLE x(a INT)", "ATTACH 'x.db'", "COPY ranks TO 'x.csv'", "INSTALL httpfs", "SET memory_limit = '99GB'",
        "PRAGMA database_list", "SELECT 1; SELECT 2", "", "EXPORT DATABASE 'x'",
    ],
)  # fmt: skip
def test_everything_else_is_refused(job: Job, sql: str) -> None:
    with pytest.raises(CorrelatorError):
        job.sql(sql)


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM glob('/*')", "SELECT * FROM '/etc/passwd'"]
)
def test_no_files(job: Job, sql: str) -> None:
    with pytest.raises(CorrelatorError, match="failed"):
        job.sql(sql)


def test_no_variables_of_the_program(job: Job) -> None:
    secret = pa.table({"a": [1]})
    assert secret.num_rows == 1
    with pytest.raises(CorrelatorError, match="failed"):
        job.sql("SELECT * FROM secret")


def test_memory_is_bounded(job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox, "MEMORY", "64MB")
    copy = tmp_path / "job.duckdb"  # one process shares the settings of a file that is open already
    copy.write_bytes(Path(job.path).read_bytes())
    con = sandbox.connect(str(copy))
    with pytest.raises(CorrelatorError) as caught:
        sandbox.query(con, "SELECT list(a.range || b.range::VARCHAR) AS x FROM range(3000) a, range(3000) b", timeout_s=20)
    con.close()
    assert "memory" in caught.value.why.lower()


@pytest.mark.parametrize("sql", ["", "  ", "-- only a comment"])
def test_no_query(job: Job, sql: str) -> None:
    with pytest.raises(CorrelatorError, match="no query"):
        job.sql(sql)


def test_refusals_say_why(job: Job) -> None:
    with pytest.raises(CorrelatorError) as caught:
        job.sql("SELECT 1; SELECT 2")
    assert caught.value.why == "2 statements were given"
    with pytest.raises(CorrelatorError) as caught:
        job.sql("DELETE FROM facts")
    assert "DELETE" in caught.value.why


def test_a_long_query_is_stopped(job: Job) -> None:
    with pytest.raises(CorrelatorError, match="too long"):
        job.sql("SELECT count(*) FROM range(100000000) a, range(100000000) b", timeout_s=0.5)
    assert job.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_error_names_the_way_out(job: Job) -> None:
    with pytest.raises(CorrelatorError) as caught:
        job.sql("SELECT nothing FROM ranks")
    assert "nothing" in caught.value.why
    assert "DESCRIBE" in caught.value.help


def test_not_a_job_file(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    file.write_text("hello")
    with pytest.raises(CorrelatorError):
        sandbox.connect(str(file))
