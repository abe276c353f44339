"""Row tests of process groups and of the table of collectives: events in, exact rows out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from correlator.store import insert
from tests.judge.board import T0, Board


def table(board: Board, pg: str = "0") -> dict[tuple[int | None, int], str]:
    """State by (seq, rank) of one group."""
    board.align()
    return {(seq, rank): state for seq, rank, state in board.con.execute("SELECT seq, rank, state FROM collectives WHERE pg = ?", [pg]).fetchall()}


def dump(board: Board, rank: int, calls: dict[int, str], pg: str = "0", *, whole: bool = True, newest: int = 1000, oldest: int = 0, **attrs: Any) -> None:
    """A flight-recorder dump: the state of each call."""
    board.ev("fr_dump", rank, source="flight_recorder", oldest_us=oldest, newest_us=newest, whole=whole)
    for seq, state in calls.items():
        board.ev("enqueued", rank, at=seq, seq=seq, pg=pg, source="flight_recorder", state=state, **{"op": "ALLREDUCE", "numel_in": 8, "dtype": "Float", **attrs})
        if state == "completed":
            board.ev("completed", rank, at=seq + 0.1, seq=seq, pg=pg, op="ALLREDUCE", source="flight_recorder")


def members(board: Board, rank: int, pg: str, ranks: list[int]) -> None:
    board.ev("mapping", rank, pg=pg, source="flight_recorder", group_ranks=ranks, desc=f"desc_{pg}")


def test_status_lines_prove_the_last_call_and_the_last_completion() -> None:
    b = Board(3)
    b.ev("timed_out_waiting", 0, seq=7, pg="0", op="ALLREDUCE")
    b.ev("pg_status", 1, pg="0", last_enqueued=9, last_completed=6)
    b.ev("pg_status", 2, pg="0", last_enqueued=6, last_completed=6)
    assert table(b) == {(7, 0): "timed_out", (9, 1): "enqueued", (6, 1): "completed", (6, 2): "completed", (7, 2): "never_arrived"}


def test_a_number_that_a_status_line_made_up_is_left_out() -> None:
    b = Board(2)
    b.ev("pg_status", 0, pg="0", last_enqueued=-1, last_completed=76280750235782912)
    assert table(b) == {}


@pytest.mark.parametrize("sign", ["op", "mixed"])
def test_status_numbers_that_count_sends_as_well_prove_no_absence(sign: str) -> None:
    b = Board(3)
    b.ev("timed_out_waiting", 0, seq=31, pg="0", op="ALLREDUCE")
    if sign == "op":
        b.ev("timed_out_waiting", 1, seq=4, pg="0", op="RECV")
    else:
        b.ev("pg_status", 1, pg="0", last_enqueued=4, mixed=True)
    b.ev("pg_status", 2, pg="0", last_enqueued=5, last_completed=5)
    assert "never_arrived" not in table(b).values()
    assert (4, 1) not in b.con.execute("SELECT seq, rank FROM collectives").fetchall()


def test_a_wait_gets_the_group_of_its_status_line() -> None:
    b = Board(4)
    b.ev("timed_out_waiting", 2, seq=12)
    b.ev("pg_status", 2, pg="7", work=12, last_enqueued=13, last_completed=11)
    b.ev("pg_status", 2, pg="0", work=3, last_enqueued=4, last_completed=4)
    assert table(b, "7") == {(12, 2): "timed_out", (13, 2): "enqueued", (11, 2): "completed"}


def test_a_place_that_is_not_the_global_rank_is_of_a_group_that_is_not_known() -> None:
    b = Board(4)
    b.ev("timed_out_waiting", 3, seq=12, group_rank=1)
    b.ev("pg_status", 0, pg="0", last_enqueued=4, last_completed=4)
    assert table(b) == {(4, 0): "completed"}
    assert b.con.execute("SELECT pg FROM ev WHERE kind = 'timed_out_waiting'").fetchall() == [("?",)]


def test_dumps_show_who_started_and_who_only_called() -> None:
    b = Board(3)
    dump(b, 0, {1: "completed", 2: "started"})
    dump(b, 1, {1: "completed", 2: "scheduled"})
    dump(b, 2, {1: "completed"})
    assert table(b) == {(1, 0): "completed", (1, 1): "completed", (1, 2): "completed", (2, 0): "started", (2, 1): "enqueued", (2, 2): "never_arrived"}
    rows = b.con.execute("SELECT rank, basis, awaited, started_ts FROM collectives WHERE seq = 2 ORDER BY rank").fetchall()
    assert [r[:3] for r in rows] == [(0, "dump", True), (1, "dump", True), (2, "absence", True)]
    assert b.con.execute("SELECT count(*) FROM collectives WHERE seq = 1 AND awaited").fetchall() == [(0,)]


def test_a_member_without_any_call_of_the_group_has_not_come_unless_its_ring_lost_it() -> None:
    for whole, expected in ((True, "never_arrived"), (False, None)):
        b = Board(3)
        members(b, 0, "5", [0, 1])
        dump(b, 0, {1: "scheduled"}, pg="5")
        dump(b, 1, {4: "completed"}, whole=whole)
        dump(b, 2, {4: "completed"})
        assert table(b, "5").get((1, 1)) == expected
        assert (1, 2) not in table(b, "5")  # no member


def test_of_two_dumps_of_a_rank_the_newest_counts() -> None:
    b = Board(2)
    dump(b, 0, {1: "completed", 2: "scheduled"})
    dump(b, 1, {1: "completed"}, newest=500)
    b.con.execute("INSERT INTO sources (source_id, path, format) VALUES (9, 'json_rank_1.json', 'flight_recorder')")
    b.con.execute("INSERT INTO streams (stream_id, source_id, key, unit, rank, attempt) VALUES (9, 9, '', '', 1, 0)")
    before = b.con.execute("SELECT max(event_id) FROM event_rows").fetchall()[0][0]
    dump(b, 1, {1: "completed", 2: "scheduled"}, newest=900)
    b.con.execute("UPDATE event_rows SET source_id = 9, stream_id = 9 WHERE event_id > ?", [before])
    assert table(b)[2, 1] == "enqueued"


def test_a_dump_that_ends_before_the_others_begin_is_a_leftover() -> None:
    b = Board(3)
    for rank in (0, 1):
        dump(b, rank, {1: "completed", 2: "scheduled"}, oldest=60_000_000, newest=90_000_000)
    dump(b, 2, {1: "completed"}, oldest=10, newest=20_000_000)
    assert (2, 2) not in table(b) and (1, 2) not in table(b)


def test_a_dump_that_lacks_what_its_group_completed_is_older() -> None:
    b = Board(3)
    dump(b, 0, {3: "completed", 4: "scheduled"})
    dump(b, 1, {3: "completed", 4: "scheduled"})
    dump(b, 2, {2: "completed"})
    assert (4, 2) not in table(b)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"op": "BROADCAST"}, "mismatched"),
        ({"numel_in": 9}, "mismatched"),
        ({"dtype": "Half"}, "mismatched"),
        ({"numel_in": 9, "op": "ALLTOALL"}, "enqueued"),
        ({}, "enqueued"),
    ],
)
def test_the_majority_decides_which_operands_are_odd(changes: dict[str, Any], state: str) -> None:
    b = Board(3)
    for rank in range(3):
        own = changes if rank == 0 or changes.get("op") == "ALLTOALL" else {}
        dump(b, rank, {5: "scheduled"}, **{**own, **({"numel_in": rank} if own.get("op") == "ALLTOALL" else {})})
    found = table(b)
    assert found[5, 0] == state and found[5, 1] == found[5, 2] == "enqueued"


def test_two_opinions_without_a_majority_are_not_told_apart() -> None:
    b = Board(2)
    dump(b, 0, {5: "scheduled"}, numel_in=1)
    dump(b, 1, {5: "scheduled"}, numel_in=2)
    assert set(table(b).values()) == {"enqueued"}


def test_fingerprints_are_calls_of_both_ranks_they_name() -> None:
    b = Board(3)
    good, bad = "seq=5 op=ALLREDUCE shape=4 dtype=Float", "seq=5 op=ALLGATHER shape=4 dtype=Float"
    for rank in (0, 1):
        b.ev("mismatch", rank, seq=5, why="fingerprint", self_rank=rank, self=good, other_rank=2, other=bad)
    assert table(b) == {(5, 0): "enqueued", (5, 1): "enqueued", (5, 2): "mismatched"}


def test_a_named_member_of_the_waiting_group_never_arrived() -> None:
    b = Board(4)
    b.ev("timed_out_waiting", 0, seq=7, pg="0")
    b.ev("accused", 0, pg="0", ranks=[2], why="desync")
    b.ev("accused", 0, pg="0", ranks=[3], why="desync", reliable=False)
    assert table(b) == {(7, 0): "timed_out", (7, 2): "never_arrived"}


def test_waits_without_number_stand_beside_those_they_name() -> None:
    b = Board(3)
    b.ev("timed_out_waiting", 0, duration_ms=3000.0)
    b.ev("accused", 0, ranks=[1], why="monitored_barrier")
    assert table(b) == {(None, 0): "timed_out", (None, 1): "never_arrived"}


def test_nccl_calls_of_a_rank_end_before_those_of_a_waiting_one() -> None:
    b = Board(3)
    for rank, n in enumerate((5, 4, 9)):
        for seq in range(1, n + 1):
            b.ev("enqueued", rank, seq=seq, pg="nccl:0xc", op="ALLREDUCE", numel_in=8, dtype="float32", nranks=3)
    for rank in (0, 2):
        b.ev("timed_out_waiting", rank, seq=77, pg="0")
    assert table(b, "nccl:0xc")[5, 1] == "never_arrived"


def test_nccl_calls_without_a_wait_prove_nothing_and_neither_does_a_torn_log() -> None:
    for torn in (False, True):
        b = Board(2)
        for rank, n in enumerate((5, 4)):
            for seq in range(1, n + 1):
                b.ev("enqueued", rank, seq=seq, pg="nccl:0xc", op="ALLREDUCE", nranks=2)
        if torn:
            b.ev("timed_out_waiting", 0, seq=77, pg="0")
            b.con.execute("UPDATE streams SET ending = 'torn' WHERE rank = 1")
        assert "never_arrived" not in table(b, "nccl:0xc").values()


def test_a_communicator_key_that_too_many_ranks_share_is_none() -> None:
    b = Board(4)
    for rank in range(4):
        b.ev("enqueued", rank, seq=1, pg="nccl:size2#1", op="ALLREDUCE", nranks=2)
    assert table(b, "nccl:size2#1") == {}


# ---- groups -------------------------------------------------------------------------------------
def groups(board: Board) -> dict[str, list[tuple[int, int | None]]]:
    board.align()
    out: dict[str, list[tuple[int, int | None]]] = {}
    for pg, rank, place in board.con.execute("SELECT pg, rank, group_rank FROM process_groups WHERE pg <> '0' ORDER BY pg, group_rank, rank").fetchall():
        out.setdefault(pg, []).append((rank, place))
    return out


def test_members_come_from_dumps_prefixes_and_init_lines() -> None:
    b = Board(6)
    members(b, 0, "5", [0, 2])
    b.ev("pg_status", 3, pg="7", group_rank=1, source="c10d_nccl", last_enqueued=1, last_completed=1)
    b.ev("init_done", 4, pg="0xc", comm_rank=0, nranks=2)
    assert groups(b) == {"5": [(0, 0), (2, 1)], "7": [(3, 1)], "nccl:0xc": [(4, 0)]}
    complete = dict(b.con.execute("SELECT DISTINCT pg, complete FROM process_groups").fetchall())
    assert complete == {"0": True, "5": True, "7": False, "nccl:0xc": False}


def test_groups_of_one_name_are_kept_apart_by_their_members() -> None:
    b = Board(4)
    members(b, 0, "tp", [0, 1])
    members(b, 3, "tp", [2, 3])
    b.ev("pg_status", 3, pg="tp", last_enqueued=4, last_completed=4)
    assert set(groups(b)) == {"tp@0", "tp@2"}
    assert table(b, "tp@2") == {(4, 3): "completed"}


def test_one_place_held_by_two_ranks_makes_a_name_useless() -> None:
    b = Board(4)
    for rank in (0, 2):
        b.ev("timed_out_waiting", rank, pg="1", seq=9 - rank, group_rank=0, source="c10d_nccl")
    assert groups(b) == {}
    assert table(b, "1") == {}


def test_numbers_inside_a_group_become_global_ranks() -> None:
    b = Board(6)
    members(b, 3, "7", [3, 4, 5])
    b.ev("accused", 3, pg="7", ranks=[1, 2], group_local=True, reliable=False, group_rank=0, why="desync")
    b.ev("mismatch", 4, group_self_rank=1, self="a", group_other_rank=0, other="b", group_local=True)
    b.ev("store_wait", 5, peer_group_rank=0, group_rank=2, group_local=True)
    b.align()
    rows = {kind: (peer, attrs) for kind, peer, attrs in b.con.execute("SELECT kind, peer_rank, attrs FROM ev WHERE kind <> 'mapping'").fetchall()}
    assert '"ranks": [4, 5]' in rows["accused"][1] and '"reliable": true' in rows["accused"][1]
    assert '"self_rank": 4' in rows["mismatch"][1] and '"other_rank": 3' in rows["mismatch"][1]
    assert rows["store_wait"][0] == 3


def test_readings_that_disagree_accuse_nobody() -> None:
    """Rank 0 is first in the default group and in group 7: its number 1 is global rank 1 or 2."""
    b = Board(4)
    members(b, 0, "7", [0, 2])
    b.ev("accused", 0, ranks=[1], group_local=True, group_rank=0, why="monitored_barrier")
    b.align()
    assert '"reliable": false' in b.con.execute("SELECT attrs FROM ev WHERE kind = 'accused'").fetchall()[0][0]


def test_ras_names_a_process() -> None:
    b = Board(4, {0: "n0", 1: "n0", 2: "n1", 3: "n1"})
    for rank, host in enumerate(("n0", "n0", "n1", "n1")):
        b.ev("accused", source="nccl_ras", why="ras_behind", pid=100 + rank, reliable=False)
        b.con.execute("UPDATE event_rows SET peer_host = ? WHERE event_id = ?", [host if rank != 3 else "10.0.0.9", rank])
    b.align()
    assert b.con.execute("SELECT peer_rank FROM ev ORDER BY event_id").fetchall() == [(0,), (1,), (2,), (None,)]  # an address is no host name


@pytest.mark.slow
def test_sixteen_thousand_ranks_stay_near_linear() -> None:
    """A default group and two thousand groups of eight, three calls each: seconds, not minutes."""
    import pyarrow as pa

    took = []
    for world in (4096, 16384):
        b = Board(8)
        con = b.con
        con.execute("DELETE FROM streams")
        con.execute(f"INSERT INTO streams (stream_id, source_id, key, unit, rank, attempt, ending) SELECT r, 0, '', '', r, 0, 'open' FROM range({world}) t(r)")
        b.world = world
        rows, event = [], 0
        for rank in range(world):
            for pg in ("0", f"tp{rank // 8}"):
                for seq in (5, 6, 7):
                    if (seq, rank % 1024) == (7, 99):
                        continue
                    done = seq < 7
                    rows.append(
                        (
                            event,
                            0,
                            rank,
                            seq,
                            T0,
                            "own",
                            rank,
                            seq,
                            pg,
                            "ALLREDUCE",
                            "flight_recorder",
                            "enqueued",
                            f'{{"state": "{"completed" if done else "scheduled"}", "numel_in": 8}}',
                        )
                    )
                    event += 1
            rows.append((event, 0, rank, 1, T0, "own", rank, None, None, None, "flight_recorder", "fr_dump", '{"oldest_us": 1, "newest_us": 9, "whole": true}'))
            event += 1
        i64, i32, text = pa.int64(), pa.int32(), pa.string()
        insert(con, "event_rows", rows, {"event_id": i64, "source_id": i32, "stream_id": i32, "line": i64, "ts_utc": pa.timestamp("us", tz="UTC"), "ts_origin": text, "rank_on_line": i32,
                                         "seq": i64, "pg": text, "op": text, "source": text, "kind": text, "attrs": text})  # fmt: skip
        begun = time.process_time()
        b.align()
        took.append(time.process_time() - begun)
        assert con.execute("SELECT count(*) FROM collectives WHERE state = 'never_arrived'").fetchall() == [(2 * world // 1024,)]
    assert took[1] < 8 * took[0] + 2
    assert took[1] < 60
