from __future__ import annotations

from typing import Any

import pytest

from correlator.parsers.schema import Event, Tag
from correlator.parsers.sources import c10d_nccl

from .reading import only, read

RANK9 = (Tag("ranktag", 9),)
WORK = "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000)"
TIMEOUT = f"Watchdog caught collective operation timeout: {WORK} ran for 600069 milliseconds before timing out."
PG = "[PG ID 2 PG GUID 7(tp) Rank 1] "


def one(text: str, kind: str, rank: int | None = 9, level: str = "E") -> Event:
    tags = (Tag("ranktag", rank),) if rank is not None else ()
    return only(read(c10d_nccl, f"[{level}1104 12:34:56.123456789 ProcessGroupNCCL.cpp:607] {text}", tags=tags), kind)


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("[Rank 1] " + TIMEOUT, "timed_out_waiting",
         {"seq": 42, "op": "ALLREDUCE", "numel_in": "8", "numel_out": "8", "timeout_ms": 600000.0, "duration_ms": 600069.0, "group_rank": 1, "pg": None}),
        (PG + "Work " + WORK + " timed out in blocking wait.", "timed_out_waiting", {"seq": 42, "pg": "7", "desc": "tp", "duration_ms": None}),
        ("[Rank 0] Caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=BROADCAST, TensorShape=[4, 5], Timeout(ms)=1000) ran for 1001 milliseconds before timing out.",
         "timed_out_waiting", {"seq": 3, "op": "BROADCAST", "numel_in": "4, 5", "timeout_ms": 1000.0}),
        ("[PG 1 Rank 3] Timeout at NCCL work: 27, last enqueued NCCL work: 29, last completed NCCL work: 26.", "pg_status",
         {"pg": "1?", "group_rank": 3, "work": 27, "last_enqueued": 29, "last_completed": 26}),
        ("[PG 0 (default_pg) Rank 3] Exception (either an error or timeout) detected by watchdog at work: 27, last enqueued NCCL work: 29, last completed NCCL work: -1.", "pg_status",
         {"pg": "0", "desc": "default_pg", "work": 27, "last_completed": -1}),
        (PG + " failure detected by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed work: 5", "pg_status",
         {"pg": "7", "work": 6, "last_enqueued": 6, "last_completed": 5}),
        ("[PG 0 Rank 1] Timeout at NCCL work: 2, last enqueued NCCL work: 2, last completed NCCL work: 76280750235782912.", "pg_status",
         {"last_enqueued": 2, "last_completed": None}),
        (PG + "Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 8, last completed NCCL work: 7.",
         "pg_status", {"last_enqueued": 8, "last_completed": 7, "from_rank": None}),
        (PG + "Received a dump signal due to a collective timeout from  rank 3 and we will try our best to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 5.",
         "pg_status", {"last_enqueued": 5, "from_rank": 3}),
        ("[PG 0 Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.", "watchdog_stuck", {"duration_ms": 480000.0}),
        ("[PG 0 Rank 3] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=117", "watchdog_stuck", {"pending": 117}),
        (PG + "First PG on this rank that detected no heartbeat of its watchdog.", "watchdog_stuck", {"pg": "7"}),
        ("Could not acquire GIL within 300 ms on exit, possible GIL induced hang", "watchdog_stuck", {"gil": True}),
        (PG + " remote error detected from rank: 3", "remote_error", {"from_group_rank": 3}),
        ("[Rank 1] Found key in store: NCCLABORTEDCOMM:0f00, from rank: 2. This means that rank has aborted its NCCL communicators previously", "remote_error", {"from_group_rank": 2}),
        (PG + "NCCL watchdog thread terminated with exception: [Rank 1] " + TIMEOUT, "aborted", {"why": "own timeout"}),
        (PG + "Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5", "remote_error", {"pg": "7"}),
        (PG + "Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered", "raised",
         {"exception": "CUDA error", "text": "CUDA error: uncorrectable ECC error encountered", "uncaught": True}),
        (PG + "Process group watchdog thread terminated with exception: std::bad_alloc", "aborted", {"text": "std::bad_alloc"}),
        ("[Rank 1] To avoid data inconsistency, we are taking the entire process down.", "aborted", {"group_rank": 1}),
        (PG + "Terminating the process after attempting to dump debug info, due to collective timeout or exception.", "aborted", {"pg": "7"}),
        (PG + "ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1", "teardown_noise", {"pg": "7"}),
        ("WARNING: destroy_process_group() was not called before program exit, which can leak resources.", "teardown_noise", {}),
        (PG + "Guessing device ID based on global rank. This can cause a hang if rank to GPU mapping is heterogeneous.", "warned", {"pg": "7"}),
    ],
)  # fmt: skip
def test_lines(text: str, kind: str, fields: dict[str, Any]) -> None:
    event = one(text, kind)
    assert event.rank == 9
    assert {k: event.attrs.get(k, getattr(event, k, None)) for k in fields} == fields


def test_the_rank_of_the_default_group_stands_in_where_no_global_one_is_printed() -> None:
    assert one("[Rank 3] " + TIMEOUT, "timed_out_waiting", rank=None).attrs["assumed_rank"] == 3
    assert "assumed_rank" not in one("[Rank 3] " + TIMEOUT, "timed_out_waiting").attrs
    assert "assumed_rank" not in one(PG + TIMEOUT, "timed_out_waiting", rank=None).attrs


def test_an_error_keeps_its_unprefixed_lines_and_loses_its_frames() -> None:
    text = """[E ProcessGroupNCCL.cpp:523] [Rank 1] Collective WorkNCCL(SeqNum=4, OpType=ALLREDUCE) raised the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
Last error:
NET/IB: Got completion from peer 10.2.0.7<41520> with status=12
Exception raised from checkForNCCLErrorsInternal at ../ProcessGroupNCCL.cpp:1 (most recent call first):
frame #0: c10::Error::Error() + 0x96 (0x7f in libc10.so)

step 12 loss 3.1"""
    out = read(c10d_nccl, text, tags=RANK9)
    event = only(out, "remote_error")
    assert (event.seq, event.op, event.peer_host, event.line_end) == (4, "ALLREDUCE", "10.2.0.7", 7)
    assert "Last error:\nNET/IB: Got completion" in event.message
    assert "frame #0" not in event.message


def test_the_call_site_of_the_failed_collective_is_a_stack() -> None:
    text = """[E1104 12:34:56.123456789 ProcessGroupNCCL.cpp:730] Stack trace of the failed collective:
#0 all_reduce from /env/torch/distributed/distributed_c10d.py:2696
#1 wrapper from /env/torch/distributed/c10d_logger.py:83
#2 train from /w/train.py:40
"""
    event = only(read(c10d_nccl, text, tags=RANK9), "stack")
    assert event.attrs["frames"] == ["distributed_c10d.py:all_reduce", "c10d_logger.py:wrapper", "train.py:train"]


DESYNC = """[E1104 12:34:56.123456789 ProcessGroupNCCL.cpp:730] [PG ID 0 PG GUID 0(default_pg) Rank 3] Rank 3
\t - [3] Timeout at collective: ALLREDUCE, #42
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
\t   - [0, 1] joined but didn't finish collective #41 (count from 1)
\t     [2] finished collective #41, but didn't join collective #42 (count from 1)
\t - Snapshot of ranks' latest states:
\t   #42 started ranks:
\t     [0, 1] started ALLREDUCE"""


def test_desync_names_those_behind_and_not_those_inside() -> None:
    event = only(read(c10d_nccl, DESYNC, tags=(Tag("ranktag", 3),)), "accused")
    assert (event.attrs["ranks"], event.attrs["why"], event.attrs.get("reliable")) == ([2], "desync", None)


def test_desync_of_another_group_is_not_about_global_ranks() -> None:
    event = only(read(c10d_nccl, DESYNC, tags=RANK9), "accused")
    assert event.attrs["reliable"] is False


def test_desync_of_2_0_follows_the_timeout_line() -> None:
    text = f"[E ProcessGroupNCCL.cpp:828] [Rank 3] {TIMEOUT}\n\t - [3] Timeout at collective: ALLREDUCE, #42\n\t - To our best knowledge, ranks [5, 6] are the lagging ranks that caused this timeout. They never joined any collectives"
    out = read(c10d_nccl, text, tags=(Tag("ranktag", 3),))
    assert only(out, "timed_out_waiting").seq == 42
    assert only(out, "accused").attrs["ranks"] == [5, 6]


def test_start_up_options_prove_the_rank() -> None:
    event = one(
        "[PG ID 0 PG GUID 0 Rank 5] ProcessGroupNCCL initialization options: size: 8, global rank: 5, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0",
        "identity",
        level="I",
    )
    assert (event.attrs["global_rank"], event.attrs["world_size"]) == (5, 8)


def test_info_lines_make_no_events() -> None:
    assert (
        read(
            c10d_nccl, "[I1104 12:34:56.123456789 ProcessGroupNCCL.cpp:607] [PG ID 0 PG GUID 0 Rank 5] ProcessGroupNCCL broadcast unique ID through store took 0.1 ms"
        ).events
        == []
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NCCL communicator was aborted on rank 3. Original reason for failure was: " + TIMEOUT,
         ("timed_out_waiting", {"seq": 42, "op": "ALLREDUCE", "numel_in": "8", "numel_out": "8", "timeout_ms": 600000.0, "duration_ms": 600069.0})),
        ("NCCL communicator was aborted on rank 3. ", ("aborted", {"why": "communicator aborted", "group_rank": 3})),
        ("NCCL communicator encountered error set by ProcessGroupNCCL: NCCL error: remote process exited or there was a network error", ("remote_error", {})),
        ("NCCL error in: x.cpp:1, invalid usage, NCCL version 2.18\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", None),
        ("NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.18\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'", None),
        ("NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.18\nncclSystemError: System call failed.\nLast error:\nsocketProgress: Connection closed by remote peer node-2<43210>",
         ("remote_error", {"peer_host": "node-2"})),
        ("NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.18\nLast error:\nError while creating shared memory segment /dev/shm/nccl-a (size 9637888): No space left on device", None),
        ("NCCL error in: x.cpp:1, internal error, NCCL version 2.18\nncclInternalError: Internal check failed.\nLast error:\n", ("remote_error", {"why": "internal or system error without a reason"})),
    ],
)  # fmt: skip
def test_quoted_errors(text: str, found: tuple[str, dict[str, Any]] | None) -> None:
    assert c10d_nccl.classify(text) == found


def test_terminate_without_its_first_line() -> None:
    event = only(read(c10d_nccl, "  what():  [PG ID 2 PG GUID 3 Rank 1] Process group watchdog thread terminated with exception: [Rank 1] NCCL x"), "aborted")
    assert (event.attrs["group_rank"], event.attrs["why"]) == (1, "terminate")
