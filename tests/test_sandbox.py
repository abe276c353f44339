"""User SQL: read-only, one statement, no files, bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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


@pytest.mark.parametrize("sql", ["SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM glob('/*')", "SELECT * FROM '/etc/passwd'"])
def test_no_files(job: Job, sql: str) -> None:
    with pytest.raises(CorrelatorError, match="failed"):
        job.sql(sql)


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
