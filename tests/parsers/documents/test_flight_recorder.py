from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from correlator.parsers.documents import flight_recorder
from correlator.parsers.schema import Event, Sink

CREATED_NS = 1_796_074_455_089_940_848  # 2026-11-30 21:34:15.089940 UTC


def entry(seq: int, **changes: Any) -> dict[str, Any]:
    """One entry as torch 2.5 and later write it."""
    return {
        "record_id": seq - 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
        "profiling_name": "nccl:all_reduce", "time_created_ns": CREATED_NS + seq * 1_000_000, "input_sizes": [[64, 2]], "input_dtypes": ["Float"],
        "output_sizes": [[64, 2]], "output_dtypes": ["Float"], "state": "completed", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": True, "timeout_ms": 600000, "is_p2p": False,
        "frames": [{"name": "all_reduce", "filename": "/env/torch/distributed/distributed_c10d.py", "line": 3245}], **changes,
    }  # fmt: skip


def dump(entries: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "version": "2.10", "entries": entries, "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {"0": {"last_enqueued_collective": len(entries), "last_started_collective": -1, "last_completed_collective": len(entries) - 1}},
        **changes,
    }  # fmt: skip


def read(value: Any, path: str = "dumps/nccl_trace_rank_3") -> Sink:
    data = value if isinstance(value, bytes) else pickle.dumps(value, 2)
    assert flight_recorder.claims(path, data[:4096])
    out = Sink(path)
    flight_recorder.parse(path, data, out)
    return out


def events(out: Sink, kind: str) -> list[Event]:
    return [e for e in out.events if e.kind == kind]


def test_entries_become_calls_with_wall_clock_times() -> None:
    out = read(dump([entry(1), entry(2, state="scheduled", retired=False)]))
    first, second = events(out, "enqueued")
    assert (first.rank, first.pg, first.seq, first.op) == (3, "0", 1, "ALLREDUCE")
    assert (first.attrs["numel_in"], first.attrs["sizes"], first.attrs["dtype"], first.attrs["timeout_ms"]) == (128, [[64, 2]], "Float", 600000.0)
    assert first.attrs["frames"] == ["distributed_c10d.py:all_reduce"]
    assert first.stamp is not None
    assert (first.stamp.naive_us, first.stamp.offset_min, first.stamp.resolution_us) == (CREATED_NS // 1000 + 1000, 0, 1)
    assert first.stamp.text == "2026-11-30T21:34:15.090940+00:00"
    assert (second.seq, second.attrs["state"], second.attrs["retired"]) == (2, "scheduled", False)
    assert [e.seq for e in events(out, "completed")] == [1]


def test_status_group_and_rank() -> None:
    out = read(dump([entry(1), entry(2, state="scheduled")]))
    (status,) = events(out, "pg_status")
    assert (status.pg, status.attrs) == ("0", {"last_enqueued": 2, "last_started": -1, "last_completed": 1})
    (group,) = events(out, "mapping")
    assert (group.pg, group.attrs) == ("0", {"desc": "default_pg", "group_ranks": [0, 1, 2, 3], "world_size": 4, "reading": True})
    assert events(out, "identity")[0].attrs["global_rank"] == 3
    assert not out.problems


def test_status_is_keyed_by_local_creation_order() -> None:
    value = dump([entry(5, pg_id=7, process_group=("12", "tp"))], pg_status={"7": {"last_enqueued_collective": "5", "last_completed_collective": "4"}})
    (status,) = events(read(value), "pg_status")
    assert (status.pg, status.attrs) == ("12", {"last_enqueued": 5, "last_completed": 4})


def test_ranks_are_parsed_never_evaluated() -> None:
    value = dump([entry(1)], pg_config={"0": {"name": "0", "desc": "", "ranks": "__import__('os').getpid()"}})
    assert events(read(value), "mapping") == []


def test_json_form() -> None:
    raw = json.loads(
        json.dumps(dump([entry(1, time_discovered_started_ns=0, time_discovered_completed_ns=CREATED_NS), entry(2, state="scheduled", time_discovered_completed_ns=0)]))
    )
    out = read(json.dumps(raw).encode(), "fr/json_rank_12.json")
    (done,) = events(out, "completed")
    assert (done.rank, done.seq) == (12, 1)
    assert done.stamp is not None
    assert done.stamp.naive_us == CREATED_NS // 1000
    assert [e.seq for e in events(out, "enqueued")] == [1, 2]


def test_point_to_point_calls_have_their_own_counter() -> None:
    out = read(dump([entry(4, is_p2p=True, p2p_seq_id=9, profiling_name="nccl:send 1->2")]))
    (call,) = events(out, "enqueued")
    assert (call.seq, call.op, call.attrs["p2p_seq"]) == (None, "SEND", 9)


def test_gloo_completion_follows_the_group_status() -> None:
    calls = [entry(n, profiling_name="gloo:all_reduce", state="scheduled", retired=False) for n in (1, 2, 3)]
    assert [e.seq for e in events(read(dump(calls)), "completed")] == [1, 2]


def test_retired_but_not_completed_is_a_timeout_for_nccl() -> None:
    assert events(read(dump([entry(1, state="started", retired=True)])), "completed") == []


def test_the_bare_list_of_2_2() -> None:
    old = {"pg_id": 0, "seq_id": 3, "profiling_name": "nccl:_all_gather_base", "time_created_us": 1_700_000_000_000_000, "input_sizes": [[8]],
           "output_sizes": [[64]], "state": "completed", "retired": True, "frames": []}  # fmt: skip
    (call,) = events(read([old], "nccl_trace_rank_0"), "enqueued")
    assert (call.rank, call.pg, call.seq, call.op, call.attrs["numel_out"]) == (0, "0", 3, "_ALLGATHER_BASE", 64)
    assert call.stamp is not None
    assert call.stamp.naive_us == 1_700_000_000_000_000


def test_integer_groups_of_2_3() -> None:
    old = {"record_id": 0, "pg_id": 0, "seq_id": 3, "op_id": 3, "profiling_name": "nccl:all_reduce", "time_created_ns": CREATED_NS, "input_sizes": [],
           "output_sizes": [], "state": "scheduled", "retired": False}  # fmt: skip
    out = read({"version": "1.4", "entries": [old], "pg_config": {0: [0, 1]}})
    assert [(e.pg, e.attrs["group_ranks"]) for e in events(out, "mapping")] == [("0", [0, 1])]
    assert events(out, "enqueued")[0].seq == 3


def test_only_the_newest_calls_of_each_group_are_kept() -> None:
    calls = [entry(n) for n in range(1, 101)] + [entry(1, pg_id=1, process_group=("1", "tp"))]
    kept = events(read(dump(calls)), "enqueued")
    assert [e.seq for e in kept if e.pg == "0"] == list(range(37, 101))
    assert [e.seq for e in kept if e.pg == "1"] == [1]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (pickle.dumps(dump([entry(1)]), 2)[:200], "truncated"),
        (json.dumps(dump([])).encode()[:-9], "truncated"),
        (pickle.dumps(dump([]), 2), "empty"),
        (pickle.dumps(dump([entry(1, state=print)]), 2), "refused"),
        (pickle.dumps("entries", 2), "unreadable"),
    ],
)
def test_damage_is_a_problem(data: bytes, kind: str) -> None:
    out = read(data)
    assert [p.kind for p in out.problems] == [kind]
    assert [e.kind for e in out.events if e.kind == "identity"] == ["identity"]


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_7", 7),
        ("comm_lib_trace_rank_12", 12),
        ("rank_3_20261130.json", 3),
        ("mydump42", 42),
        ("fr_trace_20261130_101112.json", None),
        ("dump.pickle", None),
        ("fr-3.pkl", 3),
        ("comm_lib_trace_rank_11.pickle", 11),
        ("20261130_17", None),
    ],
)
def test_rank_of_a_file_name(name: str, rank: int | None) -> None:
    assert flight_recorder.rank_of(f"a/rank_9/{name}") == rank


def test_other_files_are_left_alone() -> None:
    assert not flight_recorder.claims("nccl_trace_rank_0", b"loaded 96 files in 4.1s\n")
    assert not flight_recorder.claims("a.json", b'{"entries": []}')
    assert not flight_recorder.claims("model.pkl", b"\x80\x02}q\x00.")


def test_structures_that_print_without_end_are_cut_short() -> None:
    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]
    hostile = dump(
        [entry(1, process_group=(shared, shared), profiling_name=shared, state=shared, input_dtypes=[shared], frames=[{"name": shared, "filename": shared}])],
        version=shared,
    )
    out = read(hostile)
    assert events(out, "enqueued")[0].pg == ""


def test_members_of_a_large_group_are_folded() -> None:
    members = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(16384)))}, "9": {"name": "9", "desc": "dp", "ranks": str(list(range(3, 16384, 8)))}}
    found = {e.pg: e.attrs for e in events(read(dump([entry(1)], pg_config=members)), "mapping")}
    assert (found["0"]["group_ranks"], found["0"]["world_size"]) == ("0-16383", 16384)
    assert found["9"]["group_ranks"] == "3-16379:8"


def test_a_dump_of_active_calls_only_tells_how_far_its_rank_got() -> None:
    out = read(
        dump([], pg_status={"0": {"last_enqueued_collective": 6, "last_completed_collective": 6}, "3": {"last_enqueued_collective": 2, "last_completed_collective": 2}})
    )
    assert [(e.pg, e.attrs["last_enqueued"]) for e in events(out, "pg_status")] == [("0", 6)]  # which group 3 is, nobody can tell
    assert len(events(out, "fr_dump")) == 1


def test_status_numbers_of_groups_with_point_to_point_calls_are_left_out() -> None:
    calls = [entry(1), entry(1, is_p2p=True, p2p_seq_id=1, profiling_name="nccl:send 0->1")]
    assert events(read(dump(calls)), "pg_status") == []


def test_the_oldest_unfinished_calls_survive_a_long_queue() -> None:
    calls = [entry(n, state="completed" if n < 5 else "scheduled", retired=n < 5) for n in range(1, 300)]
    kept = [e.seq for e in events(read(dump(calls)), "enqueued")]
    assert kept[:8] == list(range(5, 13))
    assert kept[-1] == 299


def test_given_up_calls_are_marked() -> None:
    (call,) = events(read(dump([entry(1, state="started", retired=True, time_discovered_started_ns=CREATED_NS + 5000)])), "enqueued")
    assert (call.attrs["timed_out"], call.attrs["started_us"]) == (True, CREATED_NS // 1000 + 5)


def test_groups_without_name_or_members_are_no_key_between_ranks() -> None:
    old = {"pg_id": 2, "seq_id": 3, "profiling_name": "nccl:all_reduce", "state": "completed", "retired": True, "frames": []}
    assert events(read([old], "nccl_trace_rank_0"), "enqueued")[0].pg == "2?"
    assert events(read({"version": "1.4", "entries": [old], "pg_config": {2: [0, 1]}}), "enqueued")[0].pg == "2"


def test_a_writer_of_its_own_may_state_the_rank_inside() -> None:
    out = read(dump([entry(1)], rank=5), "dumps/latest.pickle")
    assert events(out, "identity")[0].attrs["global_rank"] == 5
