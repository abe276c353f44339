"""Restarts without attempt directories: attempts are told apart, and the first cause is found however loud later ones are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recovery.logs import RESET, Job, diagnose, primary

IN_USE = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
REFUSED = "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (node0, 29500)."
JOIN = "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/4 clients joined."


def first_attempt(job: Job, *, rank: int = 2, at: float = 0, first: int = 1, agent: bool = True) -> None:
    """Twenty steps, then one rank raises and its peers lose it."""
    job.begin(at)
    job.train(first, first + 19, at + 1)
    job.uncaught(rank, at + 20.1, "KeyError: 'labels'")
    job.peers_lose(rank, at + 20.3)
    if agent:
        job.records(at + 21, rank)


def loud_start(job: Job, at: float, *, agent: bool = True) -> None:
    """A restart that fails while it sets up its group, on every rank, with many words."""
    job.begin(at)
    job.uncaught(0, at + 5, IN_USE)
    for r in (1, 2, 3):
        job.raw(
            r,
            at + 6,
            *[
                f"[W503 10:05:{n:02d}.104993123 socket.cpp:767] [c10d] The client socket has failed to connect to [node0]:29500 (errno: 111 - Connection refused)."
                for n in range(8)
            ],
        )
        job.uncaught(r, at + 60 + r, REFUSED)
    if agent:
        job.records(at + 65, 0)


def resumed(job: Job, at: float, first: int, last: int, *, end: bool = True) -> None:
    """A restart that works."""
    job.begin(at)
    for r in range(job.world):
        job.say(r, at + 1, f"Resuming from checkpoint /ckpt/step_{first - 1} at step {first}")
    job.train(first, last, at + 2)
    if end:
        for r in range(job.world):
            job.say(r, at + 3 + last - first, "training complete")


@pytest.mark.parametrize("layout", ["files", "tee", "label"])
@pytest.mark.parametrize("agent", [True, False])
def test_later_attempts_shout_louder(agent: bool, layout: str, tmp_path: Path) -> None:
    """One console or appended files: attempt 0 fails by rank 2, the next two at the rendezvous."""
    job = Job()
    first_attempt(job, agent=agent)
    loud_start(job, 100, agent=agent)
    loud_start(job, 300, agent=agent)
    document = diagnose(job.written(tmp_path / "logs", layout))

    assert document["job"]["attempts"] == 3
    assert document["job"]["state"] == "failed"
    assert document["incidents"][0]["attempt"] == 0
    assert primary(document)["initiating_ranks"] == [2], primary(document)["summary"]
    assert primary(document)["attempt"] == 0


@pytest.mark.parametrize("layout", ["files", "tee", "label"])
def test_each_failed_attempt_is_an_incident(layout: str, tmp_path: Path) -> None:
    job = Job()
    first_attempt(job, rank=2)
    first_attempt(job, rank=1, at=100, first=15)
    resumed(job, 200, 30, 40)
    document = diagnose(job.written(tmp_path / "logs", layout))

    assert [(i["attempt"], i["initiating_ranks"]) for i in document["incidents"]] == [(0, [2]), (1, [1])]
    assert document["job"]["attempts"] == 3
    assert document["job"]["state"] == "completed"


def test_files_written_anew_beside_the_agent_s_full_story(tmp_path: Path) -> None:
    """Mode 'w': the ranks' files hold the last attempt only, the agent's log all of them. The files are of attempt 1."""
    first, second = Job(), Job()
    first_attempt(first, rank=2)
    first_attempt(second, rank=3, at=100, first=15)
    first.per_rank(tmp_path / "logs")
    second.per_rank(tmp_path / "logs", mode="w")
    both = Job()
    both.lines = [x for x in first.lines + second.lines if x[1] is None]
    (tmp_path / "logs" / "torchrun.log").unlink()
    both.console(tmp_path / "logs")
    (tmp_path / "logs" / "console.log").rename(tmp_path / "logs" / "torchrun.log")
    document = diagnose(tmp_path / "logs")

    assert document["job"]["attempts"] == 2
    assert [(i["attempt"], i["initiating_ranks"]) for i in document["incidents"]] == [(0, [2]), (1, [3])]
    assert document["incidents"][1]["failure_class"] == "user_exception"


def test_a_requeue_by_slurm_into_the_same_file(tmp_path: Path) -> None:
    """A node failed under attempt 0, Slurm requeued the job; attempt 1 has a bug."""
    job = Job()
    job.begin()
    job.train(1, 12, 1)
    job.raw(
        None,
        14,
        "srun: error: Node failure on node-3",
        "slurmstepd: error: *** STEP 71.0 ON node-0 CANCELLED AT 2026-05-03T10:00:14 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    )
    job.raw(None, 15, "slurmstepd: error: *** JOB 71 ON node-0 CANCELLED AT 2026-05-03T10:00:15 DUE TO JOB REQUEUE ***")
    job.begin(100)
    job.train(10, 20, 101)
    job.uncaught(1, 112.1, "KeyError: 'labels'")
    job.peers_lose(1, 112.3)
    document = diagnose(job.console(tmp_path / "logs", "{}: "))

    assert document["job"]["attempts"] == 2
    assert [i["attempt"] for i in document["incidents"]] == [0, 1]
    assert document["incidents"][0]["failure_class"] == "node_lost"
    assert document["incidents"][1]["initiating_ranks"] == [1]


def test_a_preemption_before_is_not_the_cause(tmp_path: Path) -> None:
    """Attempt 0 was preempted and resumed; the incident is attempt 1's alone."""
    job = Job()
    job.begin()
    job.train(1, 12, 1)
    job.raw(None, 14, "slurmstepd: error: *** JOB 71 ON node-0 CANCELLED AT 2026-05-03T10:00:14 DUE TO PREEMPTION ***")
    job.begin(100)
    job.train(10, 20, 101)
    job.uncaught(1, 112.1, "KeyError: 'labels'")
    job.peers_lose(1, 112.3)
    document = diagnose(job.console(tmp_path / "logs", "{}: "))

    assert [(i["attempt"], i["initiating_ranks"]) for i in document["incidents"]] == [(1, [1])]
    assert document["job"]["state"] == "failed"


def test_deepspeed_elastic_restarts_in_one_console(tmp_path: Path) -> None:
    """DeepSpeed under its elastic agent: rank 3 is killed, the new group cannot bind its port."""
    job = Job()
    job.begin()
    job.train(1, 15, 1)
    job.peers_lose(3, 16.2, RESET)
    job.records(17, 3, -9)
    loud_start(job, 60)
    document = diagnose(job.console(tmp_path / "logs"))

    assert primary(document)["initiating_ranks"] == [3]
    assert primary(document)["failure_class"] == "process_killed"
    assert document["job"]["attempts"] == 2


# ---- only a later attempt is in the evidence --------------------------------------------------------


def later_only(tmp_path: Path, job: Job, attempt: int) -> Path:
    """torchrun's directories of one attempt, the others are gone."""
    for r in range(job.world):
        folder = tmp_path / "logs" / "job_ab12" / f"attempt_{attempt}" / str(r)
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_text("")
        (folder / "stderr.log").write_text("".join(t + "\n" for _, who, t in job.lines if who == r))
    return tmp_path / "logs"


def test_directories_of_a_later_attempt_that_never_met(tmp_path: Path) -> None:
    job = Job()
    job.begin(100)
    for r in (1, 2, 3):
        job.uncaught(r, 160 + r, REFUSED)
    found = primary(diagnose(later_only(tmp_path, job, 1)))

    assert (found["scope"], found["initiating_ranks"], found["failure_class"]) == ("undetermined", [], "unknown_restart"), found["summary"]
    assert found["attempt"] == 1
    assert any("attempt 0" in m["fact"] for m in found["missing"])


@pytest.mark.parametrize("word", ["TORCHELASTIC_RESTART_COUNT=1", "restart_count=2", "Resuming from checkpoint /ckpt/step_4100 at step 4101"])
def test_words_of_a_later_attempt_that_never_met(word: str, tmp_path: Path) -> None:
    """No directories: an environment dump, the agent's table or the process itself say that something went before."""
    job = Job()
    job.begin(100)
    for r in range(4):
        if word.startswith("restart"):
            job.agent(99, "I", "[default] Rendezvous complete for workers. Result:", "torch/distributed/elastic/agent/server/api.py")
            job.agent(99, "I", f"  {word}", "torch/distributed/elastic/agent/server/api.py")
        elif word.startswith("TORCH"):
            job.raw(r, 99, word)
        else:
            job.say(r, 101, word)
    for r in (1, 2, 3):
        job.uncaught(r, 160 + r, REFUSED)
    found = primary(diagnose(job.per_rank(tmp_path / "logs")))

    assert (found["initiating_ranks"], found["failure_class"]) == ([], "unknown_restart"), found["summary"]
    assert any("earlier attempt" in m["fact"] or "attempt 0" in m["fact"] for m in found["missing"])


def test_a_later_attempt_that_fails_by_itself_is_named_with_a_word_of_caution(tmp_path: Path) -> None:
    """Attempt 1 trained and rank 2 raised: that is its cause; what ended attempt 0 is missing, and said to be."""
    job = Job()
    resumed(job, 100, 31, 45, end=False)
    job.uncaught(2, 120.1, "KeyError: 'labels'")
    job.peers_lose(2, 120.3)
    found = primary(diagnose(later_only(tmp_path, job, 1)))

    assert (found["initiating_ranks"], found["failure_class"], found["attempt"]) == ([2], "user_exception", 1)
    assert any("attempt 0" in m["fact"] for m in found["missing"])


def test_a_first_attempt_that_never_met_is_no_restart(tmp_path: Path) -> None:
    job = Job()
    job.begin(100)
    for r in (1, 2, 3):
        job.uncaught(r, 160 + r, REFUSED)
    found = primary(diagnose(job.per_rank(tmp_path / "logs")))

    assert found["failure_class"] != "unknown_restart"
    assert not any("attempt" in m["fact"] for m in found["missing"])
