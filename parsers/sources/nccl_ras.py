"""Output of NCCL's reliability client ``ncclras`` and of its monitor stream (NCCL ``src/ras/client_support.cc``, 2.24+).

The service asks every process of the job how far its communicators are. A DEAD process has not answered for 60 s, which
is nearly proof that it is gone (a stopped or swapping one looks alike). Counts are operations that the CPU launched:
equal counts with a hang mean that nobody is behind. Of unequal ones the *lowest* is waited for; the service lists the
minority, which may as well be the ranks that are ahead. Rank numbers count inside the communicator of the block.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "nccl_ras"
ORDER = 5
TOKENS = (
    "managing GPU", "managed by process", "[process information not found]", "INCOMPLETE", "MISMATCH", "DEAD", ") ERROR",
    "ranks have ", "Communicator ranks have different", "Communicators...", "  RUNNING  ", "  INIT  ", "  FINALIZE  ", "  ABORT  ", "  NOCOMM  ",
)  # fmt: skip

_BLOCK = re.compile(r"#(?P<group>\d+)-\d+ \((?P<hash>[0-9a-f]{8,16})\) (?P<what>INCOMPLETE|ERROR|MISMATCH)\s*$")
_SECTION = re.compile(r"(?:INCOMPLETE|DEAD|TIMEOUT)\s*$")
# group, communicators in it, nodes, ranks per node (7-8), ranks per communicator, ranks in group, status
_ROW = re.compile(r"\s*(?P<group>\d+)\s+\d+\s+\d+\s+\d+(?:-\d+)?\s+(?P<size>\d+)\s+\d+\s+[A-Z]{4,}")
_PROCESS = re.compile(r"^\s+Process (?P<pid>\d+) on node (?P<node>\S+) managing GPUs? (?P<gpu>[\d,]+)")
_MONITOR = re.compile(r"PEER_DEAD: Process (?P<pid>\d+) on node (?P<node>\S+) managing GPUs? (?P<gpu>[\d,]+)")
_RANK = re.compile(
    r"^\s+Rank (?P<rank>\d+)(?: (?P<says>reported [^\[]+?|has [^\[]+?))? -- "
    r"(?:GPU (?P<gpu>\d+)(?: \(NVML \d+\))? managed by process (?P<pid>\d+) on node (?P<node>\S+)|\[process information not found\])"
)
_COUNTS = re.compile(r"Communicator ranks have different (?:(?P<op>\w+) operation counts|status)")
_MOST = re.compile(r"^\s+\d+ ranks have (?:launched up to operation (?P<count>\d+)|(?P<none>not launched any operations)|status (?P<status>\w+))")

SAMPLES = (
    Sample("DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 2311 on node 172.16.4.20 managing GPU 2",
           "accused", {"peer_host": "172.16.4.20", "pid": 2311, "device": 2, "why": "ras_dead"}, "src/ras/client_support.cc"),
    Sample("[2026-02-11 03:15:40] PEER_DEAD: Process 2311 on node 172.16.4.20 managing GPU 2", "accused",
           {"peer_host": "172.16.4.20", "why": "ras_dead"}, "NCCL user guide, RAS monitor"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One line of a status report or of the monitor; what a line means depends on the heading above it."""
    text = line.text
    state = out.state(NAME, line.stream)
    if m := _MONITOR.search(text):
        _dead(m, line, out)
    elif text.startswith("Communicators..."):
        state.clear()
        state["sizes"] = {}
    elif m := _BLOCK.match(text):
        state.update(block=m["what"], group=int(m["group"]), hash=f"0x{m['hash']}", most=None, op=None)
    elif _SECTION.match(text):
        state.update(block=text.strip(), group=None)
    elif (m := _ROW.match(text)) and "sizes" in state:
        state["sizes"][int(m["group"])] = int(m["size"])
    elif (m := _PROCESS.match(text)) and state.get("block") in ("DEAD", "INCOMPLETE"):
        if state["block"] == "DEAD":
            _dead(m, line, out)
    elif m := _COUNTS.search(text):
        state.update(op=m["op"], most=None)
    elif (m := _MOST.match(text)) and state.get("block") == "MISMATCH":
        state["most"] = m["status"] or (0 if m["none"] else int(m["count"]))
    elif (m := _RANK.match(text)) and state.get("group") is not None:
        _rank(m, line, out, state)
    else:
        return False
    return True


def _dead(m: re.Match[str], line: Line, out: Sink) -> None:
    out.event(
        "accused",
        line,
        source=NAME,
        why="ras_dead",
        peer_host=m["node"],
        pid=int(m["pid"]),
        device=int(m["gpu"].split(",")[0]),
    )


def _rank(m: re.Match[str], line: Line, out: Sink, state: dict[str, Any]) -> None:
    """A rank that a block lists: missing, in error, or with another count or status than most."""
    says, most = (m["says"] or "").strip(), state.get("most")
    where = {**_who(m, state), "pg": state.get("hash")}
    if state["block"] == "INCOMPLETE":
        out.event("accused", line, source=NAME, why="ras_missing", **where)
    elif state["block"] == "ERROR" and says.startswith("reported "):
        error = says.removeprefix("reported ")
        if error == "Remote process error":  # a victim, by its own account
            rank = where.pop("peer_rank", None)
            out.event(
                "remote_error",
                line,
                source=NAME,
                error=error,
                subject_rank=rank,
                host=where.pop("peer_host", None),
                **where,
            )
        else:
            out.event("accused", line, source=NAME, why="ras_error", error=error, **where)
    elif state["block"] == "MISMATCH" and isinstance(most, int):
        count = re.search(r"operation (\d+)", says)
        behind = int(count[1]) if count else 0
        if behind < most:
            out.event(
                "accused",
                line,
                source=NAME,
                why="ras_behind",
                op=state.get("op"),
                count=behind,
                peers_count=most,
                **where,
            )
    elif state["block"] == "MISMATCH" and most == "RUNNING" and says == "has status INIT":
        out.event("accused", line, source=NAME, why="ras_status", error="INIT", **where)


def _who(m: re.Match[str], state: dict[str, Any]) -> dict[str, Any]:
    """The rank that is meant. Its number is global only in the largest communicator of the report, whose table must be whole."""
    sizes: dict[int, int] = state.get("sizes", {})
    rank, size = int(m["rank"]), sizes.get(state["group"])
    whole = size is not None and size == max(sizes.values()) and len(sizes) == 1 + max(sizes)
    who: dict[str, Any] = {"peer_rank": rank} if whole else {"group_rank": rank, "group_local": True, "reliable": False}
    if m["pid"]:
        who.update(peer_host=m["node"], pid=int(m["pid"]), device=int(m["gpu"]))
    return who
