"""Row tests of the SQL files that align ranks: small tables in, exact rows out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest

from correlator.store import sql_text
from tests.judge.board import T0, Board


def steps_of_hosts(shift: dict[str, float], steps: int = 10, jitter: float = 0.0) -> Board:
    """Two ranks a host, one step a second, each host's clock shifted by so many seconds."""
    hosts = dict(enumerate(h for h in shift for _ in range(2)))
    board = Board(len(hosts), hosts)
    for step in range(steps):
        for rank, host in hosts.items():
            board.step(rank, step, at=step + shift[host] + jitter * ((step * 7 + rank) % 3 - 1))
    return board


def clocks(board: Board) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in board.con.execute(sql_text("clocks")).fetchall()}


def test_clock_offset_is_the_difference_at_shared_steps() -> None:
    found = clocks(steps_of_hosts({"a": 0.0, "b": 0.0, "c": 45.0}))
    assert found["c"] == (45_000.0, 45_000.0, 45_000.0, 10)
    assert found["a"][0] == found["b"][0] == 0.0


def test_clock_interval_holds_the_truth_under_jitter() -> None:
    offset, low, high, barriers = clocks(steps_of_hosts({"a": 0.0, "b": 0.0, "c": 7.0}, steps=60, jitter=0.2))["c"]
    assert low <= 7_000 <= high and low < offset < high and barriers == 60
    assert high - low < 1_000


def test_hosts_without_shared_steps_get_no_offset() -> None:
    board = Board(2, {0: "a", 1: "b"})
    board.step(0, 1, at=0)
    board.step(1, 2, at=100)
    assert clocks(board) == {}


def test_steps_without_time_say_nothing_about_clocks() -> None:
    board = Board(2, {0: "a", 1: "b"})
    for rank in (0, 1):
        board.step(rank, 1)
    assert clocks(board) == {}


def ranks(board: Board) -> dict[int, dict[str, Any]]:
    board.run("facts-from-events")
    table = board.con.sql("SELECT * FROM ranks ORDER BY rank").to_arrow_table()
    return {row["rank"]: row for row in table.to_pylist()}


@pytest.mark.parametrize(
    ("kind", "attrs", "state"),
    [
        ("finished", {}, "completed"),
        ("raised", {"exception": "ValueError"}, "raised"),
        ("timed_out_waiting", {}, "waiting"),
        ("crashed", {"signal": "SIGSEGV"}, "killed"),
    ],
)
def test_state_of_a_rank_follows_its_words(kind: str, attrs: dict[str, str], state: str) -> None:
    board = Board(2)
    board.ev(kind, 1, at=5, **attrs)
    found = ranks(board)
    assert (found[1]["state"], found[1]["coverage"]) == (state, "closed")
    assert (found[0]["state"], found[0]["coverage"]) == ("silent", "open")


@pytest.mark.parametrize(
    ("exitcode", "signal", "state"),
    [("0", None, "completed"), ("1", None, "exited"), ("-9", "SIGKILL", "killed"), ("-15", "SIGTERM", "terminated")],
)
def test_state_of_a_rank_follows_its_exit_record(exitcode: str, signal: str | None, state: str) -> None:
    board = Board(2)
    attrs = {"exitcode": exitcode} | ({"signal": signal} if signal else {})
    board.ev("exit_record", at=9, peer_rank=1, **attrs)
    found = ranks(board)[1]
    assert (found["state"], found["exit_code"], found["signal"], found["coverage"]) == (state, int(exitcode), signal, "closed")


def test_a_rank_without_a_file_has_no_log_and_is_not_called_silent() -> None:
    board = Board(3)
    board.no_log(2)
    found = ranks(board)
    assert (found[2]["state"], found[2]["coverage"], found[2]["files"]) == ("no_log", "absent", 0)
    assert found[0]["files"] == 1


def test_progress_of_a_rank() -> None:
    board = Board(2)
    for step in (3, 4, 5):
        board.step(1, step, at=step)
    found = ranks(board)[1]
    assert found["last_step"] == 5
    assert (found["first_ts"], found["last_ts"]) == (T0 + timedelta(seconds=3), T0 + timedelta(seconds=5))


def collectives(board: Board) -> list[dict[str, Any]]:
    board.align()
    return duckdb_rows(board.con, "SELECT * FROM collectives")


def duckdb_rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    return con.sql(query).to_arrow_table().to_pylist()


def test_collective_states_are_kept_by_group_and_sequence() -> None:
    board = Board(3)
    board.ev("enqueued", 0, at=1, seq=7, pg="0")
    board.ev("timed_out_waiting", 0, at=601, seq=7, pg="0", duration_ms=600_000.0, timeout_ms=600_000)
    board.ev("completed", 1, at=2, seq=7, pg="0")
    board.ev("enqueued", 1, at=3, seq=7, pg="1")
    found = {(c["pg"], c["seq"], c["rank"]): c for c in collectives(board)}
    assert {k: c["state"] for k, c in found.items()} == {("0", 7, 0): "timed_out", ("0", 7, 1): "completed", ("1", 7, 1): "enqueued"}
    first = found["0", 7, 0]
    # the detection is back-dated by how long the collective ran
    assert first["enqueued_ts"] == T0 + timedelta(seconds=1) and first["timeout_ms"] == 600_000.0
    assert found["0", 7, 1]["completed_ts"] == T0 + timedelta(seconds=2)


def test_statements_without_rank_are_left_out_and_those_without_number_kept() -> None:
    board = Board(2)
    board.ev("timed_out_waiting", None, at=1, seq=3, pg="0")
    board.ev("timed_out_waiting", 1, at=1, pg="0")
    assert [(c["seq"], c["rank"], c["state"]) for c in collectives(board)] == [(None, 1, "timed_out")]


def test_timeline_counts_from_the_onset_and_tells_roles_apart() -> None:
    board = Board(2)
    board.ev("raised", 1, at=10, exception="ValueError")
    board.ev("lost_connection", 0, at=12, peer_rank=1)
    board.ev("exit_record", at=20, peer_rank=1, exitcode="1")
    board.run("facts-from-events")
    con = board.con
    con.execute("CREATE TEMP TABLE roles AS SELECT 'i0' AS incident_id, fact_id, CASE predicate WHEN 'raised' THEN 'initiating' ELSE 'collateral' END AS role FROM facts")
    con.execute(
        "INSERT INTO incidents (incident_id, attempt, initiating_ranks, onset_ts, failure_class) VALUES ('i0', 0, [1], ?, 'user_exception')", [T0 + timedelta(seconds=10)]
    )
    rows = duckdb_rows(con, sql_text("timeline"))
    assert [(r["t_ms"], r["rank"], r["role"], r["kind"]) for r in rows] == [
        (0.0, 1, "initiating", "raised"),
        (2_000.0, 0, "collateral", "lost_connection"),
        (10_000.0, 1, "initiating", "exit_record"),
    ]
    assert {r["path"] for r in rows} == {"rank_1.log", "rank_0.log", "merged.log"}
    assert rows[0]["ts"] == datetime(2026, 5, 3, 10, 0, 10, tzinfo=UTC)
