"""Labelled incidents for the whole engine: what flight recorders and collective numbers decide, and what they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from correlator.api import open_job
from correlator.show import text
from tests.judge.fr_dumps import Rank, job

SCHEMA = json.loads((Path(__file__).parents[2] / "correlator" / "show" / "schema.json").read_text(encoding="utf-8"))


def diagnose(folder: Path) -> dict[str, Any] | None:
    """The primary incident, its document checked against the schema."""
    with open_job(str(folder)) as opened:
        jsonschema.validate(json.loads(json.dumps(opened.document, default=str)), SCHEMA)
        if opened.primary is not None:
            assert text.render(opened.document)
        return opened.primary


def incident(folder: Path) -> dict[str, Any]:
    found = diagnose(folder)
    assert found is not None
    return found


def named(found: dict[str, Any]) -> tuple[str, list[int]]:
    return found["scope"], found["initiating_ranks"]


def unnamed(found: dict[str, Any]) -> bool:
    return found["initiating_ranks"] == [] and found["scope"] in ("undetermined", "job") and (found["scope"] != "undetermined" or bool(found["missing"]))


def hung(ranks: list[Rank], late: int, at: int = 7) -> list[Rank]:
    """All but one rank wait in call ``at`` of the default group."""
    for r in ranks:
        r.calls(at - 1)
        if r.rank != late:
            r.call(at, "scheduled", timed_out=True)
    return ranks


def write(ranks: list[Rank], folder: Path, **how: Any) -> Path:
    for r in ranks:
        r.write(folder, **how)
    return folder


# ---- flight recorders alone ---------------------------------------------------------------------
@pytest.mark.parametrize("version", ["2.2", "1.4", "2.1", "2.4", "2.10"])
def test_the_member_whose_last_call_is_an_earlier_one_is_named(tmp_path: Path, version: str) -> None:
    found = incident(write(hung(job(4), late=2), tmp_path, version=version))
    assert named(found) == ("rank", [2])
    assert (found["outcome"], found["failure_class"]) == ("hung", "rank_stalled")
    table = found["collective"]
    assert (table["pg"], table["seq"], table["op"]) == ("0", 7, "ALLREDUCE")
    assert (table["present"], table["absent"], table["different"], table["unknown"]) == ([0, 1, 3], [2], [], [])
    assert [c["rank"] for c in found["collateral"]] == [0, 1, 3]


def test_json_dumps_and_names_of_the_users_choice(tmp_path: Path) -> None:
    ranks = hung(job(4), late=1)
    for r in ranks:
        r.write(tmp_path, "fr-{}.json" if r.rank % 2 else "mytrace_{}", as_json=bool(r.rank % 2))
    assert named(incident(tmp_path)) == ("rank", [1])


def test_the_host_runs_ahead_of_the_call_that_hangs(tmp_path: Path) -> None:
    ranks = job(4)
    for r in ranks:
        r.calls(6)
        for seq in range(7, 7 if r.rank == 3 else 120 + r.rank):
            r.call(seq, "scheduled")
    found = incident(write(ranks, tmp_path))
    assert named(found) == ("rank", [3])
    assert found["collective"]["seq"] == 7


@pytest.mark.parametrize("odd", [0, 2])
def test_the_vote_names_the_odd_one_even_if_it_is_the_first(tmp_path: Path, odd: int) -> None:
    ranks = job(4)
    for r in ranks:
        r.calls(4).call(5, "started", op="broadcast" if r.rank == odd else "all_reduce", size=[1] if r.rank == odd else [64, 2], timed_out=True)
    found = incident(write(ranks, tmp_path))
    assert named(found) == ("rank", [odd])
    assert found["failure_class"] == "collective_mismatch"
    assert found["collective"]["different"] == [{"ranks": [odd], "what": "BROADCAST 1 Float"}]


def test_another_dtype_is_another_call(tmp_path: Path) -> None:
    ranks = job(3)
    for r in ranks:
        r.calls(2).call(3, "started", dtype="BFloat16" if r.rank == 1 else "Float")
    assert named(incident(write(ranks, tmp_path))) == ("rank", [1])


def test_two_against_two_names_nobody(tmp_path: Path) -> None:
    ranks = job(4)
    for r in ranks:
        r.calls(4).call(5, "started", size=[32] if r.rank < 2 else [64], timed_out=True)
    found = incident(write(ranks, tmp_path))
    assert unnamed(found)
    assert found["failure_class"] == "collective_mismatch"


def test_sizes_of_an_uneven_exchange_may_differ(tmp_path: Path) -> None:
    ranks = job(4)
    for r in ranks:
        r.calls(4).call(5, "started", op="all_to_all", size=[r.rank + 1], timed_out=True)
    found = incident(write(ranks, tmp_path))
    assert unnamed(found)
    assert found["failure_class"].startswith("unknown")


def test_a_missing_dump_is_a_suspect_at_most(tmp_path: Path) -> None:
    ranks = hung(job(4), late=9)
    found = incident(write([r for r in ranks if r.rank != 2], tmp_path))
    assert unnamed(found)
    assert [s["rank"] for s in found["suspects"]] == [2]
    assert found["collective"]["unknown"] == [2]
    assert found["missing"][0]["fact"] == "the flight-recorder dump of rank 2"
    assert found["failure_class"] == "unknown_hang"


@pytest.mark.parametrize("damage", [b"", b"\x00" * 4096, b"cut"])
def test_a_damaged_dump_is_a_missing_one(tmp_path: Path, damage: bytes) -> None:
    write(hung(job(4), late=9), tmp_path)
    victim = tmp_path / "nccl_trace_rank_2"
    victim.write_bytes(victim.read_bytes()[:300] if damage == b"cut" else damage)
    found = incident(tmp_path)
    assert unnamed(found)
    assert [s["rank"] for s in found["suspects"]] in ([2], [])


def test_all_alike_in_one_call_names_nobody(tmp_path: Path) -> None:
    found = incident(write(hung(job(4), late=9), tmp_path))
    assert unnamed(found)
    assert found["failure_class"] == "unknown_hang"
    assert found["suspects"] == []


def test_dumps_of_a_healthy_job_are_no_incident(tmp_path: Path) -> None:
    assert diagnose(write([r.calls(9) for r in job(4)], tmp_path)) is None


def test_dumps_on_demand_of_a_job_that_went_on_are_no_incident(tmp_path: Path) -> None:
    write(hung(job(2), late=1, at=3), tmp_path / "dumps")
    lines = [f"2026-12-01 00:{m:02}:00,000 INFO train: step {m}/100 loss=2.0" for m in range(1, 30)]  # the dumps are of 2026-11-30
    (tmp_path / "rank_0.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert diagnose(tmp_path) is None


def test_a_dump_of_another_moment_proves_no_absence(tmp_path: Path) -> None:
    """Ranks 0 to 2 completed call 6, so rank 3 had called it: its dump, which ends at 4, is older."""
    ranks = job(4)
    for r in ranks:
        r.calls(4 if r.rank == 3 else 6)
        if r.rank != 3:
            r.call(7, "scheduled")
    assert unnamed(incident(write(ranks, tmp_path)))


def test_a_leftover_of_an_earlier_run_proves_no_absence(tmp_path: Path) -> None:
    ranks = hung(job(4), late=3)
    ranks[3] = Rank(3, ranks[3].groups, start_s=-86400).calls(6)
    found = incident(write(ranks, tmp_path))
    assert unnamed(found)


def test_the_wait_of_a_sub_group_names_its_own_member(tmp_path: Path) -> None:
    """Ranks 2 and 3 use group 5; rank 2 waits there, so it misses the default group, where 0 and 1 wait for both."""
    ranks = job(4, {"5": [2, 3]})
    for r in ranks:
        r.calls(3)
        if r.rank >= 2:
            r.calls(8, pg="5")
        if r.rank == 2:
            r.call(9, "scheduled", pg="5")
        if r.rank < 2:
            r.call(4, "scheduled", timed_out=True)
    found = incident(write(ranks, tmp_path))
    assert named(found) == ("rank", [3])
    assert (found["collective"]["pg"], found["collective"]["present"], found["collective"]["absent"]) == ("5", [2], [3])


def test_groups_of_one_name_are_not_mixed(tmp_path: Path) -> None:
    """A mesh names its rows alike: group tp of ranks 0 and 1 is at call 40, that of 2 and 3 at call 6, and only 1 is late."""
    ranks = job(4)
    for r in ranks:
        row = [0, 1] if r.rank < 2 else [2, 3]
        r.groups["tp"] = row
        r.calls(2)
        if r.rank == 0:
            r.calls(39, pg="tp").call(40, "scheduled", pg="tp")
        elif r.rank == 1:
            r.calls(39, pg="tp")
        else:
            r.calls(6, pg="tp")
    found = incident(write(ranks, tmp_path))
    assert named(found) == ("rank", [1])
    assert (found["collective"]["pg"], found["collective"]["absent"], found["collective"]["unknown"]) == ("tp@0", [1], [])


def test_a_rank_late_in_one_group_because_it_waits_in_another_is_innocent(tmp_path: Path) -> None:
    """Pipeline of groups: 0 waits for 1, 1 waits for 2, 2 waits for 3, which waits for nobody."""
    ranks = job(4, {"a": [0, 1], "b": [1, 2], "c": [2, 3]})
    for r in ranks:
        r.calls(2)
        for pg, members in r.groups.items():
            if pg != "0" and r.rank in members:
                r.calls(5, pg=pg)
                if r.rank == members[0]:
                    r.call(6, "scheduled", pg=pg)
    assert named(incident(write(ranks, tmp_path))) == ("rank", [3])


def test_gloo_recorders_leave_every_call_scheduled(tmp_path: Path) -> None:
    ranks = job(4, backend="gloo")
    for r in ranks:
        r.groups.clear()  # gloo lists no members
        r.calls(3)
        if r.rank != 1:
            r.call(4, "scheduled")
    assert named(incident(write(ranks, tmp_path, name="comm_lib_trace_rank_{}", version="2.10"))) == ("rank", [1])


RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize(("name", "pg", "present"), [("gloo-lag", "0", [0, 1, 2]), ("gloo-lag-json", "0", [0, 1, 2]), ("gloo-subgroup", "2", [2])])
def test_dumps_that_torch_wrote(name: str, pg: str, present: list[int]) -> None:
    found = incident(RECORDED / name)
    assert named(found) == ("rank", [3])
    assert (found["collective"]["pg"], found["collective"]["seq"], found["collective"]["present"], found["collective"]["absent"]) == (pg, 4, present, [3])


def test_dumps_that_torch_wrote_of_a_healthy_job() -> None:
    assert diagnose(RECORDED / "gloo-healthy") is None


def test_a_clock_of_another_zone_is_no_progress(tmp_path: Path) -> None:
    """The log's clock stands eight hours ahead: its last step is that before the hang, not one of eight hours later."""
    write(hung(job(2), late=1, at=3), tmp_path / "dumps")
    lines = [f"2026-11-30 08:53:{s:02},000 INFO train: step {s}/100 loss=2.0" for s in range(1, 23)]  # T0 is 00:53:20 UTC
    (tmp_path / "rank_0.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert named(incident(tmp_path)) == ("rank", [1])


def test_dumps_belong_to_the_last_restart_that_was_under_way(tmp_path: Path) -> None:
    """A restart overwrites the dumps of the attempt before: there rank 0 raised, here rank 1 is late."""
    write(hung(job(2), late=1), tmp_path / "dumps")
    for attempt, (minute, end) in enumerate(((10, 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nValueError: bad'), (52, ""))):
        for rank in (0, 1):
            folder = tmp_path / "logs" / "job_x1" / f"attempt_{attempt}" / str(rank)
            folder.mkdir(parents=True)
            steps = [f"2026-11-30 00:{minute}:{s:02},000 INFO train: step {s}/100 loss=2.0" for s in range(1, 9)]
            (folder / "stderr.log").write_text("\n".join([*steps, end if rank == 0 else ""]) + "\n", encoding="utf-8")
    with open_job(str(tmp_path)) as opened:
        first, second = opened.incidents
    assert (first["initiating_ranks"], first["failure_class"]) == ([0], "user_exception")
    assert second["initiating_ranks"] == [1]


# ---- words of watchdogs, reports and NCCL itself -------------------------------------------------
def logs(folder: Path, lines: dict[int, list[str]], world: int = 4, steps: int = 3) -> Path:
    """One log a rank: its start, some steps, then its lines."""
    for rank in range(world):
        head = [f"2026-05-03 10:00:00,000 INFO train: rank={rank} world_size={world} starting"]
        head += [f"2026-05-03 10:00:0{s},100 INFO train: step {s}/40 loss=5.8" for s in range(1, steps + 1)]
        (folder / f"rank_{rank}.log").write_text("\n".join([*head, *lines.get(rank, [])]) + "\n", encoding="utf-8")
    return folder


def c10d(rank: int, message: str, pg: str | None = None, place: int | None = None, desc: str = "default_pg", severity: str = "E") -> str:
    prefix = (
        f"[PG ID {0 if pg == '0' else 1} PG GUID {pg}({desc}) Rank {place if place is not None else rank}] " if pg else f"[Rank {place if place is not None else rank}] "
    )
    return f"[rank{rank}]:[{severity}503 10:10:05.120000000 ProcessGroupNCCL.cpp:2241] {prefix}{message}"


def timeout(rank: int, seq: int, enqueued: int, pg: str = "0", place: int | None = None, desc: str = "default_pg", op: str = "ALLREDUCE", numel: int = 4096) -> list[str]:
    return [
        c10d(rank, f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.", place=place),
        c10d(rank, f" failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {seq - 1}", pg, place, desc),
    ]  # fmt: skip


def signal(rank: int, enqueued: int, completed: int, detector: int = 0) -> list[str]:
    return [c10d(rank, f"Received a dump signal due to a collective timeout from  rank {detector} and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
                 "This is most likely caused by incorrect usages of collectives.", "0")]  # fmt: skip


def test_the_rank_that_only_got_the_dump_signal_is_behind(tmp_path: Path) -> None:
    lines = {r: timeout(r, 31, 33) for r in (0, 1, 3)} | {2: signal(2, 30, 30)}
    found = incident(logs(tmp_path, lines))
    assert named(found) == ("rank", [2])
    assert (found["collective"]["seq"], found["collective"]["absent"], found["collective"]["present"]) == (31, [2], [0, 1, 3])


def test_numbers_of_different_groups_are_not_compared(tmp_path: Path) -> None:
    """Ranks 2 and 3 wait in group 7 at call 12; the dump signal shows rank 0 and 1 at call 4 of the default group: decoys."""
    lines = {2: timeout(2, 12, 12, "7", 0, "tp"), 0: signal(0, 4, 4, 2), 1: signal(1, 4, 4, 2), 3: timeout(3, 12, 12, "7", 1, "tp")}
    found = incident(logs(tmp_path, lines))
    assert unnamed(found)
    assert found["collective"]["pg"] == "7"


def test_behind_in_the_group_that_waits_with_decoys_in_another(tmp_path: Path) -> None:
    lines = {2: timeout(2, 12, 12, "7", 0, "tp"), 3: [c10d(3, "Received a dump signal from this local rank and will start to dump the debug info. Last enqueued NCCL work: 11, last completed NCCL work: 11.", "7", 1, "tp")],
             0: signal(0, 3, 3, 2), 1: signal(1, 3, 3, 2)}  # fmt: skip
    found = incident(logs(tmp_path, lines))
    assert named(found) == ("rank", [3])
    assert (found["collective"]["pg"], found["collective"]["description"]) == ("7", "tp")


def test_a_dump_tells_whose_group_the_watchdog_speaks_of(tmp_path: Path) -> None:
    """Members of group 7 are 1 and 3 (from a dump), so the silent ranks 0 and 2 are no candidates for its wait."""
    logs(tmp_path, {1: timeout(1, 12, 12, "7", 0, "tp")})
    for r in job(4, {"7": [1, 3]}):
        if r.rank == 1:
            r.calls(3).calls(11, pg="7").write(tmp_path / "dumps")
    found = incident(tmp_path)
    assert named(found) == ("rank", [3])


def test_heartbeat_monitors_with_status_tell_who_is_behind(tmp_path: Path) -> None:
    """No collective timed out yet: three ranks have one more call in flight than they completed, rank 1 has not made it."""
    stuck = "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API hang blocking the watchdog"
    lines = {r: [c10d(r, stuck, "0", severity="F"), *signal(r, 31, 30, 2)] for r in (0, 2, 3)} | {1: signal(1, 30, 30, 2)}
    found = incident(logs(tmp_path, lines))
    assert named(found) == ("rank", [1])
    assert (found["outcome"], found["collective"]["absent"]) == ("hung", [1])


def test_heartbeat_monitors_alone_name_nobody(tmp_path: Path) -> None:
    stuck = "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    found = incident(logs(tmp_path, {r: [c10d(r, stuck, "0", severity="F"), *signal(r, 31, 30, 2)] for r in range(4)}))
    assert unnamed(found)


DESYNC = (
    "\t - [{place}] Timeout at collective: ALLREDUCE, #12\n\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
    "\t   - [0] joined but didn't finish collective #12 (count from 1)\n\t     [1] finished collective #11, but didn't join collective #12 (count from 1)"
)


def test_the_desync_report_counts_inside_its_group(tmp_path: Path) -> None:
    """Group 7 holds ranks 2 and 3: its rank 1 is global rank 3, and global rank 1 has nothing to do with it."""
    other = [c10d(3, "ProcessGroupNCCL created ncclComm_ on CUDA device", "7", 1, "tp", severity="W"), *signal(3, 4, 4, 2)]
    lines = {2: [*timeout(2, 12, 12, "7", 0, "tp"), *c10d(2, DESYNC.format(place=0), "7", 0, "tp").split("\n")], 3: other, 0: signal(0, 4, 4, 2), 1: signal(1, 4, 4, 2)}
    assert named(incident(logs(tmp_path, lines))) == ("rank", [3])


def fingerprint(seq: int, op: str, shape: str) -> str:
    return f"CollectiveFingerPrint(SequenceNumber={seq}, OpType={op}, TensorShape=[{shape}], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda))"


def detail(rank: int, me: int, mine: str, other: int, others: str) -> list[str]:
    text_ = f"Detected mismatch between collectives on ranks. Rank {me} is running collective: {mine}, but Rank {other} is running collective: {others}."
    return [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "train.py", line 9, in <module>',
        f"[rank{rank}]:     main()",
        f"[rank{rank}]: RuntimeError: {text_}",
    ]


def test_detail_fingerprints_are_put_to_the_vote(tmp_path: Path) -> None:
    good, bad = fingerprint(5, "ALLREDUCE", "4"), fingerprint(5, "ALLGATHER", "4")
    lines = {r: detail(r, r, good, 3, bad) for r in (0, 1, 2)} | {3: detail(3, 3, bad, 0, good)}
    found = incident(logs(tmp_path, lines))
    assert named(found) == ("rank", [3])
    assert [d["ranks"] for d in found["collective"]["different"]] == [[3]]


def test_a_mismatch_of_a_sub_group_is_told_in_global_ranks(tmp_path: Path) -> None:
    """Six ranks, group 7 = 3, 4, 5: its rank 1 is odd, which is global rank 4, not 1."""
    good, bad = fingerprint(5, "ALLREDUCE", "4"), fingerprint(5, "ALLREDUCE", "6")
    lines = {3: detail(3, 0, good, 1, bad), 4: detail(4, 1, bad, 0, good), 5: detail(5, 2, good, 1, bad)}
    logs(tmp_path, lines, world=6)
    for r in job(6, {"7": [3, 4, 5]}):
        if r.rank == 3:
            r.calls(2).calls(4, pg="7").write(tmp_path / "dumps")
    assert named(incident(tmp_path)) == ("rank", [4])


def test_a_mismatch_of_a_group_that_is_not_known_names_nobody(tmp_path: Path) -> None:
    good, bad = fingerprint(5, "ALLREDUCE", "4"), fingerprint(5, "ALLREDUCE", "6")
    lines = {3: detail(3, 0, good, 1, bad), 4: detail(4, 1, bad, 0, good), 5: detail(5, 2, good, 1, bad)}
    found = incident(logs(tmp_path, lines, world=6))
    assert found["initiating_ranks"] == []
    assert found["failure_class"] == "collective_mismatch"


def nccl(rank: int, calls: list[str], size: int = 4, comm_id: str = "0xabc1") -> list[str]:
    """Init lines and calls of one process; the pointer differs from process to process, opCount stays 0 on one node."""
    at, comm = f"n1:{100 + rank}:{100 + rank} [{rank}] NCCL INFO ", f"0x55{rank:02x}"
    init = [
        f"{at}ncclCommInitRank comm {comm} rank {rank} nranks {size} cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId {comm_id} - Init {what}"
        for what in ("START", "COMPLETE")
    ]
    return init + [
        f"{at}{c.split()[0]}: opCount 0 sendbuff 0x7f recvbuff 0x7f count {c.split()[1]} datatype 7 op 0 root 0 comm {comm} [nranks={size}] stream 0x5" for c in calls
    ]


def test_nccl_call_lines_are_counted_in_their_own_order(tmp_path: Path) -> None:
    """Rank 1 made one call less than those that time out; opCount is 0 everywhere."""
    calls = ["AllReduce 1024", "AllGather 8"] * 150
    lines = {r: [*nccl(r, calls + ["AllReduce 1024"] * (1 + r)), *timeout(r, 290, 291)] for r in (0, 2, 3)} | {1: nccl(1, calls)}
    found = incident(logs(tmp_path, lines))
    assert named(found) == ("rank", [1])


def test_nccl_call_lines_that_differ_are_put_to_the_vote(tmp_path: Path) -> None:
    """All four time out at the same number; NCCL's lines show that rank 2 reduced another size."""
    calls = ["AllReduce 1024", "AllGather 8"] * 5
    lines = {r: [*nccl(r, [*calls, f"AllReduce {96 if r == 2 else 64}"]), *timeout(r, 11, 11)[:1]] for r in range(4)}
    found = incident(logs(tmp_path, lines))
    assert named(found) == ("rank", [2])
    assert found["failure_class"] == "collective_mismatch"


RAS = """NCCL version 2.28.9 compiled with CUDA 13.0
Communicators... (0.31s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         4         4         4   RUNNING  MISMATCH

#0-0 (a9d3b2c41f77e001) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 31
  Rank 2 has launched up to operation 30 -- GPU 2 managed by process 102 on node n1
"""


def test_a_ras_report_names_the_rank_behind(tmp_path: Path) -> None:
    logs(tmp_path, {r: timeout(r, 31, 31)[:1] for r in (0, 1)})  # rank 3 is silent as well
    (tmp_path / "ncclras.txt").write_text(RAS, encoding="utf-8")
    assert named(incident(tmp_path)) == ("rank", [2])


def test_a_ras_report_about_a_smaller_communicator_is_read_by_process(tmp_path: Path) -> None:
    """Rank 1 of a communicator of two is global rank 3: its pid says so."""
    report = RAS.replace("    0         1         1         4         4         4   RUNNING  MISMATCH", "    0         1         1         4         4         4   RUNNING  OK\n"
                         "    1         2         1         2         2         4   RUNNING  MISMATCH")  # fmt: skip
    report = (
        report.replace("#0-0", "#1-1").replace("3 ranks have", "1 ranks have").replace("Rank 2 has launched", "Rank 1 has launched").replace("process 102", "process 103")
    )
    logs(tmp_path, {r: [*nccl(r, []), *(timeout(r, 31, 31)[:1] if r == 2 else [])] for r in range(4)})
    (tmp_path / "ncclras.txt").write_text(report, encoding="utf-8")
    assert named(incident(tmp_path)) == ("rank", [3])
