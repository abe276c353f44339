"""Whole jobs whose evidence points at somebody and does not carry a name: the verdict says so, and is right where one more fact is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from correlator.api import open_job

HANDLED = (
    "could not read sample 20113, taking the next one\nTraceback (most recent call last):\n"
    "  File \"/workspace/data.py\", line 88, in __next__\n    sample = self.decode(raw)\nKeyError: 'text'\n"
)
LOST = (
    "[rank{r}]:[E304 10:00:21.100000 ProcessGroupNCCL.cpp:618] [Rank {r}] Collective WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=100, NumelOut=100, Timeout(ms)=600000) "
    "raised the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.27.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
)
GLOO = (
    '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/w/train.py", line 10, in <module>\n[rank{r}]:     loss.backward()\n'
    "[rank{r}]: RuntimeError: [/b/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete\n"
)
MISMATCH = (
    '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/w/train.py", line 10, in <module>\n[rank{r}]:     dist.all_reduce(x)\n'
    "[rank{r}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, "
    "TensorShape=[{n}], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default), requires_grad=false (default), "
    "pinned_memory=false (default), memory_format=(nullopt))), but Rank {o} is running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[{m}], "
    "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), "
    "memory_format=(nullopt))).Collectives differ in the following aspects: Tensor shapes: {n}vs {m}\n"
)
WAITED = GLOO.replace("for recv", "for {way}")
SRUN = "srun: error: n0: task {r}: {how}\n"


def steps(rank: int, world: int, last: int = 18) -> str:
    lines = [f"2026-03-04 10:00:00,000 INFO rank={rank} world_size={world} host=n0 pid={4000 + rank} starting"]
    return "\n".join(lines + [f"2026-03-04 10:00:{i:02d},100 INFO step {i} loss=2.{i}" for i in range(1, last + 1)]) + "\n"


def logs(world: int, **more: str) -> dict[str, str]:
    return {f"rank_{r}.log": steps(r, world) + more.get(f"r{r}", "") for r in range(world)} | {k: v for k, v in more.items() if not k.startswith("r")}


def neighbours(world: int, **ways: str) -> dict[str, str]:
    """A ring of which some members tell in which direction they waited; the others are silent."""
    return logs(world, **{r: WAITED.format(r=r[1:], way=way) for r, way in ways.items()})


def without(files: dict[str, str], *ranks: int) -> dict[str, str]:
    return {name: text for name, text in files.items() if name not in {f"rank_{r}.log" for r in ranks}}


LOSERS = {f"r{r}": LOST.format(r=r, seq=19 + r) for r in (1, 3)}  # at different calls: who handled something is not known to be with its peers
ABORT = logs(4, console=SRUN.format(r=2, how="Aborted (core dumped)"))
CASES: dict[str, tuple[dict[str, str], dict[str, Any] | None]] = {
    "an abort of a process whose log is missing may be a watchdog's": (
        {f"{k}.log" if k == "console" else k: v for k, v in without(ABORT, 2).items()},
        {"scope": "undetermined", "initiating_ranks": []},
    ),
    "a kill needs no words": (
        {f"{k}.log" if k == "console" else k: v for k, v in without(logs(4, console=SRUN.format(r=2, how="Killed")), 2).items()},
        {"scope": "rank", "initiating_ranks": [2]},
    ),
    "what a handler logged, where other logs are missing": (
        without(logs(4, r0=HANDLED, **LOSERS), 2),
        {"scope": "undetermined", "initiating_ranks": []},
    ),
    "what a handler logged in a process that its launcher had to stop, beside a bad exit code": (
        logs(4, r0=HANDLED, console=SRUN.format(r=2, how="Exited with exit code 3") + SRUN.format(r=0, how="Terminated")) | {"x.log": ""},
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "process_exit"},
    ),
    "a difference between two ranks without a majority": (
        logs(2, r0=MISMATCH.format(r=0, o=1, n="10", m="12"), r1=MISMATCH.format(r=1, o=0, n="12", m="10")),
        {"scope": "undetermined", "initiating_ranks": [], "failure_class": "collective_mismatch"},
    ),
    "one silent rank among ranks that waited": (
        logs(4, **{f"r{r}": GLOO.format(r=r) for r in (0, 1, 3)}),
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "rank_stalled"},
    ),
    "a ring that two silent ranks may have broken": (
        neighbours(6, r0="recv", r2="send", r3="recv", r5="send"),
        {"scope": "undetermined", "initiating_ranks": []},
    ),
    "a ring that fits one of two silent ranks": (
        neighbours(6, r0="recv", r2="send", r3="send", r4="send"),
        {"scope": "undetermined", "initiating_ranks": [], "failure_class": "unknown_hang"},
    ),
    "logs that end behind what one rank handled": (logs(4, r2=HANDLED), None),
    "logs that end behind what every rank handled": (
        logs(4, **{f"r{r}": HANDLED for r in range(4)}),
        {"scope": "job", "initiating_ranks": []},
    ),
    "records of labels with a bar": (
        {"out.log": "".join(f"{r}| 2026-03-04 10:00:{i:02d},100 INFO step {i} loss=2.{i}\n" for i in range(1, 18) for r in range(4))
         + "".join(f"{r}| {line}\n" for r in (0, 1, 3) for line in GLOO.replace("[rank{r}]: ", "").splitlines())},
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "rank_stalled"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_evidence_decides_or_does_not(name: str, tmp_path: Path) -> None:
    files, expected = CASES[name]
    for path, text in files.items():
        file = tmp_path / "logs" / (path if "." in path else f"{path}.log")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with open_job(str(tmp_path / "logs")) as opened:
        incident = opened.primary
    if expected is None or incident is None:
        assert incident == expected
        return
    assert {k: incident[k] for k in expected} == expected, incident["summary"]
