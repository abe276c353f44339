"""Writes the logs of small failing jobs: what each rank says, in the layouts in which such logs lie on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from correlator import engine

T0 = datetime(2026, 5, 3, 10, 0, 0, tzinfo=UTC)
GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/"
ELASTIC = "torch/distributed/elastic/multiprocessing/api.py"
CLOSED = (
    "RuntimeError: "
    + GLOO
    + "pair.cc:553] Connection closed by peer [127.0.0.1]:{port}. This is typically caused by a remote worker crashing. Check the logs of other workers"
)
RESET = (
    "RuntimeError: "
    + GLOO
    + "pair.cc:537] Read error [127.0.0.1]:{port}: Connection reset by peer. This is typically caused by a remote worker hanging or bugs in the application"
)
RECV = "RuntimeError: " + GLOO + "unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete"
SEND = "RuntimeError: " + GLOO + "unbound_buffer.cc:129] Timed out waiting 30000ms for send operation to complete"


@dataclass
class Job:
    """Collects (second, rank, line); rank None is the launcher."""

    world: int = 4
    lines: list[tuple[float, int | None, str]] = field(default_factory=list)

    def say(self, rank: int, at: float, text: str, level: str = "INFO") -> None:
        """A line of Python's logging."""
        when = (T0 + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        self.raw(rank, at, f"{when} {level} train: {text}")

    def raw(self, rank: int | None, at: float, *texts: str) -> None:
        """Lines as they are."""
        self.lines += [(at, rank, t) for t in texts]

    def agent(self, at: float, level: str, text: str, where: str = ELASTIC) -> None:
        """A line of torchrun's agent."""
        self.raw(None, at, f"{level}{(T0 + timedelta(seconds=at)).strftime('%m%d %H:%M:%S.%f')} 71 {where}:1002] {text}")

    def begin(self, at: float = 0, ranks: range | list[int] | None = None) -> None:
        """Every rank introduces itself."""
        for r in ranks if ranks is not None else range(self.world):
            self.say(r, at, f"initialized rank={r} world_size={self.world} local_rank={r}")

    def train(self, first: int, last: int, at: float, ranks: range | list[int] | None = None) -> None:
        """Steps of one second each, on all ranks."""
        for n in range(first, last + 1):
            for r in ranks if ranks is not None else range(self.world):
                self.say(r, at + n - first, f"step {n}/400 loss={8 / (n + 1):.4f} grad_norm=0.41")

    def caught(self, rank: int, at: float, words: str, error: str, *, logged: bool = True) -> None:
        """A handled exception, by ``logging.exception`` or ``traceback.print_exc``."""
        if logged:
            self.say(rank, at, words, "ERROR")
        self.raw(rank, at, "Traceback (most recent call last):", '  File "/workspace/data.py", line 88, in fetch', "    return self._open(key)", error)
        if not logged:
            self.say(rank, at, words, "WARNING")

    def uncaught(self, rank: int, at: float, error: str) -> None:
        """An exception that ends the process, as c10d's excepthook prints it."""
        self.raw(rank, at, *(f"[rank{rank}]: {t}" for t in ("Traceback (most recent call last):", '  File "/workspace/train.py", line 465, in <module>', "    main()",
                                                            '  File "/workspace/train.py", line 354, in train', "    loss.backward()", error)))  # fmt: skip

    def peers_lose(self, gone: int, at: float, text: str = CLOSED) -> None:
        """Every other rank dies of the lost peer."""
        for r in range(self.world):
            if r != gone:
                self.uncaught(r, at + 0.1 * r, text.format(port=40_000 + gone))

    def records(self, at: float, first: int, code: int = 1) -> None:
        """The agent sees one process leave and stops the others."""
        for r in range(self.world):
            if r != first:
                self.agent(at, "W", f"Sending process {700 + r} closing signal SIGTERM")
        self.agent(at + 0.5, "E", f"failed (exitcode: {code}) local_rank: {first} (pid: {700 + first}) of binary: /opt/venv/bin/python3")

    # ---- layouts --------------------------------------------------------------------------------
    def per_rank(self, folder: Path, name: str = "rank_{}.log", mode: str = "a") -> Path:
        """One file a rank and, if the launcher spoke, its own."""
        folder.mkdir(parents=True, exist_ok=True)
        for r in [*range(self.world), None]:
            mine = [t for _, who, t in sorted(self.lines, key=lambda x: x[0]) if who == r]
            if mine or r is not None:
                with (folder / ("torchrun.log" if r is None else name.format(r))).open(mode) as f:
                    f.writelines(t + "\n" for t in mine)
        return folder

    def console(self, folder: Path, prefix: str = "[default{}]:") -> Path:
        """All in one file, in the order of time, as ``torchrun --tee 3`` or ``srun --label`` print it; an empty prefix for none."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "console.log").open("a") as f:
            f.writelines((t if r is None or not prefix else prefix.format(r) + t) + "\n" for _, r, t in sorted(self.lines, key=lambda x: x[0]))
        return folder

    def written(self, folder: Path, layout: str) -> Path:
        """In one of the layouts by name: files, tee, label."""
        return self.per_rank(folder) if layout == "files" else self.console(folder, {"tee": "[default{}]:", "label": "{}: "}[layout])


def diagnose(logs: Path) -> dict[str, Any]:
    """The document of a directory of logs."""
    store, result = engine.run([str(logs)])
    Path(store).unlink()
    return result.document


def primary(document: dict[str, Any]) -> dict[str, Any]:
    """The incident that explains the others."""
    assert document["incidents"], "no incident was found"
    return document["incidents"][document["primary"]]
