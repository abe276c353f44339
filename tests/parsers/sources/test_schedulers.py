"""Slurm, MPI launchers, Kubernetes and Ray."""

from __future__ import annotations

import pytest

from correlator.parsers.sources import kubernetes, mpi, ray, slurm

from .reading import only, read

STEP = "slurmstepd: error: *** STEP 71.0 ON node-0 CANCELLED AT 2026-03-02T11:00:05"


def test_srun_lists_tasks_in_ranges() -> None:
    out = read(slurm, "srun: error: node-[2-3]: tasks 16-18,25: Exited with exit code 1")
    assert [e.peer_rank for e in out.events] == [16, 17, 18, 25]
    assert {(e.kind, e.attrs["by"], e.attrs["exitcode"], e.attrs.get("node")) for e in out.events} == {("exit_record", "slurm", 1, None)}


@pytest.mark.parametrize(
    ("what", "signal"),
    [("Killed", "SIGKILL"), ("Segmentation fault (core dumped)", "SIGSEGV"), ("Aborted", "SIGABRT"), ("Bus error", "SIGBUS"), ("Terminated", "SIGTERM"), ("Exited with exit code 3", None)],
)  # fmt: skip
def test_how_a_task_ended(what: str, signal: str | None) -> None:
    event = only(read(slurm, f"srun: error: node-3: task 5: {what}"), "exit_record")
    assert (event.peer_rank, event.attrs["node"], event.attrs.get("signal")) == (5, "node-3", signal)


def test_out_of_memory_is_the_kernels_kill() -> None:
    out = read(slurm, "srun: error: node-7: task 57: Out Of Memory")
    assert only(out, "killed_by_kernel").attrs == {"host": "node-7", "scope": "host", "tasks": [57]}  # a task may be a node's launcher
    assert only(out, "exit_record").attrs["signal"] == "SIGKILL"


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        (STEP + " DUE TO PREEMPTION ***", "preempted", {"reason": "preemption"}),
        (STEP + " DUE TO JOB REQUEUE ***", "preempted", {"reason": "job requeue"}),
        (STEP + " DUE TO TIME LIMIT ***", "external_signal", {"signal": "SIGTERM", "reason": "time limit"}),
        ("[2026-03-02T11:00:05.123] error: *** JOB 71 ON node-1 CANCELLED AT 2026-03-02T11:00:05 DUE TO TIME LIMIT ***", "external_signal", {"reason": "time limit"}),
        (STEP + " ***", "external_signal", {"signal": "SIGTERM", "reason": "cancelled"}),
        (STEP + " DUE to SIGNAL Killed ***", "teardown_noise", {"reason": "signal killed"}),
        (STEP + " DUE TO TASK FAILURE ***", "teardown_noise", {"reason": "task failure"}),
        ("slurmstepd: error: *** JOB 71 ON node-1 FAILED (non-zero exit code or other failure mode) ***", "teardown_noise", {"reason": "failed"}),
        ("srun: error: Node failure on node-4", "host_gone", {"host": "node-4"}),
        ("srun: error: Task launch for StepId=71.0 failed on node node-9: Socket timed out", "warned", {"host": "node-9", "why": "launch failed"}),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step tasks have been OOM Killed.", "killed_by_kernel", {"scope": "host", "count": 1, "step_id": "71.0"}),
        ("slurmstepd: error: Detected 2 oom-kill event(s) in StepId=71.batch cgroup. Some", "killed_by_kernel", {"count": 2, "step_id": "71.batch"}),
        ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", "teardown_noise", {}),
    ],
)  # fmt: skip
def test_the_end_of_a_step(text: str, kind: str, fields: dict[str, object]) -> None:
    event = only(read(slurm, text), kind)
    assert {k: event.attrs.get(k) for k in fields} == fields


def test_the_node_that_reports_a_node_failure_is_not_the_one_that_failed() -> None:
    alone = only(read(slurm, STEP + " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"), "host_gone")
    assert (alone.attrs.get("host"), alone.attrs["reporter"]) == (None, "node-0")
    both = read(slurm, "srun: error: Node failure on node-1\n" + STEP + " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***")
    assert [e.attrs["host"] for e in both.events] == ["node-1", "node-1"]


def test_a_huge_range_is_bounded() -> None:
    assert len(slurm.expand("0-99999999999")) == slurm.TASKS_LIMIT


def test_mpirun_names_the_process_and_its_signal() -> None:
    event = only(read(mpi, "mpirun noticed that process rank 3 with PID 703 on node ctr-110 exited on signal 6 (Aborted)."), "exit_record")
    assert (event.peer_rank, event.attrs) == (3, {"by": "mpi", "pid": 703, "node": "ctr-110", "signal": "SIGABRT", "root_cause": True})


def test_the_first_process_with_its_exit_code() -> None:
    event = only(read(mpi, "  Process name: [[50124,1],1]\n  Exit code:    3"), "exit_record")
    assert (event.peer_rank, event.attrs["exitcode"], event.attrs.get("signal")) == (1, 3, None)


def test_mpi_abort_with_its_code() -> None:
    event = only(read(mpi, "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 5."), "exit_record")
    assert (event.peer_rank, event.attrs["exitcode"]) == (3, 5)


def test_hydra_prints_a_signal_as_exit_code() -> None:
    event = only(read(mpi, "=   PID 4411 RUNNING AT node-2\n=   EXIT CODE: 9"), "exit_record")
    assert (event.attrs["pid"], event.attrs["node"], event.attrs["signal"]) == (4411, "node-2", "SIGKILL")


def test_mvapich() -> None:
    event = only(read(mpi, "[node-2:mpi_rank_3][error_sighandler] Caught error: Segmentation fault (signal 11)"), "crashed")
    assert (event.attrs["subject_rank"], event.attrs["signal"]) == (3, "SIGSEGV")


DESCRIBE = (
    "Name:         pt-lm-worker-6\n    State:          Running\n      Started:      Wed, 02 Dec 2020 10:31:40 +0000\n"
    "    Last State:     Terminated\n      Reason:       {reason}\n      Exit Code:    {code}\n"
    "      Finished:     Wed, 02 Dec 2020 10:31:38 +0100\n    Restart Count:  1"
)


def test_how_the_last_container_of_a_pod_ended() -> None:
    out = read(kubernetes, DESCRIBE.format(reason="Error", code=139))
    record = only(out, "exit_record")
    assert record.attrs == {"by": "kubernetes", "pod": "pt-lm-worker-6", "exitcode": 139, "signal": "SIGSEGV", "reason": "Error"}
    assert record.stamp is not None
    assert (record.stamp.utc_us, record.stamp.offset_min) == (1_606_901_498_000_000, 60)
    assert only(out, "restart").attrs == {"count": 1, "pod": "pt-lm-worker-6"}


def test_a_container_out_of_memory_was_killed_by_the_kernel() -> None:
    out = read(kubernetes, DESCRIBE.format(reason="OOMKilled", code=137))
    assert only(out, "killed_by_kernel").attrs["pod"] == "pt-lm-worker-6"
    assert "signal" not in only(out, "exit_record").attrs


def test_a_container_that_ended_well_or_never_restarted_says_nothing() -> None:
    assert read(kubernetes, "    State:          Terminated\n      Reason:       Completed\n      Exit Code:    0\n    Restart Count:  0").events == []


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("2m  Warning  Preempted  pod/llm-worker-3  Preempted by pod 7c1f on node gpu-node-4", "preempted", {"reason": "Preempted"}),
        ("2m  Warning  Evicted  pod/llm-worker-3  The node was low on resource: memory. Threshold", "host_memory", {"scope": "host"}),
        ("2m  Normal  NodeNotReady  node/gpu-node-4  Node gpu-node-4 status is now: NodeNotReady", "host_gone", {"host": "gpu-node-4"}),
        ("5m  Warning  OOMKilling  node/gpu-4  Memory cgroup out of memory: Killed process 4411 (python)", "killed_by_kernel", {"host": "gpu-4", "pid": 4411, "comm": "python"}),
        ('  "reason": "OOMKilled",', "killed_by_kernel", {"scope": "host"}),
    ],
)  # fmt: skip
def test_events(text: str, kind: str, fields: dict[str, object]) -> None:
    event = only(read(kubernetes, text), kind)
    assert {k: event.attrs.get(k) for k in fields} == fields


@pytest.mark.parametrize("text", ["request Preempted by scheduler, recomputing", "INFO cache: Evicted 3 blocks", "Exit Code: 1", "Name:         resnet50"])
def test_a_programs_own_words_are_left_alone(text: str) -> None:
    assert read(kubernetes, text).events == []


def test_rays_table_of_workers() -> None:
    event = only(read(ray, "- (node_id=ab12, ip=10.0.0.7, pid=4411) world_rank=3, local_rank=1, node_rank=0"), "mapping")
    assert event.attrs == {"global_rank": 3, "local_rank": 1, "node_rank": 0, "pid": 4411, "host": "10.0.0.7"}
    assert only(read(ray, "- (ip=10.0.0.7, pid=4411) world_rank=3, local_rank=1, node_rank=0"), "mapping").attrs["pid"] == 4411


def test_a_worker_that_ray_lost() -> None:
    text = "Worker ID: 9f Node ID: 3c Worker IP address: 10.0.0.7 Worker port: 10015 Worker PID: 4411 Worker exit type: SYSTEM_ERROR Worker exit detail: connection error code 2."
    event = only(read(ray, text), "exit_record")
    assert (event.attrs["pid"], event.attrs["node"], event.attrs["reason"]) == (4411, "10.0.0.7", "SYSTEM_ERROR")


def test_rays_memory_monitor() -> None:
    text = "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: ab12, IP: 10.0.0.7) over the last time period."
    assert only(read(ray, text), "host_memory").attrs["host"] == "10.0.0.7"
