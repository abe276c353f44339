from __future__ import annotations

from typing import Any

import pytest

from correlator.parsers.sources import elastic, signals

from .reading import only, read

API = "E1130 20:59:42.814000 713 torch/distributed/elastic/multiprocessing/api.py:1002] "


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        (API + "Sending process 1920 closing signal SIGTERM", "signalled", {"pid": 1920, "signal": "SIGTERM"}),
        ("WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 799 closing signal SIGINT", "signalled", {"pid": 799, "signal": "SIGINT"}),
        (API + "Unable to shutdown process 7 via 15, forcefully exiting via 9", "signalled", {"pid": 7, "signal": "SIGKILL", "stuck": True}),
        ("[2024-07-20 12:41:07,331] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -6) local_rank: 1 (pid: 8115) of binary: /v/python", "exit_record",
         {"exitcode": -6, "signal": "SIGABRT", "local_rank": 1, "pid": 8115, "by": "elastic"}),
        (API + "failed (exitcode: 137) local_rank: 0 (pid: 5) of binary: /bin/bash", "exit_record", {"exitcode": 137, "signal": "SIGKILL"}),
        (API + "failed (exitcode: 1) local_rank: 0 (pid: 5) of fn: main (start_method: spawn)", "exit_record", {"exitcode": 1, "local_rank": 0}),
        ("WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers", "external_signal", {"signal": "SIGTERM", "agent": True}),
        ("WARNING:torch.distributed.elastic.agent.server.api:Received Signals.SIGINT death signal, shutting down workers", "external_signal", {"signal": "SIGINT", "agent": True}),
        (API + "[default] Worker group FAILED. 2/3 attempts left; will restart worker group", "restart", {"attempts_left": 2}),
        (API + "[default] Detected 1 new nodes from group_rank=2; will restart worker group", "restart", {"why": "membership", "new_nodes": 1, "node_rank": 2}),
        (API + "Worker pid=33 entered uninterruptible sleep (D-state); monitoring", "warned", {"pid": 33, "why": "uninterruptible sleep"}),
        (API + "Worker pid=33 stuck in uninterruptible sleep (D-state) for 12.5s (>= 10s); marking worker group UNHEALTHY and disabling restarts.", "warned", {"pid": 33}),
        (API + "Process 44 did not exit after SIGKILL within 30s; abandoning it", "warned", {"pid": 44, "why": "uninterruptible sleep"}),
        ("The node 'host-3_912_0' has failed to send a keep-alive heartbeat to the rendezvous 'job8' due to an error of type RendezvousConnectionError.", "lost_store", {"agent": True}),
        ("The node 'host-3_912_0' has failed to shutdown the rendezvous 'job8' due to an error of type RendezvousConnectionError.", "teardown_noise", {}),
        ("Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid", "started", {"agent": True}),
    ],
)  # fmt: skip
def test_agent_lines(text: str, kind: str, fields: dict[str, Any]) -> None:
    event = only(read(elastic, text), kind)
    assert {k: v for k, v in event.attrs.items() if k in fields} == fields


def test_time_spent_in_uninterruptible_sleep() -> None:
    event = only(read(elastic, API + "Worker pid=33 stuck in uninterruptible sleep (D-state) for 12.5s (>= 10s); marking worker group UNHEALTHY"), "warned")
    assert event.duration_ms == 12500.0


def test_nodes_without_heartbeat_are_named() -> None:
    text = "As part of the sync operation the node(s) 'gpu-7_812_0', 'gpu-9_33_0' have been removed from the rendezvous 'job8' since they had no heartbeat."
    assert [e.peer_host for e in read(elastic, text).events] == ["gpu-7", "gpu-9"]


def test_other_lines_are_left_alone() -> None:
    for text in ("node_rank is only used for static rdzv_backend. It will be ignored for rdzv_backend=c10d.", "step 3 loss 2.1", "worker group size 8"):
        assert read(elastic, text).events == []


def test_rendezvous_result_maps_global_ranks() -> None:
    text = """[default] Rendezvous complete for workers. Result:
  restart_count=1
  master_addr=gpu-7
  master_port=29500
  group_rank=1
  group_world_size=2
  local_ranks=[0, 1]
  role_ranks=[2, 3]
  global_ranks=[2, 3]
  role_world_sizes=[4, 4]
  global_world_sizes=[4, 4]

[default] Starting worker group"""
    event = only(read(elastic, text), "mapping")
    assert event.attrs == {
        "global_ranks": [2, 3],
        "local_ranks": [0, 1],
        "node_rank": 1,
        "restart": 1,
        "world_size": 4,
        "nodes": 2,
        "master_addr": "gpu-7",
        "master_port": "29500",
    }


REPORT = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-30_20:52:42
  host      : gpu-7.cluster
  rank      : 5 (local_rank: 1)
  exitcode  : -15 (pid: 28764)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 28764
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_20:52:41
  host      : gpu-7.cluster
  rank      : 4 (local_rank: 0)
  exitcode  : 1 (pid: 28763)
  error_file: /scratch/job_ab/attempt_2/0/error.json
  traceback : Traceback (most recent call last):
    File "/v/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 367, in wrapper
      return f(*args, **kwargs)
  ValueError: bad sample 7741
============================================================
bash: done"""


def test_the_report_gives_one_record_a_worker() -> None:
    out = read(elastic, REPORT)
    stopped, failed = [e for e in out.events if e.kind == "exit_record"]
    assert (stopped.peer_rank, stopped.line, stopped.attrs) == (5, 6, {
        "by": "elastic", "exitcode": -15, "signal": "SIGTERM", "pid": 28764, "local_rank": 1, "node": "gpu-7.cluster", "time": "2026-11-30_20:52:42", "root_cause": False,
        "reading": True,
    })  # fmt: skip
    assert (failed.peer_rank, failed.line) == (4, 15)
    assert failed.attrs == {
        "by": "elastic", "exitcode": 1, "pid": 28763, "local_rank": 0, "node": "gpu-7.cluster", "error_file": "/scratch/job_ab/attempt_2/0/error.json", "log_attempt": 2,
        "time": "2026-11-30_20:52:41", "root_cause": True, "exception_text": "ValueError: bad sample 7741", "exception_line": 24, "reading": True,
    }  # fmt: skip
    mappings = [e.attrs for e in out.events if e.kind == "mapping"]
    assert mappings[1] == {"global_rank": 4, "local_rank": 0, "pid": 28763, "host": "gpu-7.cluster", "error_file": "/scratch/job_ab/attempt_2/0/error.json"}
    assert len(mappings) == 2


def test_a_report_without_other_failures_and_a_cut_one() -> None:
    lonely = REPORT.replace(REPORT[REPORT.index("[1]:") : REPORT.index("-----", REPORT.index("[1]:"))], "  <NO_OTHER_FAILURES>\n")
    assert [e.peer_rank for e in read(elastic, lonely).events if e.kind == "exit_record"] == [4]
    cut = REPORT[: REPORT.index("  exitcode  : 1 (pid")]
    assert [e.peer_rank for e in read(elastic, cut).events if e.kind == "exit_record"] == [5]


@pytest.mark.parametrize(
    ("code", "signal"), [(-9, "SIGKILL"), (137, "SIGKILL"), (-11, "SIGSEGV"), (143, "SIGTERM"), (-40, "signal 40"), (1, None), (0, None), (255, None)]
)
def test_signal_of_an_exit_code(code: int, signal: str | None) -> None:
    assert signals.of_exit(code) == signal
