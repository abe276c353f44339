"""The report and the monitor stream of NCCL's reliability service."""

from __future__ import annotations

from typing import Any

import pytest

from correlator.parsers.schema import Event
from correlator.parsers.sources import nccl_ras
from tests.parsers.sources.reading import only, read

HEAD = """NCCL version 2.28.9 compiled with CUDA 13.0
Job summary
===========

Communicators... (0.31s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        31   RUNNING  INCOMPLETE
    1         4         1         8         8        32   RUNNING  MISMATCH

"""


def report(text: str) -> list[Event]:
    return read(nccl_ras, HEAD + text).events


def fields(event: Event) -> dict[str, Any]:
    return {**event.attrs, "peer_rank": event.peer_rank, "peer_host": event.peer_host, "op": event.op}


def test_a_dead_process_is_named_by_node_and_pid() -> None:
    out = read(
        nccl_ras,
        HEAD + "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 2311 on node 172.16.4.20 managing GPU 2\n",
    )
    found = fields(only(out, "accused"))
    assert (found["why"], found["peer_host"], found["pid"], found["device"]) == ("ras_dead", "172.16.4.20", 2311, 2)


def test_a_process_without_data_is_not_yet_dead() -> None:
    assert report("INCOMPLETE\n  Missing communicator data from 1 job process\n  Process 2207 on node 172.16.4.19 managing GPU 5\n") == []


def test_a_rank_of_the_whole_job_is_global() -> None:
    (event,) = report("#0-0 (a9d3b2c41f77e001) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 13 -- GPU 5 managed by process 2207 on node 172.16.4.19\n")
    found = fields(event)
    assert (found["why"], found["peer_rank"], found["peer_host"], found["pid"], event.pg) == (
        "ras_missing",
        13,
        "172.16.4.19",
        2207,
        "0xa9d3b2c41f77e001",
    )
    assert "reliable" not in found


def test_a_rank_of_a_smaller_communicator_is_not() -> None:
    (event,) = report("#1-3 (51f0aa12c3d4e5f7) INCOMPLETE\n  Rank 6 -- [process information not found]\n")
    found = fields(event)
    assert (found["peer_rank"], found["group_rank"], found["reliable"], found["peer_host"]) == (None, 6, False, None)


def test_without_the_table_no_rank_is_global() -> None:
    out = read(nccl_ras, "#0-0 (a9d3b2c41f77e001) INCOMPLETE\n  Rank 13 -- GPU 5 managed by process 2207 on node 172.16.4.19\n")
    assert fields(only(out, "accused"))["peer_rank"] is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [("CUDA error", "accused"), ("System error", "accused"), ("Remote process error", "remote_error")],
)
def test_a_remote_error_makes_a_victim_every_other_a_suspect(error: str, kind: str) -> None:
    (event,) = report(
        f"#0-0 (a9d3b2c41f77e001) ERROR\n  Asynchronous error on 1 rank\n  Rank 6 reported {error} -- GPU 6 (NVML 2) managed by process 3113 on node 172.16.4.11\n"
    )
    assert (event.kind, event.attrs["error"]) == (kind, error)
    if kind == "accused":
        assert (event.peer_rank, event.peer_host) == (6, "172.16.4.11")
    else:
        assert (event.attrs["subject_rank"], event.attrs["host"], event.peer_rank) == (6, "172.16.4.11", None)


MISMATCH = "#0-0 (a9d3b2c41f77e001) MISMATCH\n  Communicator ranks have different {what}\n  31 ranks have {most}\n  Rank 3 has {one} -- GPU 3 managed by process 3110 on node 172.16.4.11\n"


@pytest.mark.parametrize(("one", "count"), [("launched up to operation 4210", 4210), ("not launched any operations", 0)])
def test_the_rank_that_is_behind_is_waited_for(one: str, count: int) -> None:
    (event,) = report(MISMATCH.format(what="AllReduce operation counts", most="launched up to operation 4211", one=one))
    found = fields(event)
    assert (found["why"], found["peer_rank"], found["op"], found["count"], found["peers_count"]) == (
        "ras_behind",
        3,
        "AllReduce",
        count,
        4211,
    )


def test_a_rank_that_is_ahead_is_no_suspect() -> None:
    assert (
        report(
            MISMATCH.format(
                what="AllReduce operation counts",
                most="launched up to operation 4211",
                one="launched up to operation 4212",
            )
        )
        == []
    )


@pytest.mark.parametrize(("status", "accused"), [("INIT", 1), ("ABORT", 0)])
def test_a_rank_still_in_init_is_waited_for(status: str, accused: int) -> None:
    assert len(report(MISMATCH.format(what="status", most="status RUNNING", one=f"status {status}"))) == accused


def test_counts_of_one_operation_are_not_those_of_the_next() -> None:
    text = MISMATCH.format(what="AllReduce operation counts", most="launched up to operation 9", one="launched up to operation 10")
    text += "  Communicator ranks have different AllGather operation counts\n  31 ranks have launched up to operation 70\n"
    (event,) = report(text + "  Rank 4 has launched up to operation 69 -- GPU 4 managed by process 3111 on node 172.16.4.11\n")
    assert (event.peer_rank, event.op, event.attrs["count"]) == (4, "AllGather", 69)


def test_the_monitor_stream() -> None:
    event = only(read(nccl_ras, "[2026-02-11 03:15:40] PEER_DEAD: Process 2311 on node 172.16.4.20 managing GPUs 0,1"), "accused")
    assert (event.peer_host, event.attrs["pid"], event.attrs["device"]) == ("172.16.4.20", 2311, 0)
    assert event.stamp is not None and event.stamp.text.strip("[]").startswith("2026-02-11 03:15:40")


@pytest.mark.parametrize(
    "text",
    [
        "    0         1         4         8        32        32   RUNNING  OK",
        "  Rank 3 has launched up to operation 4 -- GPU 3 managed by process 1 on node a",
        "MISMATCH of shapes in layer 3",
        "  Process 4 on node b managing GPU 1",
    ],
)
def test_lines_outside_a_report_are_left_alone(text: str) -> None:
    assert read(nccl_ras, text).events == []
