"""The simulator itself: reproducible, consistent, and its labels follow from what survived."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from tests.simulator import scenario
from tests.simulator.cluster import Job, build
from tests.simulator.faults import FAULTS
from tests.simulator.losses import LOSSES
from tests.simulator.program import reach, step_program
from tests.simulator.scenario import Scenario

CLASSES = {c for table in tomllib.loads((Path(__file__).parents[2] / "rules" / "taxonomy.toml").read_text(encoding="utf-8")).values() for c in table}


def job(world: int, parallel: str) -> Job:
    return next(j for seed in range(500) if (j := build(random.Random(seed), world)).parallel == parallel)


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two = scenario(7, 16, "stall"), scenario(7, 16, "stall")
    assert one.files == two.files
    assert one.label == two.label


@pytest.mark.parametrize("world", [8, 64, 1024])
def test_groups_of_a_3d_parallel_job_partition_its_ranks(world: int) -> None:
    j = job(world, "3d")
    for role in ("data", "tensor"):
        members = [r for g in j.groups if g.role == role for r in g.ranks]
        assert sorted(members) == list(range(world)), role
    assert all(max(g.ranks) // j.per_host == min(g.ranks) // j.per_host for g in j.groups if g.role == "tensor")


@pytest.mark.parametrize("world", [8, 64])
def test_members_of_a_group_call_the_same_collectives(world: int) -> None:
    j = job(world, "3d")
    for index, g in enumerate(j.groups):
        calls = {tuple(o.kind for o in step_program(j, r) if o.group == index) for r in g.ranks if g.role != "pipeline"}
        assert len(calls) <= 1, g


def test_one_absent_rank_leaves_every_other_rank_waiting_in_the_default_group() -> None:
    j = job(16, "3d")
    r = reach(j, {5: 0})
    waiting = [p.rank for p in j.procs if r.first_pending(p.rank, 0) is not None]
    assert waiting == [x for x in range(16) if x != 5]
    assert r.counts(5, 0) == (0, 0)


def test_a_step_without_a_fault_ends() -> None:
    j = job(16, "3d")
    r = reach(j, {})
    assert all(limit == len(p) for limit, p in zip(r.limit, r.programs, strict=True))


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_every_kind_tells_a_label_in_the_vocabulary(kind: str) -> None:
    case = scenario(3, 8, kind)
    assert case.label["failure_class"] in CLASSES | {"none"}
    assert set(case.label["acceptable_classes"]) <= CLASSES | {"none"}
    assert all(0 <= r < 8 for r in case.label["initiating_ranks"])
    assert any(case.files.values())


def _first(kind: str, wanted: object) -> Scenario:
    return next(c for seed in range(300) if wanted(c := scenario(seed, 8, kind, loss="")))  # type: ignore[operator]


def test_only_ranks_that_were_called_on_complain_of_a_stalled_one() -> None:
    case = _first("stall", lambda c: c.layout in ("per-rank", "each-rank") and c.job.backend == "nccl")
    for path, data in case.files.items():
        if f"rank{case.truth.ranks[0]}.log" in path.replace("rank_", "rank"):
            assert b"Watchdog caught" not in data
    assert sum(b"Watchdog caught" in data for data in case.files.values()) >= 3


def test_losing_the_only_witness_makes_the_case_unanswerable() -> None:
    kept = next(c for seed in range(300) if (c := scenario(seed, 8, "json", loss="")).layout in ("per-rank", "per-task", "each-rank"))
    lost = scenario(kept.seed, 8, "json", loss="culprit-file")
    assert kept.label["rank_answerable"]
    assert lost.loss == "culprit-file"
    assert not lost.label["rank_answerable"]
    assert lost.label["acceptable_ranks"] == lost.label["initiating_ranks"]


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_takes_something_away(loss: str) -> None:
    case = next(c for seed in range(300) if (c := scenario(seed, 16, "oom-kill", loss=loss)).loss == loss)
    whole = scenario(case.seed, 16, "oom-kill", loss="")
    assert sum(map(len, case.files.values())) < sum(map(len, whole.files.values()))


def test_a_shifted_clock_changes_only_what_that_host_prints() -> None:
    one = next(c for seed in range(300) if (c := scenario(seed, 16, "key-error", loss="")).layout == "per-rank" and c.style == "asctime" and len(c.job.hosts) == 2)
    two = scenario(one.seed, 16, "key-error", loss="", shift={1: 120.0})
    changed = {path for path in one.files if one.files[path] != two.files[path]}
    assert one.files.keys() == two.files.keys()
    assert changed
    assert all(int(path.split("_")[1].split(".")[0]) >= one.job.per_host for path in changed if path.startswith("rank_"))


def test_the_label_is_written_as_the_contract_says(tmp_path: Path) -> None:
    case = scenario(5, 8)
    logs = case.write(tmp_path / "case")
    assert tomllib.loads((tmp_path / "case" / "expected.toml").read_text(encoding="utf-8")) == case.label
    assert {p.relative_to(logs).as_posix() for p in logs.rglob("*") if p.is_file()} == set(case.files)
