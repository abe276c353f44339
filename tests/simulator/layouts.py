"""Into which files the lines go (reference: layouts.md 1.1 to 1.3). A layout maps a line to a path and a prefix."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

from tests.simulator.cluster import Job
from tests.simulator.tape import Line

LAYOUTS = {"torchrun": ("tree", "shared-tree", "tee", "console"), "srun": ("label", "per-task", "per-rank"), "deepspeed": ("pdsh", "each-rank")}


@dataclass(slots=True)
class LogFile:
    """A file as it will be written. ``lines`` pairs each line with its prefix; ``tells_rank`` says that path or prefix name the writer's rank or its place on the host."""

    path: str
    lines: list[tuple[str, Line]] = field(default_factory=list)
    raw: bytes | None = None
    tells_rank: bool = True
    cut: int | None = None  # bytes kept, None for a whole file

    def data(self) -> bytes:
        if self.raw is not None:
            return self.raw
        text = "".join(f"{prefix}{line.text}\n" for prefix, line in self.lines).encode()
        return text if self.cut is None else text[: self.cut]

    def surviving(self) -> list[Line]:
        """Lines that are whole after a cut."""
        if self.cut is None:
            return [line for _, line in self.lines]
        out, size = [], 0
        for prefix, line in self.lines:
            size += len(f"{prefix}{line.text}\n".encode())
            if size > self.cut:
                break
            out.append(line)
        return out


def place(job: Job, layout: str, lines: list[Line], error_files: dict[tuple[int, int], str], rnd: random.Random) -> dict[str, LogFile]:
    """Distributes rendered lines over files.

    Args:
        error_files: (attempt, rank) -> text of an error.json.
    """
    suffix = ["".join(rnd.choice("abcdefghijklmnopqrstuvwxyz0123456789_") for _ in range(8)) for _ in job.hosts]
    stamp = f"{job.hosts[0].local(job.start):%Y%m%d%H%M%S}"
    files: dict[str, LogFile] = {}
    width = len(str(job.world - 1))

    def tree(rank: int, attempt: int, name: str) -> str:
        p = job.procs[rank]
        top = f"{p.host.name}/" if layout == "tree" else ""
        return f"{top}{job.run_id}_{suffix[p.host.index]}/attempt_{attempt}/{p.local}/{name}"

    def target(line: Line) -> tuple[str, str, bool]:
        kind, n = line.writer
        if kind == "kernel":
            return f"dmesg-{job.hosts[n].name}.txt", "", True
        host = job.procs[n].host if kind == "rank" else job.hosts[n if kind == "agent" else 0]
        if layout in ("tree", "shared-tree"):
            if kind == "rank":
                return tree(n, line.attempt, "stdout.log" if line.stream == "out" else "stderr.log"), "", True
            return (f"{host.name}/torchrun.log" if layout == "tree" else f"torchrun-{host.name}.log"), "", True
        if layout in ("tee", "console"):
            return f"{host.name}.log", (f"[default{job.procs[n].local}]:" if layout == "tee" and kind == "rank" else ""), layout == "tee"
        if layout == "label":
            return "slurm-4911.out", (f"{n:>{width}}: " if kind == "rank" else ""), True
        if layout in ("per-task", "per-rank"):
            name = f"train-4911-{n}.out" if layout == "per-task" else f"rank_{n}.log"
            return (name if kind == "rank" else "slurm-4911.out"), "", True
        if layout == "each-rank" and kind == "rank":
            return f"{stamp}_rank{n}.log", "", True
        return "console.log", (f"{host.name}: " if len(job.hosts) > 1 else ""), False

    at: dict[str, int] = defaultdict(int)
    ordered = sorted(enumerate(lines), key=lambda x: (x[1].t, x[0]))
    for _, line in ordered:
        path, prefix, tells = target(line)
        if path not in files:
            files[path] = LogFile(path, tells_rank=tells)
        files[path].lines.append((prefix, line))
        at[path] += 1
    if layout in ("tree", "shared-tree"):
        for p in job.procs:  # torchrun opens both files before the worker starts
            for name in ("stdout.log", "stderr.log"):
                files.setdefault(tree(p.rank, 0, name), LogFile(tree(p.rank, 0, name)))
        for (attempt, rank), text in error_files.items():
            path = tree(rank, attempt, "error.json")
            files[path] = LogFile(path, raw=text.encode())
    if layout in ("per-task", "per-rank"):
        for p in job.procs:  # srun opens the file of every task
            path = f"train-4911-{p.rank}.out" if layout == "per-task" else f"rank_{p.rank}.log"
            files.setdefault(path, LogFile(path))
    return files


def files_of(job: Job, files: dict[str, LogFile], rank: int) -> list[str]:
    """Paths that hold lines of a rank alone."""
    own = [path for path, f in files.items() if f.lines and all(line.writer == ("rank", rank) for _, line in f.lines)]
    local = f"/{job.procs[rank].local}/error.json"
    folders = {path.rsplit("/", 2)[0] for path in own if "/attempt_" in path}
    return own + [path for path in files if path.endswith(local) and path.rsplit("/", 2)[0] in folders]
