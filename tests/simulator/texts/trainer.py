"""What training programs print themselves: progress in several styles, activities, decoys.

Styles: ``logger`` and ``iso`` and ``asctime`` print on every rank with a time; ``plain`` on every rank without; ``megatron``
on the last rank only; ``hf`` on rank 0 only, without time and step (reference: deepspeed.md 9, layouts.md 1.7 and 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tests.simulator.cluster import Job
from tests.simulator.tape import Happening, Line
from tests.simulator.texts.headers import logger

STYLES = ("logger", "iso", "asctime", "plain", "megatron", "hf")
EVERY_RANK = ("logger", "iso", "asctime", "plain")


def head(job: Job, h: Happening, style: str, level: str = "INFO") -> str:
    """What the program's own logger puts before a message."""
    p = job.procs[h.who[1]]
    if style == "logger":
        return logger(p.host, h.t, level, "train.py:82:log_step") + f"[Rank {p.rank}] "
    if style == "iso":
        now = datetime.fromtimestamp(p.host.clock(h.t), UTC)
        return f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z | {level} | rank={p.rank}/{job.world} | "
    if style == "asctime":
        now = p.host.local(h.t)
        return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} {level} train: "
    return ""


def speaks(job: Job, style: str, rank: int) -> bool:
    """Whether a rank prints progress in this style."""
    return style in EVERY_RANK or (rank == 0 if style == "hf" else rank == job.world - 1)


def began(job: Job, h: Happening) -> Iterator[Line]:
    p, style = job.procs[h.who[1]], h.data["style"]
    if style in EVERY_RANK:
        yield Line(
            h.t, h.who, head(job, h, style) + f"initializing process group: rank={p.rank} world_size={job.world} backend={job.backend}", "err", "identity", h.attempt
        )


def step(job: Job, h: Happening) -> Iterator[Line]:
    d, style = h.data, h.data["style"]
    if not speaks(job, style, h.who[1]):
        return
    loss, norm, n = d["loss"], d["norm"], d["step"]
    shown = "nan" if loss != loss else f"{loss:.4f}"
    norms = "nan" if norm != norm else f"{norm:.3f}"
    if style in ("logger", "iso", "asctime"):
        text = f"step {n}/{d['total']} loss={shown} grad_norm={norms} lr=3.00e-04 step_time={d['took']:.3f}s data_time={d['data']:.3f}s"
    elif style == "plain":
        text = f"step {n} loss {shown} grad_norm {norms}"
    elif style == "hf":
        text = f"{{'loss': {shown}, 'grad_norm': {norms}, 'learning_rate': 2.99e-05, 'epoch': {n / 1000:.2f}}}"
    else:
        now = job.procs[h.who[1]].host.local(h.t)
        lm = "NAN" if loss != loss else f"{loss:.6E}"
        text = (f" [{now:%Y-%m-%d %H:%M:%S}.{now.microsecond:06d}] iteration {n:8d}/{d['total']:8d} | consumed samples: {n * 512:12d} | elapsed time per iteration (ms): {d['took'] * 1000:.1f} | "
                f"learning rate: 2.990000E-05 | global batch size:   512 | lm loss: {lm} | loss scale: 1.0 | grad norm: {norms} | number of skipped iterations:   0 | number of nan iterations:   0 |")  # fmt: skip
    yield Line(
        h.t,
        h.who,
        head(job, h, style) + text,
        "out" if style in ("plain", "megatron", "hf") else "err",
        f"step:{h.who[1]}" if loss == loss else f"nan:{h.who[1]}",
        h.attempt,
    )


def says(job: Job, h: Happening) -> Iterator[Line]:
    """A sentence of the program through its own logger (styles without one print it bare)."""
    for text in h.data["text"].split("\n"):
        yield Line(h.t, h.who, head(job, h, h.data["style"], h.data.get("level", "INFO")) + text, "err", h.data.get("proof", ""), h.attempt)


def bare(job: Job, h: Happening) -> Iterator[Line]:
    """Text that a library writes straight to a stream."""
    for text in h.data["text"].split("\n"):
        yield Line(h.t, h.who, text, h.data.get("stream", "err"), h.data.get("proof", "") if text else "", h.attempt)


RENDER = {"began": began, "step": step, "says": says, "bare": bare}
