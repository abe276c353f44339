"""The job as it was started: hosts with their clocks, ranks, process groups, software versions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

#: PCI buses of the eight GPUs of one board, as kernel and NCCL name them (common HGX boards)
PCI_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
TORCH_VERSIONS = ("2.1", "2.4", "2.5", "2.6", "2.7", "2.8", "2.10", "2.13")


@dataclass(frozen=True, slots=True)
class Host:
    """One machine. ``offset_s`` and ``drift`` are what its clock is wrong by, ``zone_min`` its zone in minutes east of UTC."""

    index: int
    name: str
    ip: str
    offset_s: float
    drift: float
    zone_min: int

    def clock(self, t: float) -> float:
        """What this host believes the time to be, in epoch seconds, at true time ``t``."""
        return t + self.offset_s + self.drift * (t % 86400)

    def local(self, t: float) -> datetime:
        """The wall time that its software prints: local zone, without a zone mark."""
        return datetime.fromtimestamp(self.clock(t), UTC).replace(tzinfo=None) + timedelta(minutes=self.zone_min)


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: ``guid`` is its name on all members, ``desc`` what logs print, ``role`` what it is for, ``ranks`` global ranks in group order."""

    guid: int
    desc: str
    role: str  # default, data, tensor, pipeline
    ranks: tuple[int, ...]


@dataclass(slots=True)
class Proc:
    """One worker process."""

    rank: int
    local: int
    host: Host
    pid: int
    pci: str
    groups: tuple[int, ...] = ()  # indices into Job.groups, in order of creation


@dataclass(slots=True)
class Job:
    """Everything that was decided when the job was started."""

    world: int
    hosts: list[Host]
    procs: list[Proc]
    groups: list[Group]
    torch: tuple[int, int]
    backend: str  # nccl, gloo
    launcher: str  # torchrun, srun, deepspeed
    parallel: str  # data, 3d
    timeout_s: float
    start: float
    step_s: float
    per_host: int
    record: bool  # the script's entry point is wrapped by torchelastic's @record
    net: str  # socket, ib: how NCCL crosses hosts
    nccl_debug: str  # '', WARN, INFO
    shared_store: bool  # torchrun keeps the rendezvous store in the agent of the first host
    agent_pids: list[int] = field(default_factory=list)
    run_id: str = "none"

    def on(self, host: int) -> list[Proc]:
        """Workers of one host."""
        return self.procs[host * self.per_host : (host + 1) * self.per_host]

    @property
    def nccl_version(self) -> str:
        """The NCCL that this release of PyTorch ships (torch wheels' nvidia-nccl dependency)."""
        return {1: "2.18.1", 4: "2.20.5", 5: "2.21.5", 6: "2.21.5", 7: "2.26.2", 8: "2.27.3", 10: "2.27.5", 13: "2.29.3"}[self.torch[1]]


def build(rnd: random.Random, world: int) -> Job:
    """Draws a job of ``world`` ranks."""
    per_host = min(8, max(2, world // rnd.choice((1, 2, 2)))) if world <= 16 else 8
    count = world // per_host
    zone = rnd.choice((0, 0, 0, 60, -480, 330))
    mixed = count > 1 and rnd.random() < 0.1  # one host that somebody left on another zone
    style = rnd.choice(("gpu-n{:03d}", "node-{:02d}", "hx{:04d}", "ip-10-1-{:d}-20", "cn{:d}"))
    spread = rnd.choice((0.0005, 0.004, 0.02, 0.5))  # most clocks agree to milliseconds, some fleets do not
    first = rnd.randint(1, 60)
    hosts = [
        Host(i, style.format(first + i), f"10.1.{(first + i) // 200}.{10 + (first + i) % 200}", rnd.uniform(-spread, spread), rnd.uniform(-2e-6, 2e-6),
             zone + (60 if mixed and i == count - 1 else 0))
        for i in range(count)
    ]  # fmt: skip
    procs = []
    for r in range(world):
        host, local = hosts[r // per_host], r % per_host
        if local == 0:
            base = rnd.randint(900, 60000)
        procs.append(Proc(r, local, host, base + 7 * local + rnd.randint(0, 6), PCI_BUSES[local]))
    backend = "nccl" if world > 64 or rnd.random() < 0.7 else "gloo"
    torch = rnd.choice(TORCH_VERSIONS if backend == "nccl" else TORCH_VERSIONS[1:])
    minor = int(torch.split(".")[1])
    parallel = "3d" if backend == "nccl" and world >= 8 and rnd.random() < 0.5 else "data"
    job = Job(
        world=world, hosts=hosts, procs=procs, groups=[], torch=(2, minor), backend=backend,
        launcher=rnd.choice(("torchrun", "torchrun", "torchrun", "srun", "deepspeed" if backend == "nccl" else "srun")), parallel=parallel,
        timeout_s=(1800.0 if minor == 1 else rnd.choice((600.0, 600.0, 1800.0, 300.0))) if backend == "nccl" else rnd.choice((30.0, 60.0, 300.0, 1800.0)),
        start=datetime(2026, rnd.randint(1, 11), rnd.randint(1, 28), rnd.randint(0, 23), rnd.randint(0, 59), 7, tzinfo=UTC).timestamp(),
        step_s=rnd.choice((0.3, 0.8, 2.1, 6.0)), per_host=per_host, record=rnd.random() < 0.5, net=rnd.choice(("socket", "ib")),
        nccl_debug=rnd.choice(("", "WARN", "INFO")) if backend == "nccl" else "", shared_store=rnd.random() < 0.7,
        agent_pids=[rnd.randint(400, 890) for _ in hosts], run_id=rnd.choice(("none", "job7", "llm")),
    )  # fmt: skip
    _groups(job, rnd)
    return job


def _groups(job: Job, rnd: random.Random) -> None:
    """Default group, and for 3d parallel jobs tensor (inside a host), pipeline and data groups (Megatron's order: tp fastest, pp slowest)."""
    job.groups.append(Group(0, "default_pg", "default", tuple(range(job.world))))
    if job.parallel == "3d":
        tp = min(job.per_host, rnd.choice((2, 4)))
        rest = job.world // tp
        pp = rnd.choice([p for p in (1, 2, 4) if rest % p == 0 and rest // p >= 2] or [1])
        dp = rest // pp

        def at(p: int, d: int, t: int) -> int:
            return (p * dp + d) * tp + t

        guid = 1
        made = [("data", tuple(at(p, d, t) for d in range(dp))) for p in range(pp) for t in range(tp)]
        made += [("tensor", tuple(at(p, d, t) for t in range(tp))) for p in range(pp) for d in range(dp)]
        if pp > 1:
            made += [("pipeline", tuple(at(p, d, t) for p in range(pp))) for d in range(dp) for t in range(tp)]
        names = {"data": "DATA_PARALLEL_GROUP", "tensor": "TENSOR_MODEL_PARALLEL_GROUP", "pipeline": "PIPELINE_MODEL_PARALLEL_GROUP"}
        for role, ranks in made:
            job.groups.append(Group(guid, names[role] if job.torch >= (2, 5) else "undefined", role, ranks))
            guid += 1
    members: dict[int, list[int]] = {r: [] for r in range(job.world)}
    for i, g in enumerate(job.groups):
        for r in g.ranks:
            members[r].append(i)
    for p in job.procs:
        p.groups = tuple(members[p.rank])
