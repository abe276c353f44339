"""Rows in, rows out, for every law."""

from __future__ import annotations

from pathlib import Path

import pytest

from correlator.judge.laws import load_laws
from tests.judge.board import Board


def test_every_law_is_documented() -> None:
    for law in load_laws():
        assert law.claim, law.file
    assert len(load_laws()) <= 22


def test_repeats_are_one_fact_and_onset_is_back_dated() -> None:
    b = Board(2)
    for i in range(5):
        b.ev("timed_out_waiting", 0, at=600 + i, seq=7, pg="0", duration_ms=600_000)
    b.run("facts-from-events")

    assert b.facts() == [("timed_out_waiting", "rank", "0")]
    events, low = b.con.execute("SELECT events, onset_low FROM facts").fetchone()
    assert events == 5
    assert low.second == 59 or low.second == 0  # enqueued 600 s before the line, within its resolution


def test_subject_named_by_the_line_outranks_the_writer() -> None:
    b = Board(4)
    b.ev("nan_local", 0, subject_rank=3)
    b.run("facts-from-events")

    assert b.facts() == [("nan_local", "rank", "3")]


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"exitcode": -9, "signal": "SIGKILL"}, [("died", "rank", "1")]),
        ({"exitcode": -15, "signal": "SIGTERM"}, [("terminated", "rank", "1")]),
        ({"exitcode": 3}, [("exited", "rank", "1")]),
        ({"exitcode": 0}, []),
    ],
)
def test_exit_records(attrs: dict[str, object], expected: list[tuple[str, str, str]]) -> None:
    b = Board(2)
    b.ev("exit_record", None, peer_rank=1, by="elastic", **attrs)
    b.run("facts-from-events", "exit-records")

    assert b.facts() == expected


def test_a_killed_child_of_a_shell_is_no_rank_while_steps_go_on() -> None:
    def facts(steps_after: int) -> list[tuple[str, str, str]]:
        b = Board(2)
        b.con.execute("UPDATE streams SET source_id = 1 WHERE stream_id = 0")
        b.con.execute(
            "INSERT INTO event_rows (event_id, source_id, stream_id, line, line_end, ts_origin, source, kind, attrs)"
            " VALUES (0, 1, 0, 10, 10, 'none', 'test', 'exit_record', '{\"signal\": \"SIGKILL\", \"by\": \"shell\"}')"
        )
        for n in range(steps_after):
            b.step(0, n + 5, line=11 + n)
        return b.run("facts-from-events", "exit-records").facts("died")

    assert facts(2) == []
    assert facts(1) == [("died", "process", "s0")]


def test_sigkill_sent_by_the_agent_is_teardown() -> None:
    b = Board(2)
    b.ev("signalled", None, pid=101, signal="SIGKILL")
    b.ev("exit_record", None, peer_rank=1, exitcode=-9, signal="SIGKILL", pid=101)
    b.run("facts-from-events", "exit-records")

    assert b.facts() == [("terminated", "rank", "1")]


def test_anonymous_words_go_to_the_only_rank_that_left_by_itself() -> None:
    b = Board(3)
    b.ev("raised", None, exception="KeyError", uncaught=True)
    b.ev("exit_record", None, peer_rank=2, exitcode=1)
    b.ev("exit_record", None, peer_rank=0, exitcode=-15, signal="SIGTERM")
    b.run("facts-from-events", "exit-records", "owner-by-exit-record", "same-statement")

    assert b.facts("raised") == [("raised", "rank", "2")]


def test_gpu_fault_goes_to_the_rank_of_its_pci_bus() -> None:
    b = Board(4, hosts=dict.fromkeys(range(4), "n1"))
    b.ev("device_fault", None, source="kernel", xid=79, pci_bus="0000:12:00.0", role="root")
    b.run("facts-from-events", "hardware-to-rank", "same-statement")

    assert b.facts() == [("device_fault", "rank", "2")]


def test_first_local_nan_names_its_rank() -> None:
    b = Board(3)
    for step in range(1, 6):
        for rank in range(3):
            bad = (step >= 4 and rank == 1) or step >= 5
            b.step(rank, step, at=step, loss=float("nan") if bad else 1.0)
    b.run("facts-from-events", "first-nonfinite")

    assert ("nan_local", "rank", "1") in b.facts()
    assert ("nan_global", "job", "job") in b.facts()


def test_nan_on_all_ranks_at_once_names_nobody() -> None:
    b = Board(3)
    for step in range(1, 6):
        for rank in range(3):
            b.step(rank, step, at=step, loss=float("nan") if step >= 4 else 1.0)
    b.run("facts-from-events", "first-nonfinite")

    assert b.facts("nan_local") == []
    assert b.facts("nan_global") == [("nan_global", "job", "job")]


def test_skipped_overflow_that_recovers_is_no_fact() -> None:
    b = Board(2)
    for step in range(1, 9):
        for rank in range(2):
            b.step(rank, step, at=step, loss=float("inf") if step == 3 else 1.0)
    b.run("facts-from-events", "first-nonfinite")

    assert b.facts() == []


def _uncaught_then_steps() -> Board:
    b = Board(2)
    b.ev("raised", 0, line=10, exception="ValueError", uncaught=True)
    b.step(0, 5, line=11)
    b.step(0, 6, line=12)
    return b


def test_words_of_a_child_process_are_set_aside_where_the_rank_lived_on() -> None:
    complained = _uncaught_then_steps()
    complained.ev("lost_connection", 0, line=13)
    stopped = _uncaught_then_steps()
    stopped.ev("exit_record", None, line=13, peer_rank=0, exitcode=-15, signal="SIGTERM")
    for board in (complained, stopped):
        board.run("facts-from-events", "recovered")
        assert board.facts("raised", "recovered") == [("raised", "rank", "0")]

    silent = _uncaught_then_steps()  # the steps may have waited in a buffer
    before = Board(2)  # its teardown complains, its buffered steps come last
    before.ev("raised", 0, line=10, exception="ValueError", uncaught=True)
    before.ev("lost_connection", 0, line=11)
    before.step(0, 5, line=12)
    before.step(0, 6, line=13)
    for board in (silent, before):
        board.run("facts-from-events", "recovered")
        assert board.facts("raised") == [("raised", "rank", "0")]


@pytest.mark.parametrize(("scale", "facts"), [(32768.0, []), (1.0, [("nan_global", "job", "job")]), (None, [("nan_global", "job", "job")])])
def test_a_skipped_step_at_the_end_is_no_fact_while_the_scaler_has_room(scale: float | None, facts: list[tuple[str, str, str]]) -> None:
    b = Board(2)
    for step in range(1, 9):
        for rank in range(2):
            b.step(rank, step, at=step, grad_norm=float("inf") if step == 8 else 0.4, loss_scale=scale, skipped=step == 8)
    b.run("facts-from-events", "first-nonfinite")

    assert b.facts() == facts


def test_vote_names_the_odd_rank_only_with_a_majority() -> None:
    b = Board(4)
    for rank, what in enumerate(["a", "a", "b", "a"]):
        b.ev("mismatch", rank, self_rank=rank, self=what, other_rank=2 if rank != 2 else 0, other="b" if rank != 2 else "a")
    b.run("facts-from-events", "mismatch-vote", "same-statement")
    assert b.facts("mismatch") == [("mismatch", "rank", "2")]

    tie = Board(2)
    tie.ev("mismatch", 0, self_rank=0, self="a", other_rank=1, other="b")
    tie.ev("mismatch", 1, self_rank=1, self="b", other_rank=0, other="a")
    tie.run("facts-from-events", "mismatch-vote", "same-statement")
    assert tie.facts("mismatch") == [("mismatch", "group", "0")]


def test_never_joined_follows_the_chain_to_the_silent_rank() -> None:
    b = Board(4)
    b.no_log(2)
    b.ev("store_wait", 1, peer_rank=0)
    b.ev("store_wait", 3, peer_rank=0)
    b.ev("store_wait", 0, joined=3, world=4)
    b.run("facts-from-events", "never-joined")

    assert b.facts("never_joined") == [("never_joined", "rank", "2")]


def test_caught_fault_followed_by_progress_is_recovered() -> None:
    b = Board(2)
    b.step(0, 1, at=1)
    b.ev("raised", 0, at=2, exception="URLError", uncaught=False)
    b.step(0, 2, at=3)
    b.run("facts-from-events", "recovered")

    assert b.facts("raised") == []
    assert b.facts("raised", status="recovered") == [("raised", "rank", "0")]


def test_uncaught_fault_is_not_recovered_by_the_last_steps_of_others() -> None:
    b = Board(2)
    b.step(0, 1, at=1)
    b.ev("raised", 0, at=2, exception="ValueError", uncaught=True)
    b.step(1, 2, at=2.1)
    b.run("facts-from-events", "recovered")

    assert b.facts("raised") == [("raised", "rank", "0")]


def test_whole_silent_host_is_gone() -> None:
    b = Board(4, hosts={0: "n0", 1: "n0", 2: "n1", 3: "n1"})
    for rank in range(4):
        b.step(rank, 6, at=6)
    b.ev("lost_connection", 2, at=7)
    b.ev("lost_connection", 3, at=7)
    b.run()

    assert b.facts("host_gone") == [("host_gone", "host", "n0")]


def test_only_silent_rank_stalled_when_all_others_waited() -> None:
    b = Board(4)
    for rank in range(4):
        b.step(rank, 8, at=8)
    for rank in (0, 1, 3):
        b.ev("timed_out_waiting", rank, duration_ms=12000)
    b.run()

    assert b.facts("stalled") == [("stalled", "rank", "2")]
    assert ("group_broken", "job", "timed_out_waiting", "0") in b.edges()


def test_connections_lost_without_any_timeout_mean_a_vanished_peer() -> None:
    b = Board(3)
    b.ev("lost_connection", 0, how="reset")
    b.ev("lost_connection", 2, how="closed")
    b.run()

    assert b.facts("vanished") == [("vanished", "rank", "1")]


def test_words_silence_the_search_by_elimination() -> None:
    b = Board(3)
    b.ev("raised", 0, exception="IndexError", uncaught=True)
    b.ev("lost_connection", 2, how="closed")
    b.run()

    assert b.facts("vanished") == []
    assert ("raised", "0", "group_broken", "job") in b.edges()


def test_named_by_a_barrier_beats_elimination() -> None:
    b = Board(4)
    b.ev("timed_out_waiting", 0, duration_ms=1000)
    b.ev("accused", 0, ranks=[3], why="monitored_barrier")
    b.run()

    assert b.facts("stalled") == [("stalled", "rank", "3")]


def test_late_stop_from_outside_does_not_hide_a_stall() -> None:
    b = Board(2)
    for step in range(1, 9):
        b.step(0, step, at=step * 0.1)
    b.ev("external_signal", None, at=70, signal="SIGTERM", agent=True)
    b.run()

    assert ("timed_out_waiting", "job", "job") in b.facts()


def test_own_later_words_are_consequences() -> None:
    b = Board(2)
    b.ev("lost_connection", 0)
    b.ev("raised", 0, exception="TrainingError", uncaught=True)
    b.run()

    assert ("lost_connection", "0", "raised", "0") in b.edges()


def test_stop_from_outside_explains_what_processes_say_after_it() -> None:
    b = Board(2)
    b.ev("external_signal", None, at=5, signal="SIGTERM", agent=True)
    b.ev("exit_record", None, peer_rank=0, exitcode=-15, signal="SIGTERM")
    b.run()

    assert any(e[0] == "external_signal" and e[2] == "terminated" for e in b.edges())


def test_nan_spreads_from_the_rank_that_had_it() -> None:
    b = Board(2)
    b.ev("nan_local", 1)
    b.ev("nan_global", 0)
    b.run()

    assert ("nan_local", "1", "nan_global", "0") in b.edges()


@pytest.mark.parametrize(("failed_at", "explained"), [(10, False), (30, True)])
def test_a_requeue_does_not_explain_the_node_that_failed_before_it(failed_at: int, explained: bool) -> None:
    b = Board(2)
    b.ev("host_gone", None, line=failed_at, source="slurm", scope="host", host="n3")
    b.ev("preempted", None, line=20, source="slurm", agent=True, reason="job requeue")
    b.run("facts-from-events", "outside-stop")

    assert any(e[0] == "preempted" and e[2] == "host_gone" for e in b.edges()) is explained


def test_leaving_early_explains_the_mismatch() -> None:
    b = Board(2)
    b.ev("left_early", 1)
    b.ev("mismatch", 0, self_rank=0, self="a", other_rank=1, other="b")
    b.run()

    assert any(e[0] == "left_early" and e[2] == "mismatch" for e in b.edges())


def redirected_peer_to_peer(seq: int = 1) -> Board:
    b = Board(2)
    for key, value in (("nccl.transport", "P2P"), ("pci.acs", "redirects")):
        b.con.execute("INSERT INTO config (source_id, key, value, line) VALUES (0, ?, ?, 1)", [key, value])
    for rank in (0, 1):
        b.ev("timed_out_waiting", rank, seq=seq, pg="0", duration_ms=600_000)
    return b


def test_first_collective_over_redirected_transfers_is_no_rank() -> None:
    b = redirected_peer_to_peer().run("facts-from-events", "transport")

    assert b.facts("p2p_stuck") == [("p2p_stuck", "job", "job")]


def test_redirected_transfers_that_worked_are_not_blamed() -> None:
    late = redirected_peer_to_peer(seq=40).run("facts-from-events", "transport")
    stepped = redirected_peer_to_peer()
    stepped.step(0, 1, at=1)
    stepped.run("facts-from-events", "transport")

    assert late.facts("p2p_stuck") == stepped.facts("p2p_stuck") == []


def test_completion_errors_on_two_hosts_before_any_step_are_the_network() -> None:
    b = Board(2, {0: "a", 1: "b"})
    for rank in (0, 1):
        b.ev("remote_error", rank, status="12", peer_host="10.0.0.9")
    b.run("facts-from-events", "transport")
    one_host = Board(2, {0: "a", 1: "b"})
    one_host.ev("remote_error", 0, status="12")
    one_host.run("facts-from-events", "transport")

    assert b.facts("net_unreachable") == [("net_unreachable", "job", "job")]
    assert one_host.facts("net_unreachable") == []


def test_who_never_completes_an_initialisation_that_others_completed_is_stuck() -> None:
    b = Board(3)
    for rank in range(3):
        b.ev("init_start", rank, pg="c1")
    for rank in (0, 2):
        b.ev("init_done", rank, pg="c1")
    b.run("facts-from-events", "init-incomplete")

    assert b.facts("timed_out_waiting") == [("timed_out_waiting", "rank", "1")]


def test_initialisation_that_all_or_none_completed_says_nothing() -> None:
    for done in ((0, 1), ()):
        b = Board(2)
        for rank in (0, 1):
            b.ev("init_start", rank, pg="c1")
        for rank in done:
            b.ev("init_done", rank, pg="c1")
        b.run("facts-from-events", "init-incomplete")

        assert b.facts("timed_out_waiting") == []


@pytest.mark.parametrize(("last", "expected"), [([5, 5, 6, 5], ("rank", "2")), ([5, 6, 6, 5], ("group", "0"))])
def test_size_error_names_the_only_rank_ahead_and_never_the_receiver(last: list[int], expected: tuple[str, str]) -> None:
    b = Board(4)
    for rank, step in enumerate(last):
        b.step(rank, step, at=step)
    b.ev("aborted", 0, why="size")
    b.run("facts-from-events", "ahead-of-peers")

    assert b.facts("mismatch") == [("mismatch", *expected)]


def test_stop_in_the_rhythm_of_the_steps_is_no_stall() -> None:
    b = Board(2)
    for step in range(1, 9):
        b.step(0, step, at=step * 0.1)
    b.ev("external_signal", None, at=1.0, signal="SIGTERM", agent=True)
    b.run("facts-from-events", "job-stalled")

    assert b.facts("timed_out_waiting") == []


def test_fault_of_a_machine_explains_its_own_ranks_only() -> None:
    b = Board(4, {0: "a", 1: "a", 2: "b", 3: "b"})
    b.ev("link_down", None, source="kernel")
    b.ev("remote_error", 3, status="12")
    b.ev("remote_error", 0, status="12")
    b.con.execute("UPDATE streams SET host = 'b' WHERE stream_id = 0")
    b.run("facts-from-events", "hardware-first")

    assert b.facts("link_down") == [("link_down", "host", "b")]
    assert [e for e in b.edges() if e[0] == "link_down"] == [("link_down", "b", "remote_error", "3")]


def test_every_law_has_a_row_test() -> None:
    """By name, or by running all laws (the explain laws work on facts of the others)."""
    text = Path(__file__).read_text(encoding="utf-8")
    run_whole = {"host-gone", "silent-rank", "own-process", "group-breaks", "outside-stop", "nan-spreads", "uneven-ends"}
    assert {law.name for law in load_laws() if f'"{law.name}"' not in text} <= run_whole
