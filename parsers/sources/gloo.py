"""Gloo: timeouts, lost peers, mismatched sizes and monitored barriers (gloo/transport/tcp, ProcessGroupGloo.cpp)."""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "gloo"
TOKENS = ("gloo/", "monitoredBarrier", "op.preamble.length", "connectFullMesh")

_TIMEOUT = re.compile(r"Timed out waiting (\d+)ms for (recv|send) operation")
_CLOSED = re.compile(r"Connection closed by peer \[([^\]]*)\]:(\d+)")
_RESET = re.compile(r"(?:Read|Write) error \[([^\]]*)\]:(\d+): (.+?)(?:\. This is|$)")
_REFUSED = re.compile(r"(?:timed out connecting|connectFullMesh failed).*?(?:remote=\[([^\]]*)\]:(\d+))?", re.DOTALL)
_BARRIER = re.compile(r"\[Rank (\d+)\]: Ranks? ([\d, ]+) failed to pass monitoredBarrier in (\d+) ms")
_BARRIER_PEER = re.compile(r"Rank (\d+) successfully reached monitoredBarrier")
_SIZE = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d+) vs (\d+)")

SAMPLES = (
    Sample("RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:61608. This is typically caused by", "lost_connection", {"how": "closed"}, "gloo/transport/tcp/pair.cc"),
)


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of a gloo text, None if it is not one."""
    if m := _BARRIER.search(text):
        return "accused", {"ranks": [int(r) for r in re.findall(r"\d+", m[2])], "why": "monitored_barrier", "group_local": True, "duration_ms": float(m[3])}
    if re.search(r"Rank \d+ failed to pass monitoredBarrier", text):
        return "timed_out_waiting", {"why": "monitored_barrier"}  # without its prefix the number may be the speaker's
    if _BARRIER_PEER.search(text):
        return "timed_out_waiting", {"why": "monitored_barrier"}
    if "gloo" not in text and "op.preamble" not in text:
        return None
    if m := _SIZE.search(text):
        return "aborted", {"why": "size", "got": int(m[1]), "expected": int(m[2])}
    if m := _TIMEOUT.search(text):
        return "timed_out_waiting", {"duration_ms": float(m[1]), "timeout_ms": float(m[1]), "direction": m[2]}
    if m := _CLOSED.search(text):
        return "lost_connection", {"how": "closed", "peer_host": m[1], "peer_port": int(m[2])}
    if m := _RESET.search(text):
        how = "reset" if "reset" in m[3] else "broken_pipe" if "roken pipe" in m[3] else "timeout" if "imed out" in m[3] else "closed"
        return "lost_connection", {"how": how, "peer_host": m[1], "peer_port": int(m[2])}
    if "Application timeout caused pair closure" in text:
        return "timed_out_waiting", {"why": "own timeout before"}
    if m := _REFUSED.search(text):
        return "lost_connection", {"how": "refused", "peer_host": m[1], "at": "start-up"}
    return None


def parse(line: Line, out: Sink) -> bool:
    """Gloo lines that stand alone (not an exception's last line)."""
    if line.msg.startswith("ERROR failed to connect, willRetry="):
        out.event("warned", line, source=NAME, why="retrying")
        return True
    return False
