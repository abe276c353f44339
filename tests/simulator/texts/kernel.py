"""Kernel log of a host, ``dmesg -T`` layout (reference: layouts.md 4.1, 4.3, 4.4)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulator.cluster import Job
from tests.simulator.tape import Happening, Line


def _line(job: Job, h: Happening, text: str, proof: str = "", after: float = 0.0) -> Line:
    now = job.hosts[h.who[1]].local(h.t + after)
    return Line(h.t + after, h.who, f"[{now:%a %b} {now.day:2d} {now:%H:%M:%S %Y}] {text}", "err", proof, h.attempt)


def oom_kill(job: Job, h: Happening) -> Iterator[Line]:
    p = job.procs[h.data["rank"]]
    yield _line(job, h, "python3.11 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")
    yield _line(
        job,
        h,
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/slurm/job_4911,task_memcg=/slurm/job_4911,task=python3.11,pid={p.pid},uid=1000",
    )
    yield _line(
        job,
        h,
        f"Memory cgroup out of memory: Killed process {p.pid} (python3.11) total-vm:412331204kB, anon-rss:198222100kB, file-rss:81236kB, shmem-rss:0kB, UID:1000 pgtables:412000kB oom_score_adj:0",
        f"kernel:{p.rank}",
    )


def segfault(job: Job, h: Happening) -> Iterator[Line]:
    p = job.procs[h.data["rank"]]
    yield _line(
        job, h, f"pt_main_thread[{p.pid}]: segfault at 8 ip 00007f4c1a2b3c4d sp 00007ffd2a3b4c50 error 4 in libtorch_cuda.so[7f4c10000000+5a2c1000]", f"kernel:{p.rank}"
    )


def xid(job: Job, h: Happening) -> Iterator[Line]:
    """Chains of one fault: fallen off the bus, or an uncontained memory error."""
    p = job.procs[h.data["rank"]]
    bus = f"PCI:0000:{p.pci}:00"
    for code, text in h.data["chain"]:
        owner = "" if code in (79, 154) else f"pid={p.pid}, name=python3.11, "
        yield _line(job, h, f"NVRM: Xid ({bus}): {code}, {owner}{text}", f"kernel:{p.rank}" if code in (48, 79, 95) else "")


def port_down(job: Job, h: Happening) -> Iterator[Line]:
    yield _line(job, h, f"mlx5_core 0000:53:00.0 mlx5_{h.data['port']}: Port: 1 Link DOWN", f"link:{h.who[1]}")


def idle(job: Job, h: Happening) -> Iterator[Line]:
    """What stands in every healthy kernel log."""
    yield _line(job, h, "perf: interrupt took too long (2511 > 2500), lowering kernel.perf_event_max_sample_rate to 79500")
    yield _line(job, h, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@U16-I3-A14-4-2)", after=1.0)


RENDER = {"oom_kill": oom_kill, "segfault": segfault, "xid": xid, "port_down": port_down, "kernel_idle": idle}
XID_CHAINS = {
    "bus": ((79, "GPU has fallen off the bus."), (154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")),
    "ecc": ((48, "DBE (double bit error) detected on GPU"), (95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"), (45, "Ch 00000008")),
}
