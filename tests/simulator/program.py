"""The communication of one training step, and how far every rank gets when some of them stop in it.

The host enqueues work up to a point where it needs a result and blocks there; the GPU executes in that order; a
collective ends when all members have reached it. So one absent rank leaves in every group of its peers a first work
that never ends, also in groups of which it is no member.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulator.cluster import Job


@dataclass(frozen=True, slots=True)
class Op:
    """One communication call. ``group`` indexes Job.groups; ``peer`` is the global rank of a send or receive."""

    group: int
    kind: str
    numel_in: int
    numel_out: int
    waits: bool = False  # the host needs its result before it goes on
    peer: int | None = None


def step_program(job: Job, rank: int) -> list[Op]:
    """What one rank calls in one step. Data parallel: gradient buckets and a loss; 3d: Megatron's order of calls."""
    if job.parallel == "data":
        buckets = (26_214_400, 13_107_200, 6_291_456, 1_048_576)
        return [*(Op(0, "ALLREDUCE", n, n) for n in buckets), Op(0, "ALLREDUCE", 1, 1, waits=True)]
    by_role = {job.groups[g].role: g for g in job.procs[rank].groups}
    tp, dp, pp = by_role["tensor"], by_role["data"], by_role.get("pipeline")
    order = job.groups[pp].ranks if pp is not None else (rank,)
    stage = order.index(rank)
    size, layers = 16_777_216, 3
    ops = [Op(tp, "BROADCAST", 4, 4)]
    if pp is not None and stage > 0:
        ops.append(Op(pp, "RECV", size, size, peer=order[stage - 1]))
    ops += [Op(tp, "ALLREDUCE", size, size)] * layers
    if pp is not None and stage < len(order) - 1:
        ops += [Op(pp, "SEND", size, size, peer=order[stage + 1]), Op(pp, "RECV", size, size, peer=order[stage + 1])]
    ops += [Op(tp, "ALLREDUCE", size, size)] * layers
    if pp is not None and stage > 0:
        ops.append(Op(pp, "SEND", size, size, peer=order[stage - 1]))
    ways = len(job.groups[dp].ranks)
    ops += [Op(dp, "REDUCE_SCATTER", 8_388_608 * ways, 8_388_608), Op(0, "ALLREDUCE", 1, 1, waits=True), Op(dp, "ALLGATHER", 8_388_608, 8_388_608 * ways)]
    return ops


@dataclass(slots=True)
class Reach:
    """How far the ranks get. ``limit``: index of the first op that never completes; ``enqueued``: number of ops that the host called."""

    programs: list[list[Op]]
    limit: list[int]
    enqueued: list[int]

    def first_pending(self, rank: int, group: int) -> int | None:
        """Index of the first called and never completed op of a rank in a group."""
        for i in range(self.limit[rank], self.enqueued[rank]):
            if self.programs[rank][i].group == group:
                return i
        return None

    def counts(self, rank: int, group: int) -> tuple[int, int]:
        """(called, completed) ops of this step in a group."""
        ops = self.programs[rank]
        called = sum(1 for o in ops[: self.enqueued[rank]] if o.group == group)
        return called, sum(1 for o in ops[: min(self.limit[rank], self.enqueued[rank])] if o.group == group)


def reach(job: Job, stops: Mapping[int, int]) -> Reach:
    """Propagates the absence of some ranks. ``stops``: rank -> number of ops that it still calls in the failing step."""
    shared = step_program(job, 0) if job.parallel == "data" else None
    programs = [shared if shared is not None else step_program(job, r) for r in range(job.world)]
    place: dict[tuple, list[tuple[int, int]]] = defaultdict(list)
    keys: list[list[tuple]] = []
    for r, ops in enumerate(programs):
        n: dict[tuple, int] = defaultdict(int)
        mine = []
        for i, op in enumerate(ops):
            name: tuple = (op.group,) if op.peer is None else (op.group, *((r, op.peer) if op.kind == "SEND" else (op.peer, r)))
            key = (*name, n[name])
            n[name] += 1
            mine.append(key)
            place[key].append((r, i))
        keys.append(mine)
    limit = [len(p) for p in programs]
    work = list(stops)
    for r, k in stops.items():
        limit[r] = min(limit[r], k)
    seen: set[tuple] = set()
    while work:
        r = work.pop()
        for i in range(limit[r], len(programs[r])):
            key = keys[r][i]
            if key in seen:
                continue
            seen.add(key)
            for m, at in place[key]:
                if at < limit[m]:
                    limit[m] = at
                    work.append(m)
    enqueued = []
    for r, ops in enumerate(programs):
        if r in stops:
            enqueued.append(stops[r])
            continue
        wait = next((i for i in range(limit[r], len(ops)) if ops[i].waits), len(ops) - 1)
        enqueued.append(wait + 1)
    return Reach(programs, limit, enqueued)
