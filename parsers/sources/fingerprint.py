"""Consistency checks that compare ranks: CollectiveFingerPrint of DETAIL debug mode, DDP and FSDP parameters, DCP.

Each statement compares the speaker with one other rank, so it says that two differ and not who is right: a law takes
the vote. (torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp, reducer.cpp, torch/distributed/fsdp,
torch/distributed/checkpoint/api.py)
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources.group_ranks import settle

NAME = "fingerprint"
TOKENS = ("CollectiveFingerPrint", "same model across all ranks", "appears not to match", "Forward order differs", "CheckpointException")

_PAIR = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\((.*?)\)\)?, but Rank (\d+) is running collective: CollectiveFingerPrint\((.*?)\)(?:\.|\))",
    re.DOTALL,
)
_ASPECTS = (("seq", "Sequence number:"), ("op", "Op type:"), ("shape", "Tensor shapes:"), ("dtype", "Tensor dtypes:"), ("device", "Tensor devices:"))
_PARAMS = re.compile(r"\[(\d+)\]: params\[(\d+)\] in this process with sizes (\[[\d, ]*\]) appears not to match (?:sizes|strides) of the same param in process (\d+)")
_COUNT = re.compile(r"expects same model across all ranks, but Rank (\d+) has (\d+) params, while rank (\d+) has inconsistent (\d+) params")
_FSDP = re.compile(r"Forward order differs across ranks: rank (\d+) is all-gathering (.+?) while rank (\d+) is all-gathering ([^\n]+)")
_DCP = re.compile(r"CheckpointException ranks:\s*dict_keys\(\[([\d, ]+)\]\)")

SAMPLES = (
    Sample(
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=39, OpType=ALLREDUCE, TensorShape=[2],"
        " TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided)), but Rank 1 is running collective:"
        " CollectiveFingerPrint(SequenceNumber=39, OpType=ALLREDUCE, TensorShape=[3], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default))).",
        "mismatch", {"self_rank": 0, "other_rank": 1}, "torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
    ),
    Sample(
        "RuntimeError: DDP expects same model across all ranks, but Rank 3 has 7 params, while rank 2 has inconsistent 5 params.",
        "mismatch", {"self_rank": 3, "self": "7 params", "other_rank": 2, "other": "5 params"}, "torch/csrc/distributed/c10d/reducer.cpp",
    ),
    Sample(
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([3])",
        "accused", {"ranks": [3], "why": "checkpoint"}, "torch/distributed/checkpoint/api.py",
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
        op = re.search(r"OpType=(\w+)", m[2])
        # tensors of another rank (number of dimensions) make the gathered fingerprint unreadable: no comma, no shape
        garbled = "OpType=" in m[4] and ", OpType=" not in m[4]
        aspects = [name for name, label in _ASPECTS if label in text[m.end() :]]
        return "mismatch", {
            "why": "fingerprint", "self_rank": int(m[1]), "self": canonical(m[2]), "other_rank": int(m[3]), "other": canonical(m[4]), "group_local": True,
            "seq": int(seq[1]) if seq else None, "op": op[1] if op else None, "aspects": aspects or None, "garbled": garbled or None,
        }  # fmt: skip
    if m := _PARAMS.search(text):
        return "mismatch", {"why": "ddp_params", "self_rank": int(m[1]), "self": f"params {m[3]}", "other_rank": int(m[4]), "other": "params of process 0"}
    if m := _COUNT.search(text):
        return "mismatch", {"why": "ddp_params", "self_rank": int(m[1]), "self": f"{m[2]} params", "other_rank": int(m[3]), "other": f"{m[4]} params"}
    if m := _FSDP.search(text):
        return "mismatch", {"why": "fsdp_order", "self_rank": int(m[1]), "self": m[2].strip(), "other_rank": int(m[3]), "other": m[4].strip().rstrip(".")}
    if m := _DCP.search(text):
        # gathered to all ranks and printed by every one: the keys are the ranks that failed, global numbers
        return "accused", {"why": "checkpoint", "ranks": [int(r) for r in re.findall(r"\d+", m[1])]}
    return None


def parse(line: Line, out: Sink) -> bool:
    """A consistency check's text outside an exception."""
    text = line.msg
    found = classify(text) if text.startswith(("Detected mismatch", "DDP expects same model", "Forward order differs")) else None
    if found is None:
        return False
    out.event(found[0], line, source=NAME, **settle(found[1], line))
    return True
