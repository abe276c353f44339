from __future__ import annotations

from typing import Any

import pytest

from correlator.parsers.sources import faulthandler

from .reading import only, read

FATAL = """Fatal Python error: Segmentation fault

Thread 0x00007f37ccf00000 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f37ccfdcb80 (most recent call first):
  File "/workspace/native_ops.py", line 18 in release_workspace
  File "/workspace/train.py", line 374 in train
  File "/workspace/train.py", line 462 in <module>

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)
[rank0]: step 4"""


def test_the_crashing_thread_is_the_current_one() -> None:
    event = only(read(faulthandler, FATAL), "crashed")
    assert event.attrs == {
        "signal": "SIGSEGV",
        "top": "native_ops.py:release_workspace",
        "frames": ["native_ops.py:release_workspace", "train.py:train", "train.py:<module>"],
    }
    assert (event.line, event.line_end) == (1, 11)


@pytest.mark.parametrize(
    ("words", "signal"),
    [("Aborted", "SIGABRT"), ("Bus error", "SIGBUS"), ("Illegal instruction", "SIGILL"), ("Floating-point exception", "SIGFPE"), ("none_dealloc", "none_dealloc")],
)
def test_signals_of_fatal_errors(words: str, signal: str) -> None:
    assert only(read(faulthandler, f"Fatal Python error: {words}"), "crashed").attrs["signal"] == signal


def test_a_timed_dump_shows_the_main_thread_which_comes_last() -> None:
    text = """Timeout (0:10:08)!
Thread 0x00007fd0d247db80 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in select

Thread 0x00007fd0d2000000 (most recent call first):
  File "/workspace/train.py", line 109 in load_shard
  File "/workspace/train.py", line 462 in <module>
step 3"""
    event = only(read(faulthandler, text), "stack")
    assert (event.duration_ms, event.attrs["top"], event.attrs["frames"], event.line_end) == (
        608000.0,
        "train.py:load_shard",
        ["train.py:load_shard", "train.py:<module>"],
        7,
    )


def test_a_wait_for_a_build_lock_is_said() -> None:
    text = 'Timeout (0:01:00)!\nThread 0x00007f (most recent call first):\n  File "/v/torch/utils/file_baton.py", line 49 in wait\n  File "/v/torch/utils/cpp_extension.py", line 1 in load'
    assert only(read(faulthandler, text), "waiting_on_lock").attrs["scope"] == "job"


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /x/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 4096 vs 4. Received data",
         "aborted", {"why": "size", "got": 4096, "expected": 4, "exception": "gloo::EnforceNotMet"}),
        ("terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 2 PG GUID 3 Rank 1] Process group watchdog thread terminated with exception: "
         "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1000) ran for 1001 milliseconds before timing out.",
         "aborted", {"group_rank": 1, "why": "terminate"}),
        ("terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  NCCL error: remote process exited or there was a network error, NCCL version 2.21.5",
         "remote_error", {"exception": "c10::DistBackendError"}),
        ("terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory access was encountered", "raised", {"exception": "CUDA error", "uncaught": True}),
        ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad header", "crashed", {"signal": "SIGABRT", "why": "std::terminate", "exception": "std::runtime_error"}),
        ("terminate called without an active exception", "crashed", {"signal": "SIGABRT"}),
        ("free(): invalid pointer", "crashed", {"signal": "SIGABRT"}),
        ("double free or corruption (out)", "crashed", {"signal": "SIGABRT"}),
        ("corrupted size vs. prev_size", "crashed", {"signal": "SIGABRT"}),
        ("[n-2:4711:0:4799] Caught signal 7 (Bus error: nonexistent physical address)", "crashed", {"signal": "SIGBUS"}),
        ("Segmentation fault (core dumped)", "crashed", {"signal": "SIGSEGV"}),
        ("Killed", "exit_record", {"signal": "SIGKILL", "by": "shell"}),
        ("/tmp/job.sh: line 9:  811 Killed                  torchrun --nproc 8 train.py", "exit_record", {"pid": 811, "signal": "SIGKILL", "command": "torchrun --nproc 8 train.py"}),
        ("run.sh: line 3: 90 Segmentation fault      (core dumped) python t.py", "exit_record", {"pid": 90, "signal": "SIGSEGV", "command": "python t.py"}),
    ],
)  # fmt: skip
def test_last_words(text: str, kind: str, fields: dict[str, Any]) -> None:
    event = only(read(faulthandler, text), kind)
    assert {k: v for k, v in event.attrs.items() if k in fields} == fields


def test_frames_of_a_terminate_are_swallowed() -> None:
    text = "terminate called after throwing an instance of 'c10::Error'\n  what():  bad\nException raised from f at x.cpp:1 (most recent call first):\nframe #0: c10::Error + 0x9d (0x7f in libc10.so)\n\nstep 5"
    out = read(faulthandler, text)
    assert [(e.kind, e.line_end) for e in out.events] == [("crashed", 5)]


def test_ordinary_lines_are_left_alone() -> None:
    for text in ("Killed 3 stale workers", "Aborted run resumed", "mallocating buffers", "Timeout (s): 600"):
        assert read(faulthandler, text).events == [], text
