"""ProcessGroupNCCL: watchdog, status, dump signals, heartbeat (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp).

``[Rank N]`` inside these lines is the rank within a group, frozen to the first group that logged; the global
rank is the ``[rankN]:`` prefix (2.2 and later). A timeout line is a victim's: it says that its writer had enqueued
the collective, and nothing about who is missing. How far each rank got stands in the status lines.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources.group_ranks import settle
from correlator.parsers.sources.nccl_text import classify, work
from correlator.parsers.sources.stacks import emit_stack, frame

NAME = "c10d_nccl"
ORDER = 6
TOKENS = ("ProcessGroupNCCL", "Watchdog caught", "NCCL work", "NCCL communicator", "NCCL error", "heartbeat of its watchdog", "watchdog thread terminated")
COUNT_LIMIT = 10**12  # larger numbers are memory that nobody initialised (2.3)
MESSAGE_LINES = 40  # a desync report lists every group state

_GROUP = re.compile(r"\[PG (?:ID )?(\d+)(?: PG GUID ([^\s(\]]+))?\s?(?:\(([^)]*)\))? ?Rank (\d+)\]")
_RANK = re.compile(r"^\s*\[Rank (\d+)\]")
_STATUS = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)")
_AT_WORK = re.compile(r"(?:at (?:NCCL )?work|work sequence id): (\d+)")
_FROM = re.compile(r"dump signal (?:due to [\w ]+? )?from\s+rank (\d+)")
_TERMINATED = re.compile(r"watchdog thread terminated with exception: (.*)$", re.DOTALL)
_TIMEOUT = re.compile(r"[Cc]aught collective operation timeout|timed out in (?:call to wait|blocking wait)")
_ASYNC = re.compile(r"raised the following async exception|found async exception|Received NCCL errors for communicators")
_STUCK = re.compile(r"watchdog got stuck|detects no heartbeat|no heartbeat of its watchdog|Heartbeat monitor timed out")
_STUCK_SECONDS = re.compile(r"got stuck for (\d+) ?s")
_PENDING = re.compile(r"workMetaList_\.size\(\)=(\d+)")
_REMOTE = re.compile(r"remote error detected from rank: (\d+)|NCCLABORTEDCOMM:\S+ from rank: (\d+)")
_NEVER_JOINED = re.compile(r"ranks \[([\d, ]+)\] are the lagging ranks")
_BEHIND = re.compile(r"\[([\d, ]+)\] finished collective #\d+, but didn't join")
_OPTIONS = re.compile(r"initialization options: size: (\d+), global rank: (\d+)")
_CALL = re.compile(r"^#\d+ (\S+) from (\S+?):\d+\s*$")
_CONTINUES = re.compile(
    r"(?:nccl\w+: |Last error:|CUDA kernel errors|For debugging|Compile with|Search for|NET/|Net |socket|Duplicate GPU|Cuda failure|\s+- \[|\s+- To our|\s+-\s|\s+\[|\s+#\d)"
)
_UPSTREAM = "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"

SAMPLES = (
    Sample("[rank3]:[E506 18:30:13.220418367 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7731, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600069 milliseconds before timing out.",
           "timed_out_waiting", {"seq": 7731, "op": "ALLREDUCE", "timeout_ms": 600000.0, "duration_ms": 600069.0, "group_rank": 3}, _UPSTREAM),
    Sample("[rank1]:[E1002 08:00:41.321034344 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed work: 5",
           "pg_status", {"pg": "0", "desc": "default_pg", "last_enqueued": 6, "last_completed": 5, "work": 6}, _UPSTREAM),
    Sample("[rank3]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 3] [PG 0 Rank 3] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in monitoring enqueued collectives.",
           "watchdog_stuck", {"duration_ms": 600000.0, "group_rank": 3}, _UPSTREAM),
)  # fmt: skip

__all__ = ["Block", "NAME", "ORDER", "SAMPLES", "TOKENS", "classify", "parse"]


def _group(text: str, line: Line) -> dict[str, Any]:
    """Group, its description and the writer's number in it. Before 2.3 only the number is printed.

    Before 2.5 a group has no name but its place in the order in which this process made groups: 0 is the default group,
    any other number may be another group elsewhere (``?``: not to be compared with other ranks).
    """
    if m := _GROUP.search(text):
        group: dict[str, Any] = {"pg": m[2] or (m[1] if m[1] == "0" else f"{m[1]}?"), "desc": m[3], "group_rank": int(m[4])}
    elif m := _RANK.match(text):
        group = {"group_rank": int(m[1])}
    else:
        return {}
    if line.rank is None and group.get("pg", "0") in ("0", "default_pg"):
        group["assumed_rank"] = group["group_rank"]  # before 2.2 no line names the global rank: that of the default group is it
    return {k: v for k, v in group.items() if v is not None}


def _emit(text: str, line: Line, out: Sink, line_end: int, calls: list[str]) -> None:
    group = _group(text, line)
    common: dict[str, Any] = {"line_end": line_end, "message": text, **group}
    if m := _TERMINATED.search(text):
        _terminated(m[1], line, out, common)
    elif _TIMEOUT.search(text):
        out.event("timed_out_waiting", line, source=NAME, **{**common, **work(text)})
        _desync(text, line, out, common)
    elif _ASYNC.search(text):
        found = classify(text) or ("raised", {})
        out.event(found[0], line, source="c10d", refine=found[0] == "raised", **{**common, **work(text), **found[1]})
    elif m := _STATUS.search(text):
        _status(int(m[1]), int(m[2]), text, line, out, common)
    elif _STUCK.search(text):
        pending, seconds = _PENDING.search(text), _STUCK_SECONDS.search(text)
        out.event("watchdog_stuck", line, source=NAME, pending=int(pending[1]) if pending else None,
                  duration_ms=float(seconds[1]) * 1000 if seconds else None, **common)  # fmt: skip
    elif "Could not acquire GIL" in text:
        out.event("watchdog_stuck", line, source=NAME, gil=True, **common)
    elif m := _REMOTE.search(text):
        out.event("remote_error", line, source=NAME, from_group_rank=int(m[1] or m[2]), **common)
    elif m := _OPTIONS.search(text):
        whole = group.get("pg", "0") in ("0", "default_pg")
        out.identity(line, NAME, rank=int(m[2]), global_rank=int(m[2]), world_size=int(m[1]) if whole else None, how="ProcessGroupNCCL options")
    elif calls:
        emit_stack(out, line, calls, source=NAME, why="failed collective", **common)
    elif not _desync(text, line, out, common):
        _rest(text, line, out, common)


def _terminated(payload: str, line: Line, out: Sink, common: dict[str, Any]) -> None:
    """Why the watchdog thread ended: its own timeout, a peer, or an error of this very process's CUDA context."""
    if "collective operation timeout" in payload:
        out.event("aborted", line, source=NAME, why="own timeout", **common)
    elif (found := classify(payload)) is not None:
        out.event(found[0], line, source=NAME, **{**common, **found[1]})
    else:
        own = "CUDA error" in payload or "Cuda failure" in payload
        out.event("raised" if own else "aborted", line, source="c10d", refine=True, exception="CUDA error" if own else None,
                  text=payload.split("\n")[0][:200], uncaught=True, **{**common, "message": payload})  # fmt: skip


def _status(enqueued: int, completed: int, text: str, line: Line, out: Sink, common: dict[str, Any]) -> None:
    """How far the writer got in its group, the number of the work that failed, and who signalled (the last detector).

    From 2.4 on collectives and point-to-point calls are numbered apart, but both go through these two fields: a completion
    beyond the last call shows that they are mixed.
    """
    at, signalled = _AT_WORK.search(text), _FROM.search(text)
    out.event("pg_status", line, source=NAME, last_enqueued=enqueued,
              last_completed=completed if completed <= enqueued else None,  # 2.3 prints an uninitialised number
              mixed=True if enqueued < completed <= COUNT_LIMIT else None, work=int(at[1]) if at else None, from_rank=int(signalled[1]) if signalled else None, **common)  # fmt: skip


def _desync(text: str, line: Line, out: Sink, common: dict[str, Any]) -> bool:
    """The desync report: who never joined or is a collective behind. "Joined but didn't finish" accuses nobody."""
    lists = _NEVER_JOINED.findall(text) or _BEHIND.findall(text)
    if not lists:
        return False
    ranks = sorted({int(r) for part in lists for r in re.findall(r"\d+", part)})
    out.event("accused", line, source=NAME, **settle({**common, "ranks": ranks, "why": "desync", "group_local": True}, line))
    return True


def _rest(text: str, line: Line, out: Sink, common: dict[str, Any]) -> None:
    """Consequences and notes. INFO lines say nothing that matters here."""
    if "Terminating the process after attempting to dump" in text or "To avoid data inconsistency" in text:
        out.event("aborted", line, source=NAME, **common)
    elif "Guessing device ID" in text or "device used by this process is currently unknown" in text:
        out.event("warned", line, source=NAME, why="device guessed from the rank", **common)
    elif (found := classify(text)) is not None:
        out.event(found[0], line, source=NAME, **{**common, **found[1]})
    elif line.level not in ("INFO", "DEBUG"):
        out.event("teardown_noise", line, source=NAME, **common)


def parse(line: Line, out: Sink) -> bool:
    """What std::terminate prints of an NCCL exception, where the line before it is lost."""
    m = re.match(r"^\s*what\(\):\s+(.*)$", line.text)
    if m is None or "NCCL" not in m[1]:
        return False
    rank = _GROUP.search(m[1]) or re.search(r"\[Rank (\d+)\]", m[1])
    out.event("aborted", line, source=NAME, group_rank=int(rank[rank.lastindex or 1]) if rank else None, why="terminate")
    return True


class Block:
    """A c10d line with the unprefixed lines that continue its message; stack frames of C++ are swallowed."""

    UNTAGGED = True  # the [rankN]: prefix stands on the first line of a message only

    def __init__(self, line: Line) -> None:
        self.first, self.last, self.message = line, line, [line.msg]
        self.calls: list[str] = []

    @staticmethod
    def opens(line: Line) -> bool:
        return "ProcessGroupNCCL.cpp" in (line.origin or "")

    def feed(self, line: Line, out: Sink) -> bool:
        text = line.text
        if line.level is not None or line.origin:
            return False
        if m := _CALL.match(text):
            self.calls.append(frame(m[2], m[1]))
        elif text.startswith(("frame #", "Exception raised from ", "<omitting python frames>")) or not text.strip():
            pass
        elif len(self.message) < MESSAGE_LINES and (_CONTINUES.match(text) or self.message[-1].startswith("Last error")):
            self.message.append(text)
        else:
            return False
        self.last = line
        return True

    def close(self, out: Sink) -> None:
        _emit("\n".join(self.message), self.first, out, self.last.no, self.calls)
