"""Generated hangs: ranks of a mesh of groups run one program until a culprit stops; whatever is lost, no innocent is named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from correlator.api import open_job
from tests.judge.fr_dumps import Rank
from tests.judge.test_collective_incidents import logs, signal, timeout


def mesh(rows: int, columns: int, *, same_names: bool) -> dict[tuple[str, int], list[int]]:
    """Row and column groups of a mesh, and all ranks. A device mesh may name all its rows alike."""
    world = rows * columns
    groups = {("0", 0): list(range(world))}
    for r in range(rows):
        groups["tp" if same_names else f"{1 + r}", r] = [r * columns + c for c in range(columns)]
    for c in range(columns):
        groups["dp" if same_names else f"{1 + rows + c}", c] = [r * columns + c for r in range(rows)]
    return groups


def simulate(rng: random.Random, *, same_names: bool) -> tuple[list[Rank], int]:
    """Recorders at the moment when nothing moves any more, and the rank that stopped.

    Every rank makes the same calls: some in its row, some in its column, some with all. A call completes when all members
    have made it; the host may run ahead of completion by a few calls. The culprit stops before a call of its choice.
    """
    rows, columns = rng.choice([(2, 2), (2, 3), (3, 2), (2, 4)])
    groups = mesh(rows, columns, same_names=same_names)
    world = rows * columns
    kinds = [rng.choice(["all", "row", "column"]) for _ in range(rng.randint(3, 6))] * 3

    def group_of(rank: int, kind: str) -> tuple[str, int]:
        row, column = divmod(rank, columns)
        return {"all": ("0", 0), "row": ("tp" if same_names else f"{1 + row}", row), "column": ("dp" if same_names else f"{1 + rows + column}", column)}[kind]

    ahead = rng.choice([0, 0, 1, 4])
    culprit, stop = rng.randrange(world), rng.randrange(1, len(kinds))
    made = [0] * world  # calls made by each rank, along the program

    def number(rank: int, at: int) -> tuple[tuple[str, int], int]:
        key = group_of(rank, kinds[at])
        return key, 1 + sum(group_of(rank, k) == key for k in kinds[:at])

    def completed(rank: int, at: int) -> bool:
        key, seq = number(rank, at)
        return all(any(number(m, i) == (key, seq) for i in range(made[m])) for m in groups[key])

    moved = True
    while moved:
        moved = False
        for rank in rng.sample(range(world), world):
            limit = stop if rank == culprit else len(kinds)
            pending = sum(not completed(rank, i) for i in range(made[rank]))
            if made[rank] < limit and pending <= ahead:
                made[rank] += 1
                moved = True
    ranks = []
    for rank in range(world):
        recorder = Rank(rank, {name: members for (name, _), members in groups.items() if rank in members})
        for i in range(made[rank]):
            (name, _), seq = number(rank, i)
            done = completed(rank, i)
            recorder.call(seq, "completed" if done else "scheduled", pg=name, timed_out=not done and rng.random() < 0.5, at_s=i + rank * 1e-3)
        ranks.append(recorder)
    return ranks, culprit


def lose(rng: random.Random, ranks: list[Rank], folder: Path) -> None:
    """Writes the dumps; some get lost, cut or emptied, some come as JSON."""
    loss = rng.choice(["none", "none", "some", "culprit"])
    for r in ranks:
        if loss == "some" and rng.random() < 0.3:
            if rng.random() < 0.5:
                (folder / f"nccl_trace_rank_{r.rank}").write_bytes(b"")
            continue
        r.write(folder, as_json=rng.random() < 0.3)


@pytest.mark.parametrize("same_names", [False, True])
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(s, marks=pytest.mark.slow) for s in range(12, 200))])
def test_no_innocent_is_named(tmp_path: Path, seed: int, same_names: bool) -> None:
    rng = random.Random(seed * 2 + same_names)
    ranks, culprit = simulate(rng, same_names=same_names)
    whole = rng.random() < 0.5
    if whole:
        for r in ranks:
            r.write(tmp_path)
    else:
        lose(rng, ranks, tmp_path)
    with open_job(str(tmp_path)) as job:
        found = job.primary
    if found is None:
        assert not whole or all(e["retired"] and e["state"] == "completed" for r in ranks for e in r.entries)
        return
    assert found["initiating_ranks"] in ([], [culprit])
    if whole:
        assert found["initiating_ranks"] == [culprit]


def tell(rng: random.Random, ranks: list[Rank]) -> dict[int, list[str]]:
    """What watchdogs print at that moment: a timeout and the status of each group with a pending call, else the dump signal."""
    lines: dict[int, list[str]] = {}
    silent = rng.choice([0.0, 0.0, 0.2])
    for r in ranks:
        mine: list[str] = []
        for pg, members in r.groups.items():
            calls = [e for e in r.entries if e["process_group"][0] == pg]
            pending = [e for e in calls if e["state"] != "completed"]
            if pending:
                mine += timeout(r.rank, pending[0]["collective_seq_id"], len(calls), pg, members.index(r.rank), "default_pg" if pg == "0" else "mesh")
        default = [e for e in r.entries if e["process_group"][0] == "0"]
        done = sum(e["state"] == "completed" for e in default)
        lines[r.rank] = [] if rng.random() < silent else mine or signal(r.rank, len(default), done)
    return lines


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(s, marks=pytest.mark.slow) for s in range(12, 150))])
def test_no_innocent_is_named_from_words(tmp_path: Path, seed: int) -> None:
    rng = random.Random(1000 + seed)
    ranks, culprit = simulate(rng, same_names=False)
    logs(tmp_path, tell(rng, ranks), world=len(ranks))
    with open_job(str(tmp_path)) as job:
        found = job.primary
    assert found is None or found["initiating_ranks"] in ([], [culprit])
