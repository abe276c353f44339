"""The Python API: what a job knows, hints, kept job files, and that nothing is left behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import correlator
from correlator.errors import CorrelatorError

ROOT = Path(__file__).parents[1]
SIGKILL = ROOT / "sample_logs" / "torchrun-sigkill" / "logs"
RESTARTS = ROOT / "sample_logs" / "torchrun-restarts" / "logs"
HEALTHY = ROOT / "sample_logs" / "healthy-two-nodes" / "logs"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary job files go here, so that a test can see whether they are removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_job_knows_its_incident(scratch: Path) -> None:
    with correlator.open_job(SIGKILL) as job:
        assert job.primary is job.incidents[0]
        assert job.incidents[0]["initiating_ranks"] == [2]
        assert job.incidents[0]["failure_class"] == "process_killed"
        assert job.document["job"]["world_size"] == 4
        assert job.sql("SELECT rank FROM ranks WHERE state = 'killed'").column("rank").to_pylist() == [2]
        assert repr(job).endswith("torchrun-sigkill/logs: failed, 1 incidents>")
        assert len(list(scratch.glob("correlator-*"))) == 1
    assert not list(scratch.iterdir())


def test_a_healthy_job_has_no_primary_and_an_empty_timeline() -> None:
    with correlator.open_job(str(HEALTHY)) as job:
        assert job.primary is None
        assert job.incidents == []
        assert job.timeline().num_rows == 0
        assert "role" in job.timeline().column_names


def test_timeline_is_ordered_and_one_incident(scratch: Path) -> None:
    with correlator.open_job([str(RESTARTS)]) as job:
        assert [i["initiating_ranks"] for i in job.incidents] == [[2], [3], [0]]
        first, second = job.timeline(), job.timeline("attempt1")
        assert set(first.column("incident_id").to_pylist()) == {"attempt0"}
        assert set(second.column("incident_id").to_pylist()) == {"attempt1"}
        times = [t for t in first.column("ts").to_pylist() if t is not None]
        assert times == sorted(times)
        with pytest.raises(CorrelatorError, match="no incident attempt9"):
            job.timeline("attempt9")


def test_attempt_hint_judges_only_that_attempt() -> None:
    with correlator.open_job(RESTARTS, attempt=1) as job:
        assert [(i["attempt"], i["initiating_ranks"]) for i in job.incidents] == [(1, [3])]


def test_a_kept_job_file_is_the_same_job(tmp_path: Path) -> None:
    kept = tmp_path / "job.duckdb"
    with correlator.open_job(SIGKILL, store=str(kept)) as job:
        made = job.document
    assert kept.is_file()
    with correlator.open_job(kept) as job:
        assert job.document == made
        assert job.sql("SELECT count(*) AS n FROM incidents").to_pylist() == [{"n": 1}]
    assert kept.is_file()
    with pytest.raises(CorrelatorError, match="world_size cannot change a kept job file"):
        correlator.open_job(kept, world_size=8)


def test_a_failed_run_leaves_nothing_behind(scratch: Path) -> None:
    with pytest.raises(CorrelatorError, match="no such file"):
        correlator.open_job(str(scratch / "nowhere"))
    assert not list(scratch.iterdir())


def test_a_log_is_never_overwritten_by_a_job_file(tmp_path: Path) -> None:
    log = tmp_path / "rank_0.log"
    log.write_text("precious\n")
    with pytest.raises(CorrelatorError, match="will not overwrite"):
        correlator.open_job(SIGKILL, store=str(log))
    assert log.read_text() == "precious\n"
    with pytest.raises(CorrelatorError) as caught:
        correlator.open_job(SIGKILL, store=str(tmp_path / "no" / "job.duckdb"))
    assert caught.value.why == "its folder does not exist"


def test_closing_twice_is_harmless() -> None:
    job = correlator.open_job(HEALTHY)
    job.close()
    job.close()
    assert not Path(job.path).exists()


def test_unknown_attribute_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'open_jobs'"):
        _ = correlator.open_jobs  # pyright: ignore[reportAttributeAccessIssue]
