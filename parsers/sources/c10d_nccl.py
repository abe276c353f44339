"""ProcessGroupNCCL: watchdog, status, dump signals, heartbeat (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).

``[Rank N]`` inside these lines is the rank within a group, frozen to the first group that logged; the global
rank is the ``[rankN]:`` prefix (2.2 and later).
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "c10d_nccl"
ORDER = 6
TOKENS = ("ProcessGroupNCCL", "Watchdog caught", "NCCL work", "NCCL communicator", "NCCL error", "heartbeat of its watchdog", "watchdog thread terminated")

_WORK = re.compile(r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, (?:TensorShape=\[([\d, ]*)\]|NumelIn=(\d+), NumelOut=(\d+)))?(?:, Timeout\(ms\)=(\d+))?\)(?: ran for (\d+) milliseconds before timing out)?")
_GROUP = re.compile(r"\[PG (?:ID )?(\d+)(?: PG GUID ([^\s(\]]+))?\s?(?:\(([^)]*)\))? ?Rank (\d+)\]")
_RANK = re.compile(r"^\s*\[Rank (\d+)\]")
_STATUS = re.compile(r"last enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)")
_FROM = re.compile(r"dump signal (?:due to [\w ]+? )?from\s+rank (\d+)")
_TERMINATED = re.compile(r"watchdog thread terminated with exception: (.*)$", re.DOTALL)
_ABORTED = re.compile(r"NCCL communicator was aborted on rank (\d+)\.(?:\s*Original reason for failure was: (.*))?", re.DOTALL)

SAMPLES = (
    Sample("[rank3]:[E506 18:30:13.220418367 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7731, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600069 milliseconds before timing out.",
           "timed_out_waiting", {"seq": 7731, "op": "ALLREDUCE", "timeout_ms": 600000.0}, "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"),
)  # fmt: skip


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of an NCCL text inside an exception or a watchdog payload."""
    if "collective operation timeout" in text or "timed out in" in text and "WorkNCCL" in text:
        return "timed_out_waiting", _work(text)
    if m := _ABORTED.search(text):
        inner = classify(m[2]) if m[2] else None
        return (inner[0], inner[1]) if inner else ("aborted", {"why": "communicator aborted", "group_rank": int(m[1])})
    if "encountered error set by ProcessGroupNCCL" in text:
        return "aborted", {"why": "communicator aborted"}
    if "NCCL error" in text or text.startswith("nccl"):
        if re.search(r"remote process exited|ncclRemoteError", text) and not re.search(r"Duplicate GPU", text):
            return "remote_error", _peer(text)
        if re.search(r"Connection closed by remote peer|Connection reset by peer|Broken pipe|Connection refused", text):
            return "remote_error", _peer(text)
        if re.search(r"internal error|ncclInternalError|unhandled system error|ncclSystemError", text) and not re.search(r"Last error:\s*\S", text) and "Duplicate GPU" not in text:
            return "remote_error", {"why": "internal or system error without a reason"}
    return None


def _peer(text: str) -> dict[str, Any]:
    m = re.search(r"(?:remote peer|from peer|to|from) ([\w.:\-]+)<(\d+)>", text)
    return {"peer_host": m[1]} if m else {}


def _work(text: str) -> dict[str, Any]:
    m = _WORK.search(text)
    if m is None:
        return {}
    fields: dict[str, Any] = {"seq": int(m[1]), "op": m[2], "numel_in": m[4] or m[3], "numel_out": m[5], "timeout_ms": float(m[6]) if m[6] else None, "duration_ms": float(m[7]) if m[7] else None}
    return {k: v for k, v in fields.items() if v is not None}


def _group(text: str) -> dict[str, Any]:
    if m := _GROUP.search(text):
        return {"pg": m[2] or m[1], "desc": m[3], "group_rank": int(m[4])}
    if m := _RANK.match(text):
        return {"group_rank": int(m[1])}
    return {}


def _emit(text: str, line: Line, out: Sink, line_end: int) -> None:
    group = {k: v for k, v in _group(text).items() if v is not None}
    if line.rank is None and "group_rank" in group and group.get("pg", "0") in ("0", "default_pg"):
        group["assumed_rank"] = group["group_rank"]  # before 2.2 no line names the global rank: that of the default group is it
    if m := _TERMINATED.search(text):
        payload = m[1]
        if "collective operation timeout" in payload:
            out.event("aborted", line, source=NAME, line_end=line_end, message=text, **group, why="own timeout")
            return
        found = classify(payload)
        if found is not None:
            out.event(found[0], line, source=NAME, line_end=line_end, message=text, **{**group, **found[1]})
            return
        default = "raised" if "CUDA error" in payload or "Cuda failure" in payload else "aborted"
        out.event(default, line, source="c10d", refine=True, line_end=line_end, message=payload, exception="CUDA error" if default == "raised" else None, text=payload.split("\n")[0][:200], uncaught=True, **group)
        return
    if "Watchdog caught collective operation timeout" in text or "Caught collective operation timeout" in text or "timed out in call to wait" in text or "timed out in blocking wait" in text:
        out.event("timed_out_waiting", line, source=NAME, line_end=line_end, message=text, **{**group, **_work(text)})
        return
    if "raised the following async exception" in text or "found async exception" in text:
        found = classify(text) or ("raised", {})
        out.event(found[0], line, source="c10d", refine=found[0] == "raised", line_end=line_end, message=text, **{**group, **_work(text), **found[1]})
        return
    if m := _STATUS.search(text):
        fields = {"last_enqueued": int(m[1]), "last_completed": int(m[2]), **group}
        if f := _FROM.search(text):
            fields["from_rank"] = int(f[1])
        out.event("pg_status", line, source=NAME, line_end=line_end, message=text, **fields)
        return
    if "watchdog got stuck" in text or "detects no heartbeat" in text or "no heartbeat of its watchdog" in text or "Heartbeat monitor timed out" in text:
        pending = re.search(r"workMetaList_\.size\(\)=(\d+)", text)
        out.event("watchdog_stuck", line, source=NAME, line_end=line_end, message=text, **group, pending=int(pending[1]) if pending else None)
        return
    if m := re.search(r"remote error detected from rank: (\d+)", text):
        out.event("remote_error", line, source=NAME, line_end=line_end, message=text, **group, from_group_rank=int(m[1]))
        return
    if m := re.search(r"ranks \[([\d, ]+)\] are the lagging ranks|\[([\d, ]+)\] (?:finished collective #\d+, but didn't join|joined but didn't finish)", text):
        lagging = re.search(r"ranks \[([\d, ]+)\] are the lagging ranks", text) or re.search(r"\[([\d, ]+)\] finished collective #\d+, but didn't join", text)
        if lagging:
            out.event("accused", line, source=NAME, line_end=line_end, message=text, ranks=[int(r) for r in re.findall(r"\d+", lagging[1])], why="desync", group_local=True)
            return
    if "Could not acquire GIL" in text:
        out.event("watchdog_stuck", line, source=NAME, line_end=line_end, message=text, **group, gil=True)
        return
    kind = "teardown_noise"
    if "Terminating the process after attempting to dump" in text or "To avoid data inconsistency" in text:
        kind = "aborted"
    out.event(kind, line, source=NAME, line_end=line_end, message=text, **group)


def parse(line: Line, out: Sink) -> bool:
    """One-line texts are taken by the block as well; this owns what has no header."""
    if m := re.match(r"^\s*what\(\):\s+(.*)$", line.text):
        if "NCCL" in m[1] or "WorkNCCL" in m[1]:
            rank = _GROUP.search(m[1]) or re.search(r"\[Rank (\d+)\]", m[1])
            out.event("aborted", line, source=NAME, group_rank=int(rank.group(4 if rank.re is _GROUP else 1)) if rank else None, why="terminate")
            return True
    return False


class Block:
    """A c10d line with the unprefixed lines that continue its message; stack frames are swallowed."""

    def __init__(self, line: Line) -> None:
        self.first, self.last, self.message = line, line, [line.msg]

    @staticmethod
    def opens(line: Line) -> bool:
        return "ProcessGroupNCCL.cpp" in (line.origin or "") or (line.origin or "").startswith("ProcessGroupNCCL")

    def feed(self, line: Line, out: Sink) -> bool:
        text = line.text
        if line.level is not None or line.origin:
            return False
        if text.startswith(("frame #", "Exception raised from ", "<omitting python frames>")) or not text.strip():
            self.last = line
            return len(self.message) < 40 or not text.strip()
        if len(self.message) < 12 and re.match(r"(?:nccl\w+: |Last error:|CUDA kernel errors|For debugging|Compile with|NET/|Net |socket|Duplicate GPU|Cuda failure|\s+- \[|\s+- To our|\s+-\s|\s+\[|\s+#\d)", text):
            self.message.append(text)
            self.last = line
            return True
        if self.message[-1].startswith("Last error") and len(self.message) < 12:
            self.message.append(text)
            self.last = line
            return True
        return False

    def close(self, out: Sink) -> None:
        _emit("\n".join(self.message), self.first, out, self.last.no)
