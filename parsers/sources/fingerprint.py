"""Consistency checks: CollectiveFingerPrint of DETAIL debug mode, DDP parameters (ProcessGroupWrapper.cpp, reducer.cpp)."""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "fingerprint"
TOKENS = ("CollectiveFingerPrint", "same model across all ranks", "appears not to match")

_PAIR = re.compile(r"Rank (\d+) is running collective: CollectiveFingerPrint\((.*?)\)\)?, but Rank (\d+) is running collective: CollectiveFingerPrint\((.*?)\)(?:\.|\))", re.DOTALL)
_PARAMS = re.compile(r"\[(\d+)\]: params\[(\d+)\] in this process with sizes (\[[\d, ]*\]) appears not to match sizes of the same param in process (\d+)")
_COUNT = re.compile(r"expects same model across all ranks, but Rank (\d+) has (\d+) params, while rank (\d+) has inconsistent (\d+) params")

SAMPLES = (
    Sample(
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=39, OpType=ALLREDUCE, TensorShape=[2],"
        " TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided)), but Rank 1 is running collective:"
        " CollectiveFingerPrint(SequenceNumber=39, OpType=ALLREDUCE, TensorShape=[3], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default))).",
        "mismatch", {"self_rank": 0, "other_rank": 1}, "torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
    ),
)  # fmt: skip


def canonical(print_: str) -> str:
    """Sequence number, operation, shape and dtype of a fingerprint as one comparable text."""
    seq = re.search(r"SequenceNumber=(\d+)", print_)
    op = re.search(r"OpType=(\w+)", print_)
    shape = re.search(r"TensorShape=\[([^\]]*)\]", print_)
    dtype = re.search(r"TensorDtypes=(\w+)", print_)
    return " ".join(f"{k}={m[1]}" for k, m in (("seq", seq), ("op", op), ("shape", shape), ("dtype", dtype)) if m)


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of a consistency check's text, None if it is not one."""
    if m := _PAIR.search(text):
        seq = re.search(r"SequenceNumber=(\d+)", m[2])
        return "mismatch", {"why": "fingerprint", "self_rank": int(m[1]), "self": canonical(m[2]), "other_rank": int(m[3]), "other": canonical(m[4]), "group_local": True,
                            "seq": int(seq[1]) if seq else None}  # fmt: skip
    if m := _PARAMS.search(text):
        return "mismatch", {"why": "ddp_params", "self_rank": int(m[1]), "self": f"params {m[3]}", "other_rank": int(m[4]), "other": "params of process 0"}
    if m := _COUNT.search(text):
        return "mismatch", {"why": "ddp_params", "self_rank": int(m[1]), "self": f"{m[2]} params", "other_rank": int(m[3]), "other": f"{m[4]} params"}
    return None


def parse(line: Line, out: Sink) -> bool:
    """A fingerprint text outside an exception."""
    found = classify(line.msg) if line.msg.startswith("Detected mismatch") else None
    if found is None:
        return False
    out.event(found[0], line, source=NAME, **found[1])
    return True
