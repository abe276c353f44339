"""The label of a simulated incident: the truth, and whether what survived is enough to know it.

Decided from the simulation and the losses, never from what an engine says. The question is a careful reader's: do the
surviving lines leave only one rank? Where they do not, naming the true rank is luck but not wrong, anything else is.
"""

from __future__ import annotations

from typing import Any

from tests.simulator.cluster import Job
from tests.simulator.faults import Truth
from tests.simulator.layouts import LogFile
from tests.simulator.tape import Line


class Survivors:
    """What is left, as a reader sees it."""

    def __init__(self, job: Job, before: dict[str, LogFile], after: dict[str, LogFile]) -> None:
        self.job = job
        self.proofs: dict[str, list[tuple[LogFile, Line]]] = {}
        self.spoken: set[int] = set()  # ranks with a surviving line that can be told to be theirs
        for f in after.values():
            for line in f.surviving():
                if line.proof:
                    self.proofs.setdefault(line.proof, []).append((f, line))
                if line.writer[0] == "rank" and f.tells_rank:
                    self.spoken.add(line.writer[1])
        self.damaged: set[int] = set()  # ranks that lost lines
        for path, f in before.items():
            left = after.get(path)
            if left is None or left.cut is not None:
                self.damaged |= {line.writer[1] for _, line in f.lines if line.writer[0] == "rank"}
        self.launchers_whole = all(p in after and after[p].cut is None for p, f in before.items() if any(line.writer[0] in ("agent", "srun") for _, line in f.lines))
        self.lost_something = set(after) != set(before) or any(f.cut is not None for f in after.values())

    def has(self, proof: str) -> bool:
        return proof in self.proofs

    def attributed(self, proof: str, rank: int) -> bool:
        """A line whose writer can be told: by file, by label, by the rank in the text."""
        marks = (f"[rank{rank}]", f"[Rank {rank}]", f"rank={rank}/")
        return any(f.tells_rank or any(m in line.text for m in marks) for f, line in self.proofs.get(proof, []))

    def victims(self) -> set[int]:
        """Ranks with a surviving complaint that can be told apart."""
        return {r for r in range(self.job.world) if self.attributed(f"victim:{r}", r)}

    def pid_known(self, rank: int) -> bool:
        """Whether a pid leads to the rank: launchers' tables, DeepSpeed's spawn lines, NCCL's Init lines."""
        if self.job.launcher == "deepspeed":
            return self.has("mapping")
        return (
            self.has(f"exit:{rank}")
            and self.job.launcher == "torchrun"
            or any(line.writer == ("rank", rank) and "busId" in line.text for _, line in self.proofs.get("identity", []))
        )


def _by_elimination(s: Survivors, ranks: list[int]) -> bool:
    """All others complain, the suspects' own logs are whole and hold no complaint."""
    return not (set(ranks) & s.damaged) and s.victims() == set(range(s.job.world)) - set(ranks)


def answerable(job: Job, truth: Truth, s: Survivors) -> bool:
    """Whether the surviving evidence leaves only the true answer."""
    if truth.shows == "nobody":
        return True
    ranks, r = truth.ranks, truth.ranks[0]
    own_exit = s.has(f"exit:{r}") and job.launcher != "deepspeed"
    if truth.shows == "words":
        return s.attributed("own", r) or (s.has("own") and own_exit)
    if truth.shows == "death":
        told = s.attributed("own", r) or own_exit or (s.has(f"kernel:{r}") and s.pid_known(r))
        return told or _by_elimination(s, ranks)
    if truth.shows == "silence":
        behind = s.attributed(f"status:{r}", r) and bool(s.victims() - {r})
        return behind or s.attributed("own", r) or _by_elimination(s, ranks)
    if truth.shows == "vote":
        return r in s.victims() and len(s.victims()) >= 4
    if truth.shows == "device":
        mapped = s.has(f"kernel:{r}") and any(line.writer == ("rank", r) and "busId" in line.text for _, line in s.proofs.get("identity", []))
        return s.attributed("own", r) or mapped
    if truth.shows == "link":
        return any(line.writer[0] == "rank" for _, line in s.proofs.get(f"link:{job.procs[r].host.index}", [])) and not s.lost_something
    if truth.shows == "node":
        seen = set(ranks) <= s.spoken and job.launcher == "torchrun"  # a lost host whose ranks never printed leaves no trace
        return seen and not s.lost_something and s.victims() >= set(range(job.world)) - set(ranks)
    if truth.shows == "nan":
        others = {p for p in s.proofs if p.startswith("step:")} - {f"step:{r}"}
        return s.attributed(f"nan:{r}", r) and bool(others) and not s.lost_something
    if truth.shows == "unseen":
        named = any(p.startswith("named:") for p in s.proofs)
        return named or (s.has("count") and not s.lost_something)
    raise ValueError(truth.shows)


def label(seed: int, job: Job, truth: Truth, s: Survivors) -> dict[str, Any]:
    """The fields of expected.toml (contract: DESIGN 6)."""
    known = answerable(job, truth, s)
    ranks = sorted(truth.ranks)
    if truth.acceptable_ranks:
        ranks = sorted(truth.acceptable_ranks)
    out: dict[str, Any] = {
        "id": f"sim-{job.world}-{seed}", "origin": "synthetic", "fault": truth.kind, "incident": truth.incident, "world_size": job.world,
        "initiating_ranks": ranks, "rank_answerable": known, "failure_class": truth.failure_class,
        "acceptable_classes": [truth.failure_class, *truth.also], "class_answerable": known and not s.lost_something and truth.shows not in ("death", "node", "nan"),
        "collateral_ranks": [] if not ranks or not truth.incident else [x for x in range(job.world) if x not in ranks],
    }  # fmt: skip
    if not known:
        out["acceptable_ranks"] = ranks
        if truth.shows == "device" and s.has(f"kernel:{truth.ranks[0]}"):  # the kernel's line names the machine to drain
            out["acceptable_ranks"] = [p.rank for p in job.on(job.procs[truth.ranks[0]].host.index)]
    return out
