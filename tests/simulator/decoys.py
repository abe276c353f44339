"""Alarming lines that end nothing: caught exceptions, floods of warnings, retries, skipped steps. Printed by ranks that did nothing wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulator.reaction import Reaction
from tests.simulator.tape import Happening
from tests.simulator.texts.headers import c10


def _retry(s: Reaction, rnd: random.Random, rank: int, t: float) -> None:
    """A handler logs the exception and goes on with the next sample."""
    error = rnd.choice(
        (
            "json.decoder.JSONDecodeError: Expecting value: line 2 column 1 (char 79)",
            "OSError: [Errno 5] Input/output error: '/data/shards/shard-00003.tar'",
            "KeyError: 'text'",
        )
    )
    s.tell(t, ("rank", rank), "says", style=s.style, level="WARNING", text="could not read sample 20113, taking the next one")
    s.tell(t + 1e-4, ("rank", rank), "caught", where="load", text=error)


def _warnings(s: Reaction, rnd: random.Random, rank: int, t: float) -> None:
    text = "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:85: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n  warnings.warn("
    for k in range(rnd.randint(3, 20)):
        s.tell(t + 1e-4 * k, ("rank", rank), "bare", text=text)


def _overflow(s: Reaction, rnd: random.Random, rank: int, t: float) -> None:
    s.tell(t, ("rank", 0), "bare", stream="out", text="[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768")


def _refused(s: Reaction, rnd: random.Random, rank: int, t: float) -> None:
    """A client that came before the store (start-up)."""
    job = s.job
    start = job.start + 3.5
    text = (
        c10(job, job.procs[rank], start, "W", "socket.cpp", 752, initialised=False)
        + f"[c10d] The client socket has failed to connect to [{job.hosts[0].name}]:29500 (errno: 111 - Connection refused)."
    )
    s.tell(start, ("rank", rank), "bare", text=text)


def _http(s: Reaction, rnd: random.Random, rank: int, t: float) -> None:
    text = "Retrying (Retry(total=2, connect=None, read=None, redirect=None, status=None)) after connection broken by 'ConnectionResetError(104, 'Connection reset by peer')': /bucket/shards/00017.tar"
    s.tell(t, ("rank", rank), "says", style=s.style, level="WARNING", text=text)


def _small_batch(s: Reaction, rnd: random.Random, rank: int, t: float) -> None:
    s.tell(
        t,
        ("rank", rank),
        "says",
        style=s.style,
        level="WARNING",
        text="ran out of memory in evaluation, retrying with half the batch: CUDA out of memory. Tried to allocate 1.12 GiB",
    )


DECOYS: tuple[Callable[[Reaction, random.Random, int, float], None], ...] = (_retry, _retry, _warnings, _overflow, _refused, _http, _small_batch)


def scatter(s: Reaction, rnd: random.Random, spare: list[int], n: int) -> None:
    """Puts ``n`` decoys on ranks outside ``spare``, each before the last two printed steps."""
    others = [r for r in range(s.job.world) if r not in spare]
    steps: list[Happening] = [h for h in s.happenings if h.what == "step"]
    numbers = sorted({h.data["step"] for h in steps})
    if not others or len(numbers) < 4:
        return
    for _ in range(n):
        rank, at = rnd.choice(others), rnd.choice(numbers[:-3])
        t = max(h.t for h in steps if h.data["step"] == at) + 0.02
        rnd.choice(DECOYS)(s, rnd, rank, t)
