from __future__ import annotations

import json

from correlator.parsers.documents import py_spy
from correlator.parsers.schema import Sink

WAITING = b"""Process 27114: /envs/ds/bin/python -u main.py --local_rank=0 --deepspeed
Python v3.11.2 (/envs/ds/bin/python3.11)

Thread 27114 (idle): "MainThread"
    wait (torch/utils/file_baton.py:42)
    _jit_compile (torch/utils/cpp_extension.py:1522)
    <module> (main.py:328)
Thread 27150 (active): "pin_memory"
    select (selectors.py:415)
"""
TWO = b"""Process 11: python train.py --rank 3
Python v3.10.1 (/usr/bin/python3.10)

Thread 0x7F3A (active+gil): "MainThread"
    read_shard (data/shards.py:77)
        Locals:
            path: "/mnt/a (1)"
    main (train.py:9)
Process 12: python train.py --rank 4
Python v3.10.1 (/usr/bin/python3.10)

Thread 12 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2501)
"""


def read(data: bytes) -> Sink:
    assert py_spy.claims("dump.txt", data[:4096])
    out = Sink("dump.txt")
    py_spy.parse("dump.txt", data, out)
    return out


def test_main_thread_is_the_stack() -> None:
    out = read(WAITING)
    (stack,) = [e for e in out.events if e.kind == "stack"]
    assert stack.attrs["top"] == "file_baton.py:wait"
    assert stack.attrs["frames"] == ["file_baton.py:wait", "cpp_extension.py:_jit_compile", "main.py:<module>"]
    assert (stack.attrs["pid"], stack.attrs["local_rank"], stack.attrs["thread"], stack.attrs["state"]) == (27114, 0, "MainThread", "idle")
    assert stack.attrs["other_threads"] == ["pin_memory: selectors.py:select"]
    assert (stack.line, stack.rank) == (4, None)


def test_wait_for_a_build_lock_is_said() -> None:
    (lock,) = [e for e in read(WAITING).events if e.kind == "waiting_on_lock"]
    assert lock.attrs == {"pid": 27114, "scope": "job"}


def test_command_line_proves_the_local_rank() -> None:
    (identity,) = [e for e in read(WAITING).events if e.kind == "identity"]
    assert identity.attrs == {"local_rank": 0, "pid": 27114, "how": "command line"}


def test_several_processes_are_several_writers() -> None:
    out = read(TWO)
    stacks = [(e.rank, e.stream, e.attrs["frames"]) for e in out.events if e.kind == "stack"]
    assert stacks == [
        (3, "pid:11", ["shards.py:read_shard", "train.py:main"]),
        (4, "pid:12", ["distributed_c10d.py:all_reduce"]),
    ]
    assert not [e for e in out.events if e.kind == "waiting_on_lock"]


def test_json_dump() -> None:
    threads = [
        {"pid": 5, "thread_id": 9, "thread_name": "MainThread", "active": True, "owns_gil": True, "os_thread_id": 5,
         "process_info": {"pid": 5, "command_line": ["python", "t.py", "--local-rank", "2"]},
         "frames": [{"name": "load", "filename": "/w/io.py", "line": 3}, {"name": "<module>", "filename": "/w/t.py", "line": 1}]},
    ]  # fmt: skip
    out = read(json.dumps(threads).encode())
    (stack,) = [e for e in out.events if e.kind == "stack"]
    assert (stack.attrs["frames"], stack.attrs["state"], stack.attrs["local_rank"]) == (["io.py:load", "t.py:<module>"], "active+gil", 2)


def test_cut_json_and_frameless_processes_are_problems() -> None:
    whole = json.dumps([{"pid": 5, "thread_id": 9, "owns_gil": False, "frames": []}]).encode()
    assert [(p.kind, p.line) for p in read(whole).problems] == [("empty", 1)]
    assert [p.kind for p in read(whole[:-3]).problems] == ["truncated"]


def test_logs_are_left_alone() -> None:
    assert not py_spy.claims("train.log", b"Process 0 started\nThread pool ready\n")
    assert not py_spy.claims("train.log", b"[2024-01-01] hello\n")
