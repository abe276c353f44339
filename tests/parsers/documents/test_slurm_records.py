"""sacct tables and scontrol records."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from correlator.parsers.documents import slurm_records
from correlator.parsers.schema import Event, Sink

PIPES = "JobID|JobName|State|ExitCode|End|NodeList\n"
COLUMNS = """JobID           JobName      State ExitCode        NodeList
------------ ---------- ---------- -------- ---------------
71                  llm  {state:>10} {code:>8}     node-[1-2]
71.batch          batch     FAILED      1:0          node-1
71.0             python     FAILED     0:11     node-[1-2]
"""
JOB = """JobId=71 JobName=llm
   UserId=ml(1001) GroupId=ml(1001) MCS_label=N/A
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code}
   RunTime=00:10:05 TimeLimit=1-00:00:00 TimeMin=N/A
   StartTime=2026-03-02T10:50:00 EndTime=2026-03-02T11:00:05 Deadline=N/A
   NodeList={nodes}
"""
NODE = """NodeName=node-4 Arch=x86_64 CoresPerSocket=48
   OS=Linux 5.15.0-113-generic #123-Ubuntu SMP
   State={state} ThreadsPerCore=2
   Reason={reason} [slurm@2026-03-02T11:00:05]
"""


def read(text: str) -> Sink:
    assert slurm_records.claims("records.txt", text.encode()[:4096])
    out = Sink("records.txt")
    slurm_records.parse("records.txt", text.encode(), out)
    return out


def one(text: str) -> Event:
    (event,) = read(text).events
    return event


@pytest.mark.parametrize(
    ("state", "kind", "fields"),
    [
        ("PREEMPTED|0:15", "preempted", {"reason": "preempted", "agent": True}),
        ("REQUEUED|0:0", "preempted", {"reason": "requeued"}),
        ("TIMEOUT|0:0", "external_signal", {"reason": "time limit", "signal": "SIGTERM"}),
        ("CANCELLED by 1001|0:0", "external_signal", {"reason": "cancelled", "uid": 1001}),
        ("NODE_FAIL|1:0", "host_gone", {"host": "node-1", "reason": "node failure"}),
        ("OUT_OF_MEMORY|0:125", "killed_by_kernel", {"host": "node-1", "scope": "host"}),
        ("FAILED|1:0", "exit_record", {"exitcode": 1, "node": "node-1", "by": "slurm"}),
        ("FAILED|0:9", "exit_record", {"signal": "SIGKILL"}),
        ("FAILED|137:0", "exit_record", {"exitcode": 137, "signal": "SIGKILL"}),
    ],
)
def test_states_of_a_job(state: str, kind: str, fields: dict[str, object]) -> None:
    event = one(f"{PIPES}71|llm|{state}|2026-03-02T11:00:05|node-1\n")
    assert (event.kind, event.line, event.source, event.attrs["job"]) == (kind, 2, "slurm", "71")
    assert {k: event.attrs.get(k) for k in fields} == fields
    assert event.stamp is not None
    assert event.stamp.utc_us == int(datetime(2026, 3, 2, 11, 0, 5, tzinfo=UTC).timestamp()) * 1_000_000
    assert event.stamp.offset_min is None


@pytest.mark.parametrize("state", ["COMPLETED|0:0", "RUNNING|0:0", "PENDING|0:0"])
def test_a_job_that_is_well_is_only_a_setting(state: str) -> None:
    out = read(f"{PIPES}71|llm|{state}|Unknown|node-1\n")
    assert out.events == []
    assert [(key, value, origin) for _, _, key, value, origin in out.configs] == [("slurm.state", state.split("|")[0], "sacct 71")]


def test_of_several_nodes_none_is_named() -> None:
    event = one(f"{PIPES}71|llm|NODE_FAIL|1:0|2026-03-02T11:00:05|node-[1-2]\n")
    assert "host" not in event.attrs


def test_columns_by_dashes_and_the_numbered_step_says_how_tasks_ended() -> None:
    event = one("$ sacct -j 71\n" + COLUMNS.format(state="FAILED", code="1:0"))
    assert (event.kind, event.line, event.attrs["job"], event.attrs["signal"]) == ("exit_record", 6, "71.0", "SIGSEGV")
    assert "exitcode" not in event.attrs and "node" not in event.attrs


def test_a_step_adds_nothing_to_a_stop_from_outside() -> None:
    text = f"{PIPES}71|llm|PREEMPTED|0:15|2026-03-02T11:00:05|node-1\n71.0|python|CANCELLED|0:15|2026-03-02T11:00:05|node-1\n"
    assert [e.kind for e in read(text).events] == ["preempted"]


def test_a_truncated_state_is_still_a_state() -> None:
    assert (
        one(COLUMNS.format(state="CANCELLED+", code="0:0").replace("71.0             python     FAILED", "71.0             python  CANCELLED")).kind == "external_signal"
    )


def test_a_running_job_of_scontrol() -> None:
    out = read(JOB.format(state="RUNNING", reason="None", code="0:0", nodes="node-[1-2]"))
    assert out.events == []
    assert [(key, value) for _, _, key, value, _ in out.configs] == [("slurm.state", "RUNNING")]


def test_a_failed_node_of_scontrol() -> None:
    out = read(JOB.format(state="NODE_FAIL", reason="NodeDown", code="1:0", nodes="node-4"))
    (event,) = out.events
    assert (event.kind, event.line, event.attrs["host"]) == ("host_gone", 3, "node-4")
    assert [(key, value) for _, _, key, value, _ in out.configs] == [
        ("slurm.state", "NODE_FAIL"),
        ("slurm.reason", "NodeDown"),
    ]
    assert event.stamp is not None and event.stamp.text == "2026-03-02T11:00:05"


def test_two_jobs_of_scontrol() -> None:
    text = JOB.format(state="TIMEOUT", reason="TimeLimit", code="0:0", nodes="a") + "\n" + JOB.format(state="FAILED", reason="NonZeroExitCode", code="1:0", nodes="b")
    assert [(e.kind, e.line) for e in read(text).events] == [("external_signal", 3), ("exit_record", 11)]


@pytest.mark.parametrize(
    ("state", "reason", "kind"),
    [
        ("DOWN*", "Not responding", "host_gone"),
        ("IDLE+DRAIN+NOT_RESPONDING", "Not responding", "host_gone"),
        ("MIXED+DRAIN", "gpu_healthcheck: Xid 79", "warned"),
    ],
)
def test_nodes(state: str, reason: str, kind: str) -> None:
    event = one(NODE.format(state=state, reason=reason))
    assert (event.kind, event.line, event.attrs["host"], event.attrs["reason"]) == (kind, 3, "node-4", reason)
    assert event.stamp is not None and event.stamp.text == "2026-03-02T11:00:05"


def test_a_node_at_work_says_nothing() -> None:
    assert read(NODE.format(state="ALLOCATED", reason="none")).events == []


@pytest.mark.parametrize(
    "text",
    [
        PIPES + "71|llm|RUNNING|0:0|Unknown|node-1\n2026-03-02 11:00:05 INFO step 1 loss=2.0\n",
        JOB.format(state="RUNNING", reason="None", code="0:0", nodes="n") + "Loading model\n[rank0]: ValueError: bad\n",
        "step 1 loss=2.0\n" + PIPES,
        "",
    ],
)
def test_a_log_that_prints_the_record_stays_a_log(text: str) -> None:
    assert not slurm_records.claims("slurm-71.out", text.encode())
