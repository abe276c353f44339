"""What each piece of software writes about a happening: one module a piece, one function a happening."""

from __future__ import annotations

from collections.abc import Iterable

from tests.simulator.cluster import Job
from tests.simulator.tape import Happening, Line
from tests.simulator.texts import c10d, deepspeed, elastic, kernel, nccl, python, slurm, trainer

RENDER = {**c10d.RENDER, **deepspeed.RENDER, **elastic.RENDER, **kernel.RENDER, **nccl.RENDER, **python.RENDER, **slurm.RENDER, **trainer.RENDER}


def render(job: Job, happenings: Iterable[Happening]) -> list[Line]:
    """All lines, by time; of one moment in the order of the happenings."""
    ordered = sorted(happenings, key=lambda h: h.t)
    return [line for h in ordered for line in RENDER[h.what](job, h)]
