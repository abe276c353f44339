"""Healthy jobs: the whole engine is silent on them, whatever they print.

What counts as healthy, as we read the contract (an incident is an attempt that ended badly) and the labelled incidents:

* A job whose first attempt failed and whose restart completed is *not* silent: the failed attempt is an incident of its
  own that names its true initiator, and ``job.state`` is completed. (Labelled so in the corpus: ``restart_recovers``.)
* A job that was preempted, told to stop or made smaller from outside and then went on is silent: no attempt ended badly.
* A log that merely ends is ``running`` if it shows progress up to a whole line, ``cut`` if it ends inside a line or
  before any progress.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from correlator import engine
from tests.healthy import written

JOBS = Path(__file__).parent / "jobs"
STATES = dict.fromkeys((p.name for p in JOBS.iterdir() if p.is_dir()), "completed") | {
    "still-running": "running",
    "still-running-console": "running",
    "warm-up": "cut",
    "deepspeed-zero2": "running",  # its script ends without a word
}
RECOVERED = {"restart-recovers": 2, "restart-recovers-console": 2}  # job -> rank that ended the first attempt
# cut anywhere these stay innocent; in the others a cut may fall between a fault and its recovery, where nobody can tell
CALM = sorted({*STATES, *written.JOBS} - {*RECOVERED, "caught-tracebacks", "caught-tracebacks-console", "retried-connections"})


def diagnose(logs: Path) -> dict[str, Any]:
    """The document of a directory of logs."""
    store, result = engine.run([str(logs)])
    Path(store).unlink()
    return result.document


def logs_of(name: str, folder: Path) -> Path:
    """The log directory of a job, below a scratch folder."""
    if name in STATES:
        shutil.copytree(JOBS / name / "logs", folder / "logs")
        return folder / "logs"
    for path, text in written.JOBS[name][0]().items():
        file = folder / "logs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, newline="")
    return folder / "logs"


def test_the_evidence_is_wide() -> None:
    assert len(STATES) + len(written.JOBS) >= 34
    assert len(STATES) >= 20
    sizes = {name: sum(f.stat().st_size for f in (JOBS / name).rglob("*") if f.is_file()) for name in STATES}
    assert max(sizes.values()) < 40_000
    assert sum(sizes.values()) < 800_000


@pytest.mark.parametrize("name", sorted({*STATES, *written.JOBS} - {*RECOVERED}))
def test_silent(name: str, tmp_path: Path) -> None:
    document = diagnose(logs_of(name, tmp_path))

    assert [i["summary"] for i in document["incidents"]] == []
    assert document["primary"] is None
    assert document["hazards"] == []
    assert document["job"]["state"] == (STATES.get(name) or written.JOBS[name][1])


@pytest.mark.parametrize("name", sorted(RECOVERED))
def test_a_recovered_attempt_names_who_ended_it(name: str, tmp_path: Path) -> None:
    document = diagnose(logs_of(name, tmp_path))

    assert document["job"]["state"] == "completed"
    assert document["job"]["attempts"] == 2
    assert [(i["attempt"], i["scope"], i["initiating_ranks"]) for i in document["incidents"]] == [(0, "rank", [RECOVERED[name]])]
    assert document["hazards"] == []


@pytest.mark.parametrize("name", ["preempted-resumed", "elastic-scale-down", "megatron-requeued", "kubernetes-preempted-pods"])
def test_a_resumed_job_has_two_attempts(name: str, tmp_path: Path) -> None:
    assert diagnose(logs_of(name, tmp_path))["job"]["attempts"] == 2


@pytest.mark.parametrize("name", CALM)
def test_silent_when_cut_in_mid_run(name: str, tmp_path: Path) -> None:
    """Somebody copies the logs while the job runs: every file ends early, inside a line."""
    document = _cut(name, 0.6, tmp_path, whole_lines=False)

    assert [i["summary"] for i in document["incidents"]] == []
    assert document["job"]["state"] in ("running", "cut", "completed")


@pytest.mark.slow
@pytest.mark.parametrize("whole_lines", [True, False])
@pytest.mark.parametrize("share", [n / 20 for n in range(1, 20)])
@pytest.mark.parametrize("name", sorted({*CALM} - {"elastic-scale-down"}))  # equal shares of its files are not one moment
def test_silent_wherever_it_is_cut(name: str, share: float, whole_lines: bool, tmp_path: Path) -> None:
    """The same at every twentieth. A job that was stopped and has not resumed yet may say so."""
    document = _cut(name, share, tmp_path, whole_lines=whole_lines)

    assert [i["summary"] for i in document["incidents"] if i["scope"] != "external" or i["initiating_ranks"]] == []


def test_half_a_step_line_says_nothing_of_its_values(tmp_path: Path) -> None:
    """The overflow is printed, that it was skipped would have come behind it on the same line."""
    logs = logs_of("overflow-skipped", tmp_path)
    for file in logs.glob("rank_*.log"):
        data = file.read_bytes()
        file.write_bytes(data[: data.index(b"grad_norm=inf") + len(b"grad_norm=inf")])

    document = diagnose(logs)

    assert [i["summary"] for i in document["incidents"]] == []
    assert document["job"]["state"] in ("running", "cut")


def _cut(name: str, share: float, folder: Path, *, whole_lines: bool) -> dict[str, Any]:
    logs = logs_of(name, folder)
    for file in logs.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            data = data[: int(len(data) * share)]
            file.write_bytes(data[: data.rfind(b"\n") + 1] if whole_lines else data)
    return diagnose(logs)
