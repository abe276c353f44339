"""Line headers of PyTorch's two loggers, by release (reference: pytorch.md 1.1 and 1.2)."""

from __future__ import annotations

from tests.simulator.cluster import Host, Job, Proc


def c10(job: Job, proc: Proc, t: float, severity: str, source: str, line: int, *, initialised: bool = True) -> str:
    """The C++ logger. Up to 2.3 without time; from 2.4 the nine digits are the fraction of the monotonic clock, not of the wall clock."""
    minor = job.torch[1]
    rank = f"[rank{proc.rank}]:" if initialised and minor >= 2 else ""
    if minor < 4:
        return f"{rank}[{severity} {source}:{line}] "
    now = proc.host.local(t)
    mono = int(((t + 0.37 * (proc.host.index + 1)) % 1) * 1e9)
    return f"{rank}[{severity}{now.month * 100 + now.day} {now:%H:%M:%S}.{mono:09d} {source}:{line}] "


def python(job: Job, host: Host, pid: int, t: float, level: str, module: str, line: int) -> str:
    """The Python logger of torch.distributed (agents; workers add ``[rankN]:`` once initialised)."""
    minor, now = job.torch[1], host.local(t)
    if minor <= 2:
        return f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] {module.removesuffix('.py').replace('/', '.')}: [{ {'W': 'WARNING', 'E': 'ERROR', 'I': 'INFO'}[level] }] "
    number = pid if minor >= 5 else 140_000_000_000_000 + pid * 4096
    return f"{level}{now:%m%d} {now:%H:%M:%S}.{now.microsecond // 1000 * 1000:06d} {number} {module}:{line}] "


def logger(now_host: Host, t: float, level: str, origin: str) -> str:
    """DeepSpeed's and many trainers' layout (reference: deepspeed.md 2.1)."""
    now = now_host.local(t)
    return f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] [{level}] [{origin}] "
