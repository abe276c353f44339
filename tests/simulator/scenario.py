"""One incident from a seed: job, fault, decoys, layout, losses, label."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.simulator import decoys, layouts, losses
from tests.simulator.cluster import Job, build
from tests.simulator.faults import FAULTS, Truth
from tests.simulator.label import Survivors, label
from tests.simulator.reaction import Reaction
from tests.simulator.tape import Happening
from tests.simulator.texts import render, trainer


@dataclass(slots=True)
class Scenario:
    """A finished simulation. ``files`` maps paths below ``logs/`` to contents."""

    seed: int
    size: int
    job: Job
    truth: Truth
    layout: str
    style: str
    loss: str
    files: dict[str, bytes]
    label: dict[str, Any]

    def describe(self) -> str:
        """One line to reproduce and recognise it by."""
        j = self.job
        return (f"scenario({self.seed}, {self.size}, {self.truth.kind!r}): {j.world} ranks, {len(j.hosts)} hosts, torch {j.torch[0]}.{j.torch[1]} {j.backend}, {j.launcher}/{self.layout}, "
                f"{self.style}, {j.parallel}, loss {self.loss or 'none'}, truth {self.truth.ranks[:4]}, {'answerable' if self.label['rank_answerable'] else 'not answerable'}")  # fmt: skip

    def write(self, folder: Path) -> Path:
        """Writes ``logs/`` and ``expected.toml`` below ``folder``. Returns the logs directory."""
        for path, data in sorted(self.files.items()):
            target = folder / "logs" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "expected.toml").write_text("".join(f"{k} = {_toml(v)}\n" for k, v in self.label.items()), encoding="utf-8")
        return folder / "logs"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def scenario(seed: int, size: int, kind: str | None = None, *, loss: str | None = None, shift: dict[int, float] | None = None) -> Scenario:
    """Simulates one job.

    Args:
        seed: decides everything that is not given. size: number of ranks. kind: a name of ``faults.FAULTS``, drawn if None.
        loss: a name of ``losses.LOSSES``, ``""`` for none, drawn if None (half of the incidents lose nothing).
        shift: host index -> seconds by which its clock is set wrong on top; nothing else changes.

    Returns:
        The scenario; the same arguments give the same bytes.
    """
    rnd = random.Random(f"{seed}/{size}/{kind}")
    names = [kind] if kind else rnd.sample(sorted(FAULTS), len(FAULTS))
    while True:  # draw jobs until the fault can happen in one
        job = build(rnd, size)
        fault = next((FAULTS[n] for n in names if FAULTS[n].fits(job)), None)
        if fault is not None:
            break
    for index, seconds in (shift or {}).items():
        host = replace(job.hosts[index], offset_s=job.hosts[index].offset_s + seconds)
        job.hosts[index] = host
        for p in job.on(index):
            p.host = host
    style = rnd.choice(trainer.STYLES)
    restart = job.launcher == "torchrun" and len(job.hosts) == 1 and fault.name in ("json", "key-error", "shape", "sigkill") and rnd.random() < 0.4
    story = Reaction(job, rnd, style, restarts=restart)
    truth = fault.play(story)
    fault_at = story.began or story.now
    story.run()
    decoys.scatter(story, rnd, truth.ranks, rnd.choice((0, 0, 1, 3, 8)))
    happenings, errors = story.happenings, {(0, r): t for r, t in story.error_files.items()}
    if restart:  # the agent starts everything again; the same rank meets the same data
        again = copy.deepcopy(job)
        for p in again.procs:
            p.pid += 400
        second = Reaction(again, rnd, style, attempt=1, start=story.now + 3)
        second.steps_done = 0
        second.begin()
        second.steps(3)
        second.blocks({truth.ranks[0]: 0})
        if fault.name == "sigkill":
            second.at(second.now + 0.2, second.ends, truth.ranks[0], -9)
        else:
            exception = story.exceptions[truth.ranks[0]]
            second.raises(second.now + 0.2, truth.ranks[0], exception[1], exception[2], proof="")
        second.run()
        lines = render(job, happenings) + render(again, second.happenings)
        errors |= {(1, r): t for r, t in second.error_files.items()}
    else:
        lines = render(job, happenings)
    if any(line.writer[0] == "kernel" for line in lines) and len(job.hosts) <= 16 and rnd.random() < 0.5:
        lines += render(job, [Happening(job.start + 1, ("kernel", h.index), "kernel_idle") for h in job.hosts])
    layout = rnd.choice(layouts.LAYOUTS[job.launcher])
    before = layouts.place(job, layout, lines, errors, rnd)
    after = copy.copy(before)
    for path in after:
        after[path] = copy.copy(after[path])
    lost = ""
    if loss is None and truth.incident and rnd.random() < 0.45:
        loss = rnd.choice(losses.LOSSES)
    if loss and losses.lose(job, after, loss, truth.ranks, rnd):
        lost = loss
    # a log that ends before anything went wrong is no incident to diagnose
    if lost and not any(line.t >= fault_at and line.proof.split(":")[0] not in ("", "step", "identity", "mapping") for f in after.values() for line in f.surviving()):
        after, lost = before, ""
    survivors = Survivors(job, before, after)
    return Scenario(seed, size, job, truth, layout, style, lost, {p: f.data() for p, f in after.items()}, label(seed, job, truth, survivors))
