"""Rows in, rows out, for every law."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from correlator import store
from correlator.judge import laws
from correlator.judge.laws import load_laws
from tests.judge.board import T0, Board


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


@pytest.mark.parametrize(
    ("kind", "attrs", "back_s"),
    [("remote_error", {"status": "12"}, 30), ("remote_error", {"status": "5"}, 0), ("lost_connection", {}, 0)],
)
def test_onset_lies_before_the_retries(kind: str, attrs: dict[str, str], back_s: float) -> None:
    b = Board(2)
    b.ev(kind, 0, at=100, **attrs)
    b.run("facts-from-events")
    low, high = b.con.execute("SELECT onset_low, onset_high FROM facts").fetchone()
    assert (T0 + timedelta(seconds=100) - low).total_seconds() == pytest.approx(back_s, abs=0.1)
    assert (high - T0).total_seconds() == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize(("by", "poll_s"), [("elastic", 5), ("deepspeed", 1)])
def test_death_lies_within_one_poll_of_its_record(by: str, poll_s: int) -> None:
    b = Board(2)
    b.ev("exit_record", None, at=100, peer_rank=1, exitcode=-9, signal="SIGKILL", by=by)
    b.run("facts-from-events", "exit-records")
    low, high = b.con.execute("SELECT onset_low, onset_high FROM facts WHERE predicate = 'died'").fetchone()
    assert (high - low).total_seconds() == poll_s


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


@pytest.mark.parametrize(("also", "expected"), [(None, [("exited", "process", "s0")]), ("raised", [("raised", "rank", "1")])])
def test_a_bad_exit_code_of_nobody_counts_only_when_nothing_else_is_left(also: str | None, expected: list[tuple[str, str, str]]) -> None:
    b = Board(2)
    b.ev("exit_record", None, exitcode=3, by="deepspeed")
    if also:
        b.ev(also, 1, exception="ValueError")
    b.run("facts-from-events", "exit-records")
    assert b.facts() == expected


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
    b.run("facts-from-events", "exit-records", "owner-by-exit-record", "not-counted")

    assert b.facts("raised") == [("raised", "rank", "2")]


def test_gpu_fault_goes_to_the_rank_of_its_pci_bus() -> None:
    b = Board(4, hosts=dict.fromkeys(range(4), "n1"))
    b.ev("device_fault", None, source="kernel", xid=79, pci_bus="0000:12:00.0", role="root")
    b.run("facts-from-events", "hardware-to-rank", "not-counted")

    assert b.facts() == [("device_fault", "rank", "2")]


def test_gpu_fault_without_a_host_belongs_to_nobody_when_two_ranks_fit() -> None:
    b = Board(4, hosts={0: "a", 1: "a", 2: "b", 3: "b"})
    b.ev("device_fault", None, source="kernel", xid=79, pci_bus="0000:12:00.0")
    b.run("facts-from-events", "hardware-to-rank")
    assert b.facts() == [("device_fault", "host", "host0"), ("device_fault", "rank", "2")]

    twice = Board(2)
    twice.hosts = {0: "a", 1: "b"}
    twice.ev("killed_by_kernel", None, source="kernel", pid=5123)
    for rank in (0, 1):  # the same worker pid on two hosts
        twice.ev("worker_died", rank, worker_pid="5123")
    twice.run("facts-from-events", "hardware-to-rank")
    assert twice.facts("killed_by_kernel") == [("killed_by_kernel", "host", "host0")]


def test_kernel_kill_of_a_worker_belongs_to_its_rank() -> None:
    b = Board(4, hosts=dict.fromkeys(range(4), "n1"))
    b.ev("killed_by_kernel", None, source="kernel", pid=5123)
    b.ev("worker_died", 2, worker_pid="5123")
    b.run("facts-from-events", "hardware-to-rank", "not-counted")
    assert b.facts("killed_by_kernel") == [("killed_by_kernel", "rank", "2")]


@pytest.mark.parametrize(("comm", "known", "status"), [("redis-server", True, "unrelated"), ("python3", True, "active"), ("redis-server", False, "active")])
def test_kernel_kill_of_a_foreign_process_is_set_aside(comm: str, known: bool, status: str) -> None:
    b = Board(2, hosts={0: "a", 1: "a"} if known else {})
    b.ev("killed_by_kernel", None, source="kernel", pid=777, comm=comm)
    b.run("facts-from-events", "not-counted")
    assert b.facts("killed_by_kernel", status) == [("killed_by_kernel", "host", "host0")]


def test_anonymous_count_of_kills_gives_way_to_the_task_that_was_killed() -> None:
    b = Board(2)
    b.ev("killed_by_kernel", None, source="slurm", step_id="7.0", scope="host")
    b.ev("killed_by_kernel", None, source="slurm", subject_rank=1, host="n2")
    b.run("facts-from-events", "not-counted")
    assert b.facts("killed_by_kernel") == [("killed_by_kernel", "rank", "1")]


@pytest.mark.parametrize(("done_at", "others", "expected"), [(18, 19, [("left_early", "rank", "2")]), (19, 19, [])])
def test_who_is_done_before_its_peers_left_early(done_at: int, others: int, expected: list[tuple[str, str, str]]) -> None:
    b = Board(4)
    for rank in range(4):
        for step in range(17, 1 + (done_at if rank == 2 else others)):
            b.step(rank, step)
    b.ev("finished", 2)
    for rank in (0, 1, 3):
        b.ev("lost_connection", rank)
    b.run("facts-from-events", "finished-early")
    assert b.facts("left_early") == expected


@pytest.mark.parametrize(("waiting", "owner"), [((0, 1, 3), [("left_early", "rank", "2")]), ((0, 1), [("left_early", "process", "s0")])])
def test_anonymous_words_of_leaving_are_those_of_the_only_rank_that_does_not_wait(waiting: tuple[int, ...], owner: list[tuple[str, str, str]]) -> None:
    b = Board(4)
    b.ev("left_early", None)
    for rank in waiting:
        b.ev("timed_out_waiting", rank)
    b.run("facts-from-events", "finished-early", "not-counted")
    assert b.facts("left_early") == owner


def test_exit_code_0_before_the_others_is_leaving_early_and_done_without_victims_is_not() -> None:
    b = Board(3)
    for rank, last in ((0, 9), (1, 8), (2, 9)):
        b.step(rank, last)
    b.ev("exit_record", None, peer_rank=1, exitcode=0)
    b.run("facts-from-events", "finished-early")
    assert b.facts("left_early") == []
    b.con.execute("DELETE FROM ranks")
    b.ev("timed_out_waiting", 0)
    b.con.execute("DELETE FROM facts")
    b.run("facts-from-events", "finished-early")
    assert b.facts("left_early") == [("left_early", "rank", "1")]


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
    b.run("facts-from-events", "mismatch-vote", "not-counted")
    assert b.facts("mismatch") == [("mismatch", "rank", "2")]

    tie = Board(2)
    tie.ev("mismatch", 0, self_rank=0, self="a", other_rank=1, other="b")
    tie.ev("mismatch", 1, self_rank=1, self="b", other_rank=0, other="a")
    tie.run("facts-from-events", "mismatch-vote", "not-counted")
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


@pytest.mark.parametrize(
    ("lines", "outside"),
    [
        ([("exit", 1), ("cancelled", None)], False),  # --kill-on-bad-exit
        ([("cancelled", None), ("exit", 1)], True),  # scancel; a task then fails while it is stopped
        ([("exit", 143), ("cancelled", None)], True),  # a task that answered the SIGTERM of somebody else
        ([("cancelled", None)], True),
    ],
)
def test_a_step_that_srun_ended_was_not_stopped_from_outside(lines: list[tuple[str, int | None]], outside: bool) -> None:
    b = Board(4)
    for what, code in lines:
        if what == "exit":
            b.ev("exit_record", None, source="slurm", peer_rank=2, by="slurm", exitcode=code)
        else:
            b.ev("external_signal", None, source="slurm", agent=True, signal="SIGTERM", reason="cancelled")
    b.run("facts-from-events", "not-counted")

    assert bool(b.facts("external_signal")) is outside


def test_srun_says_in_its_own_file_that_it_ends_the_step() -> None:
    """One file a task: slurmstepd's line stands in the first task's file, srun's lines in another."""
    b = Board(4)
    b.ev("external_signal", 0, source="slurm", agent=True, signal="SIGTERM", reason="cancelled")
    b.ev("exit_record", None, source="slurm", peer_rank=2, by="slurm", exitcode=1)
    b.ev("teardown_noise", None, source="slurm", why="srun ends the step")
    b.run("facts-from-events", "not-counted")

    assert b.facts("external_signal") == []


@pytest.mark.parametrize(("exception", "text_whole", "stands"), [("RuntimeError", False, False), ("RuntimeError", True, True), ("KeyError", False, True)])
def test_a_torn_exception_says_only_that_its_process_raised(exception: str, text_whole: bool, stands: bool) -> None:
    b = Board(3)
    b.ev("raised", 1, line=9, exception=exception, text="[/pytorch/third_pa", uncaught=True)
    if not text_whole:
        b.con.execute("UPDATE streams SET ending = 'torn' WHERE rank = 1")
    b.run("facts-from-events", "not-counted")

    assert bool(b.facts("raised")) is stands


@pytest.mark.parametrize(("done", "expected"), [([2], [("left_early", "rank", "2")]), ([1, 2, 3, 4], []), ([], [])])
def test_the_few_that_finished_while_the_others_wait_left_early(done: list[int], expected: list[tuple[str, str, str]]) -> None:
    b = Board(6)
    for rank in range(6):
        if rank in done:
            b.ev("finished", rank, at=5)
        else:
            b.ev("timed_out_waiting", rank, at=600, seq=9, op="ALLREDUCE", duration_ms=590_000)
    b.run("facts-from-events", "finished-early")

    assert b.facts("left_early") == expected


def test_a_rank_that_waits_where_its_peers_wait_has_handled_what_it_logged() -> None:
    b = Board(4)
    b.ev("raised", 1, line=3, exception="OSError", text="[Errno 5]", uncaught=False)
    for rank in range(3):
        b.ev("timed_out_waiting", rank, line=8, seq=49, op="ALLREDUCE", numel_in="4", numel_out="4")
    b.run("facts-from-events", "recovered")

    assert b.facts("raised") == []


def test_a_handled_fault_before_another_wait_stands() -> None:
    """Its own later wait is somewhere else than its peers': what it logged may be why."""
    b = Board(4)
    b.ev("raised", 1, line=3, exception="OSError", text="[Errno 5]", uncaught=False)
    b.ev("lost_connection", 1, line=8, uncaught=True, frames=["train.py:main", "train.py:cleanup"])
    for rank in (0, 2):
        b.ev("lost_connection", rank, line=8, uncaught=True, frames=["train.py:main", "train.py:train", "graph.py:_engine_run_backward"])
    b.run("facts-from-events", "recovered")

    assert b.facts("raised") == [("raised", "rank", "1")]


def test_an_xid_is_that_of_the_only_rank_that_speaks_of_a_device_fault() -> None:
    b = Board(4)
    b.ev("device_fault", None, source="kernel", xid=48, pci_bus="0000:77:00.0", role="root")
    b.ev("device_fault", 3, fault="uncorrectable ECC error encountered", uncaught=True)
    b.run("facts-from-events", "hardware-to-rank", "not-counted")

    assert {subject for _, _, subject in b.facts("device_fault")} == {"3"}


@pytest.mark.parametrize(("attrs", "explained"), [({"reason": "cancelled"}, False), ({"reason": "time limit"}, True), ({}, True)])
def test_a_plain_cancel_does_not_make_a_program_raise(attrs: dict[str, str], explained: bool) -> None:
    """Neither has a time: the exception is no consequence of a SIGTERM, but a limit is known to come first."""
    b = Board(4)
    b.ev("external_signal", None, source="slurm", agent=True, signal="SIGTERM", **attrs)
    b.ev("raised", 2, exception="AssertionError", text="empty batch", uncaught=True)
    b.run()

    assert (("external_signal", "agent0", "raised", "2") in b.edges()) is explained


def test_watchdogs_aborts_do_not_hide_a_lost_host() -> None:
    b = Board(4, {0: "a", 1: "a", 2: "b", 3: "b"})
    for rank in (0, 1):
        b.ev("timed_out_waiting", rank, at=600, seq=9, op="ALLREDUCE", duration_ms=590_000)
        b.ev("exit_record", None, peer_rank=rank, by="elastic", exitcode=-6, signal="SIGABRT", host="a")
    b.con.execute("UPDATE streams SET host = 'a' WHERE stream_id = 0")
    b.run()

    assert b.facts("host_gone") == [("host_gone", "host", "b")]


def test_bus_of_two_hosts_without_a_hosts_name_is_nobodys_unless_the_pid_fits() -> None:
    for pid, expected in ((103, [("device_fault", "rank", "3")]), (77, [("device_fault", "host", "host0")])):
        b = Board(4, hosts={0: "a", 1: "a", 2: "b", 3: "b"})
        b.ev("device_fault", None, source="kernel", xid=48, pci_bus="0000:10:00.0", role="root", pid=pid)
        b.run()  # makes known_ranks
        b.con.execute("UPDATE known_ranks SET pci_bus = '0000:10:00.0' WHERE rank IN (0, 3)")
        b.con.execute("DELETE FROM facts; DELETE FROM edges; DELETE FROM ranks")
        b.con.execute(f"INSERT INTO ranks {store.sql_text('ranks')}")
        laws.run_laws(b.con, only={"facts-from-events", "hardware-to-rank", "not-counted"})

        assert b.facts("device_fault") == expected


@pytest.mark.parametrize(("dead", "expected"), [([2], [("killed_by_kernel", "rank", "2")]), ([1, 2], [("killed_by_kernel", "host", "host0")])])
def test_a_kill_of_an_unknown_pid_is_that_of_the_only_killed_rank(dead: list[int], expected: list[tuple[str, str, str]]) -> None:
    b = Board(4)
    b.ev("killed_by_kernel", None, source="kernel", pid=4411)
    for rank in dead:
        b.ev("exit_record", None, source="slurm", peer_rank=rank, by="slurm", signal="SIGKILL")
    b.run("facts-from-events", "exit-records", "hardware-to-rank", "not-counted")

    assert b.facts("killed_by_kernel") == expected


def test_fault_of_a_machine_explains_its_own_ranks_only() -> None:
    b = Board(4, {0: "a", 1: "a", 2: "b", 3: "b"})
    b.ev("link_down", None, source="kernel")
    b.ev("remote_error", 3, status="12")
    b.ev("remote_error", 0, status="12")
    b.con.execute("UPDATE streams SET host = 'b' WHERE stream_id = 0")
    b.run("facts-from-events", "hardware-first")

    assert b.facts("link_down") == [("link_down", "host", "b")]
    assert [e for e in b.edges() if e[0] == "link_down"] == [("link_down", "b", "remote_error", "3")]


def recorded(board: Board, rank: int, last: int, *, pg: str = "0", state: str = "scheduled", **attrs: object) -> None:
    """A dump whose calls before the last one completed."""
    board.ev("fr_dump", rank, source="flight_recorder", oldest_us=1, newest_us=9, whole=True)
    for seq in range(1, last + 1):
        done = seq < last or state == "completed"
        board.ev("enqueued", rank, at=seq, seq=seq, pg=pg, op="ALLREDUCE", source="flight_recorder", state="completed" if done else state, numel_in=8, dtype="Float",
                 **({} if done else attrs))  # fmt: skip
        if done:
            board.ev("completed", rank, at=seq, seq=seq, pg=pg, op="ALLREDUCE", source="flight_recorder")


def one_rank_behind() -> Board:
    b = Board(3)
    for rank in (0, 2):
        recorded(b, rank, 5)
    recorded(b, 1, 4, state="completed")
    return b


def test_pending_calls_of_dumps_are_waits() -> None:
    b = one_rank_behind().run("facts-from-events", "pending-calls")
    assert b.facts("timed_out_waiting") == [("timed_out_waiting", "rank", "0"), ("timed_out_waiting", "rank", "2")]
    assert b.con.execute("SELECT DISTINCT pg, seq FROM facts WHERE predicate = 'timed_out_waiting'").fetchall() == [("0", 5)]

    assert one_rank_behind().run().facts("stalled") == [("stalled", "rank", "1")]


def test_calls_that_completed_or_that_the_job_left_behind_are_no_waits() -> None:
    done = Board(2)
    for rank in (0, 1):
        recorded(done, rank, 5, state="completed")
    went_on = Board(2)
    for rank in (0, 1):
        recorded(went_on, rank, 5)
        for step in range(10, 14):
            went_on.step(rank, step, at=step)
    for b in (done, went_on):
        b.run("facts-from-events", "pending-calls")
        assert b.facts() == []


def test_a_wait_that_the_log_tells_is_not_told_again_by_the_dump() -> None:
    b = Board(2)
    recorded(b, 0, 5)
    b.ev("timed_out_waiting", 0, seq=5, pg="0")
    b.run("facts-from-events", "pending-calls")
    assert b.facts() == [("timed_out_waiting", "rank", "0")]


def test_recorded_operands_are_put_to_the_vote_only_where_the_group_stood_still() -> None:
    for state, expected in (("started", [("mismatch", "rank", "0")]), ("completed", [])):
        b = Board(3)
        for rank in range(3):
            recorded(b, rank, 5, state=state)
        b.con.execute("UPDATE event_rows SET attrs = json_merge_patch(attrs, '{\"numel_in\": 9}') WHERE seq = 5 AND rank_on_line = 0 AND kind = 'enqueued'")
        b.run("facts-from-events", "pending-calls", "mismatch-vote")
        assert b.facts("mismatch") == expected


def test_fingerprints_of_a_group_that_is_not_known_name_no_rank() -> None:
    b = Board(4)
    for me, rank in enumerate((2, 3)):
        b.ev("mismatch", rank, why="fingerprint", group_self_rank=me, self="a" if me else "b", group_other_rank=1 - me, other="b" if me else "a", group_local=True)
    b.run("facts-from-events", "mismatch-vote", "not-counted")
    assert b.facts("mismatch") == [("mismatch", "group", "0")]


def waiting_pair(*, listed: bool) -> Board:
    """Rank 2 waits in group 7 of ranks 2 and 3; everybody else is silent."""
    b = Board(6)
    b.ev("timed_out_waiting", 2, seq=12, pg="7", duration_ms=600_000)
    if listed:
        b.ev("mapping", 2, pg="7", source="flight_recorder", group_ranks=[2, 3])
    return b


def test_only_members_of_the_waiting_group_are_candidates() -> None:
    assert waiting_pair(listed=True).run().facts("stalled") == [("stalled", "rank", "3")]
    assert len(waiting_pair(listed=False).run().facts("stalled")) == 5


def test_behind_in_another_group_is_no_absence() -> None:
    b = waiting_pair(listed=False)
    b.ev("pg_status", 0, pg="0", last_enqueued=3, last_completed=3)
    b.ev("pg_status", 3, pg="7", last_enqueued=11, last_completed=11)
    b.run()
    assert b.facts("stalled") == [("stalled", "rank", "3")]
    assert b.con.execute("SELECT pg, seq FROM facts WHERE predicate = 'stalled'").fetchall() == [("7", 12)]


def test_a_member_that_waits_itself_is_a_victim_wherever_it_is_behind() -> None:
    b = Board(3)
    b.ev("timed_out_waiting", 0, seq=7, pg="0")
    b.ev("pg_status", 1, pg="0", last_enqueued=6, last_completed=6)
    b.ev("timed_out_waiting", 1, seq=3, pg="8")
    b.ev("pg_status", 2, pg="8", last_enqueued=2, last_completed=2)
    b.run()
    assert b.facts("stalled") == [("stalled", "rank", "2")]


def test_who_completed_the_initialisation_waits_for_nobody_and_is_no_suspect() -> None:
    b = Board(4)
    for rank in range(4):
        b.ev("init_start", rank, pg="c1", comm_rank=rank, nranks=4)
    for rank in (0, 2):
        b.ev("init_done", rank, pg="c1", comm_rank=rank, nranks=4)
    b.run()
    assert b.facts("stalled") == [("stalled", "rank", "1"), ("stalled", "rank", "3")]


@pytest.mark.parametrize(("quoting", "subject"), [((2,), "2"), ((2, 3), "0")])
def test_rank_0_quoted_by_one_process_alone_is_that_process(quoting: tuple[int, ...], subject: str) -> None:
    """A load without a process group calls its own process rank 0; a real exception of rank 0 is quoted by every peer."""
    b = Board(4)
    for rank in quoting:
        b.ev("raised", rank, source="python", exception="FileNotFoundError", second_hand=True, subject_rank=0)
    b.run("facts-from-events")
    assert {s for _, _, s in b.facts("raised")} == {subject}


@pytest.mark.parametrize(("busy", "expected"), [((0, 1, 2), []), ((), [("never_joined", "rank", "3")])])
def test_a_rank_without_log_that_one_rank_alone_waits_for(busy: tuple[int, ...], expected: list[tuple[str, str, str]]) -> None:
    """While the others work in collectives it is that one's mistake about the size of the job."""
    b = Board(4)
    b.no_log(3)
    b.ev("store_wait", 1, peer_rank=3)
    for rank in busy:
        b.ev("timed_out_waiting", rank, direction="recv")
    b.run("facts-from-events", "never-joined")
    assert b.facts("never_joined") == expected


@pytest.mark.parametrize(("address", "gone"), [("10.0.0.7", True), ("10.0.0.8", False)])
def test_a_handled_fault_does_not_speak_against_the_host_whose_address_a_peer_lost(address: str, gone: bool) -> None:
    b = Board(4, hosts={0: "n0", 1: "n0", 2: "n1", 3: "n1"})
    for rank in range(4):
        b.step(rank, 6, at=6)
    b.ev("mapping", 0, host="n0", ip="10.0.0.7")
    b.ev("mapping", 2, host="n1", ip="10.0.0.8")
    b.ev("raised", 3, exception="JSONDecodeError", uncaught=False)
    event = b.ev("lost_connection", 2, at=7)
    b.con.execute("UPDATE event_rows SET peer_host = ? WHERE event_id = ?", [address, event])
    b.run("facts-from-events", "host-gone")
    assert bool(b.facts("host_gone")) is gone


def test_words_that_a_report_quotes_for_a_rank_are_that_ranks() -> None:
    b = Board(4)
    b.ev("raised", None, exception="KeyError", text="'ids'", uncaught=True)
    b.ev("raised", None, exception="KeyError", text="'ids'", second_hand=True, subject_rank=2)
    b.ev("exit_record", None, peer_rank=2, exitcode=1, by="elastic")
    b.ev("exit_record", None, peer_rank=3, exitcode=-6, signal="SIGABRT", by="elastic")
    b.run("facts-from-events", "exit-records", "owner-by-exit-record", "not-counted")
    assert {(kind, who) for _, kind, who in b.facts("raised")} == {("rank", "2")}


@pytest.mark.parametrize(("record", "owner"), [({"exitcode": 1}, "rank"), ({"exitcode": -6, "signal": "SIGABRT"}, "process")])
def test_a_python_exception_does_not_end_its_process_by_a_signal(record: dict[str, object], owner: str) -> None:
    b = Board(4)
    b.ev("raised", None, exception="KeyError", text="'ids'", uncaught=True)
    b.ev("exit_record", None, peer_rank=3, by="elastic", **record)
    b.run("facts-from-events", "exit-records", "owner-by-exit-record", "not-counted")
    assert [kind for _, kind, _ in b.facts("raised")] == [owner]


def test_a_handled_fault_before_the_collective_in_which_all_lost_their_peer_is_over() -> None:
    b = Board(4)
    b.ev("raised", 1, line=3, exception="KeyError", text="'text'", uncaught=False)
    for rank in range(3):
        b.ev("remote_error", rank, line=8, seq=11, op="REDUCE_SCATTER", numel_in="4", numel_out="2")
    b.run("facts-from-events", "recovered")
    assert b.facts("raised") == []


def test_a_handled_fault_of_nobody_does_not_stop_the_search_for_the_silent_rank() -> None:
    b = Board(4)
    for rank in range(4):
        b.step(rank, 8, at=8)
    b.ev("raised", None, exception="KeyError", uncaught=False)
    for rank in (0, 1, 3):
        b.ev("timed_out_waiting", rank, duration_ms=12000)
    b.run()
    assert b.facts("stalled") == [("stalled", "rank", "2")]


def test_every_law_has_a_row_test() -> None:
    """By name, or by running all laws (the explain laws work on facts of the others)."""
    text = Path(__file__).read_text(encoding="utf-8")
    run_whole = {"host-gone", "silent-rank", "own-process", "group-breaks", "outside-stop", "nan-spreads"}
    assert {law.name for law in load_laws() if f'"{law.name}"' not in text} <= run_whole
