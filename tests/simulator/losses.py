"""What of the logs does not reach the reader: a lost file, a cut file, a lost host, a lost launcher log."""

from __future__ import annotations

import random

from tests.simulator.cluster import Job
from tests.simulator.layouts import LogFile, files_of

LOSSES = ("culprit-file", "other-file", "cut-culprit", "cut-other", "launcher", "kernel", "other-host", "culprit-host", "tail")


def lose(job: Job, files: dict[str, LogFile], loss: str, culprits: list[int], rnd: random.Random) -> bool:
    """Applies one loss in place. False where the layout has nothing of that kind to lose."""
    culprit = rnd.choice(culprits) if culprits else rnd.randrange(job.world)
    others = [r for r in range(job.world) if r not in (culprits or [culprit])]
    if loss in ("culprit-file", "other-file", "cut-culprit", "cut-other"):
        if not others and "other" in loss:
            return False
        own = files_of(job, files, culprit if "culprit" in loss else rnd.choice(others))
        if not own:
            return False
        for path in own:
            if loss.startswith("cut"):
                _cut(files[path], rnd)
            else:
                del files[path]
        return True
    if loss in ("launcher", "kernel"):
        wanted = ("agent", "srun") if loss == "launcher" else ("kernel",)
        gone = [p for p, f in files.items() if f.lines and all(line.writer[0] in wanted for _, line in f.lines)]
        for path in gone:
            del files[path]
        return bool(gone) and bool(files)
    if loss in ("other-host", "culprit-host"):
        host = job.procs[culprit].host.index
        if loss == "other-host":
            rest = [h.index for h in job.hosts if h.index not in {job.procs[c].host.index for c in (culprits or [culprit])}]
            if not rest:
                return False
            host = rnd.choice(rest)
        gone = [p for p, f in files.items() if _host(job, f) == host]
        if not gone or len(gone) == len(files):
            return False
        for path in gone:
            top = path.rsplit("/", 2)[0] if "/attempt_" in path else None
            for q in [q for q in files if q == path or (top and q.startswith(top + "/"))]:
                del files[q]
        return True
    largest = max(files.values(), key=lambda f: len(f.lines))
    if len(largest.lines) < 40:
        return False
    _cut(largest, rnd)
    return True


def _cut(f: LogFile, rnd: random.Random) -> None:
    """The end is missing, from somewhere in the last third; the last line is torn."""
    if f.raw is None and f.lines:
        size = len(f.data())
        f.cut = max(1, int(size * rnd.uniform(0.6, 0.98)))


def _host(job: Job, f: LogFile) -> int | None:
    """The host whose processes alone write this file."""
    hosts = {job.procs[line.writer[1]].host.index if line.writer[0] == "rank" else line.writer[1] if line.writer[0] in ("agent", "kernel") else -1 for _, line in f.lines}
    return hosts.pop() if len(hosts) == 1 and -1 not in hosts else None
