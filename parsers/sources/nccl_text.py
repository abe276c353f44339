"""What an NCCL error says when PyTorch quotes it, in an exception or a watchdog line (torch NCCLUtils.hpp, WorkNCCL)."""

from __future__ import annotations

import re
from typing import Any

_WORK = re.compile(
    r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, (?:TensorShape=\[([\d, ]*)\]|NumelIn=(\d+), NumelOut=(\d+)))?(?:, Timeout\(ms\)=(\d+))?\)"
    r"(?: ran for (\d+) milliseconds before timing out)?"
)
_ABORTED = re.compile(r"NCCL communicator was aborted on rank (\d+)\.(?:\s*Original reason for failure was: (.*))?", re.DOTALL)
_BY_GROUP = re.compile(r"NCCL communicator encountered error set by ProcessGroupNCCL: (.*)", re.DOTALL)
_PEER = re.compile(r"(?:remote peer|from peer|to|from) ([\w.:\-]+)<(\d+)>")
_REMOTE = re.compile(r"remote process exited|ncclRemoteError")
_LOST = re.compile(r"Connection closed by remote peer|Connection reset by peer|Broken pipe|Connection refused")
_VAGUE = re.compile(r"internal error|ncclInternalError|unhandled system error|ncclSystemError")


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of an NCCL text inside an exception or a watchdog payload, None to leave it to the rulebook."""
    if "collective operation timeout" in text or ("timed out in" in text and "WorkNCCL" in text):
        return "timed_out_waiting", work(text)
    if m := _ABORTED.search(text):
        inner = classify(m[2]) if m[2] else None
        return inner or ("aborted", {"why": "communicator aborted", "group_rank": int(m[1])})
    if m := _BY_GROUP.search(text):
        return classify(m[1]) or ("aborted", {"why": "communicator aborted"})
    if ("NCCL error" not in text and not text.startswith("nccl")) or "Duplicate GPU" in text:
        return None
    if _REMOTE.search(text) or _LOST.search(text):
        return "remote_error", _peer(text)
    if _VAGUE.search(text) and not re.search(r"Last error:\s*\S", text):
        return "remote_error", {"why": "internal or system error without a reason"}
    return None


def work(text: str) -> dict[str, Any]:
    """Sequence number, operation, sizes (elements), timeout and time waited (ms) of a ``WorkNCCL(...)``."""
    m = _WORK.search(text)
    if m is None:
        return {}
    fields: dict[str, Any] = {
        "seq": int(m[1]), "op": m[2], "numel_in": m[4] or m[3], "numel_out": m[5],
        "timeout_ms": float(m[6]) if m[6] else None, "duration_ms": float(m[7]) if m[7] else None,
    }  # fmt: skip
    return {k: v for k, v in fields.items() if v is not None}


def _peer(text: str) -> dict[str, Any]:
    m = _PEER.search(text)
    return {"peer_host": m[1]} if m else {}
