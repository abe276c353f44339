"""Gloo: timeouts, lost peers, mismatched sizes and monitored barriers (gloo/transport/tcp, ProcessGroupGloo.cpp).

A gloo text names its peer by address only; the port is the peer's ephemeral one. How a connection was lost tells how
the peer ended: an orderly close follows a Python exception or a timeout, a reset follows a sudden death (SIGKILL,
SIGSEGV, abort). Texts arrive as exception messages, so ``classify`` is what the traceback parser asks.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "gloo"
TOKENS = ("gloo/", "monitoredBarrier", "op.preamble.length", "connectFullMesh", "willRetry=")

_TIMEOUT = re.compile(r"Timed out waiting (\d+)ms for (recv|send) operation")
_CLOSED = re.compile(r"Connection closed by peer \[([^\]]*)\]:(\d+)")
_RESET = re.compile(r"(?:Read|Write) error \[([^\]]*)\]:(\d+): (.+?)(?:\. This is|$)", re.MULTILINE)
_CONNECT = re.compile(r"timed out connecting|connectFullMesh failed|failed to connect")
_REMOTE = re.compile(r"remote=\[([^\]]*)\]:(\d+)")
_UNREACHABLE = re.compile(r"No route to host|Network is unreachable|Host is unreachable")
_BARRIER = re.compile(r"\[Rank (\d+)\]: Ranks? ([\d, ]+) failed to pass monitoredBarrier in (\d+) ms")
_BARRIER_BARE = re.compile(r"Rank \d+ failed to pass monitoredBarrier(?: in (\d+) ms)?")
_BARRIER_PEER = re.compile(r"Rank (\d+) successfully reached monitoredBarrier, but received errors")
_SIZE = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d+) vs (\d+)")
_SPEAKER = re.compile(r"\brank=(\d+), size=(\d+)")
_HOW = (("reset", "reset"), ("roken pipe", "broken_pipe"), ("imed out", "timeout"), ("refused", "refused"))

SAMPLES = (
    Sample(
        "RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:61608. This is typically caused by",
        "lost_connection", {"how": "closed", "peer_host": "127.0.0.1", "peer_port": 61608}, "gloo/transport/tcp/pair.cc",
    ),
    Sample(
        "RuntimeError: [/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.7]:21044: Connection reset by peer. This is typically caused by",
        "lost_connection", {"how": "reset", "peer_host": "10.0.0.7"}, "gloo/transport/tcp/pair.cc",
    ),
    Sample(
        "RuntimeError: [/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete",
        "timed_out_waiting", {"duration_ms": 12000.0, "timeout_ms": 12000.0, "direction": "recv"}, "gloo/transport/tcp/unbound_buffer.cc",
    ),
    Sample(
        "RuntimeError: Gloo connectFullMesh failed with [/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:40513$2",
        "lost_connection", {"how": "refused", "at": "start-up", "peer_host": "127.0.0.1", "peer_port": 40513}, "gloo/transport/tcp/pair.cc",
    ),
    Sample(
        "RuntimeError: [Rank 0]: Ranks 1, 5 failed to pass monitoredBarrier in 3000 ms",
        "accused", {"ranks": [1, 5], "group_local": True, "duration_ms": 3000.0}, "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
    ),
    Sample(
        "ERROR failed to connect, willRetry=1, retry=1, retryLimit=3, rank=1, size=2, local=[10.0.0.2]:1, remote=[10.0.0.1]:2, error=SO_ERROR: Connection refused",
        "warned", {"group_rank": 1, "peer_host": "10.0.0.1"}, "gloo/transport/tcp/pair.cc",
    ),
)  # fmt: skip


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of a gloo text, None if it is not one."""
    if "monitoredBarrier" in text:
        return _barrier(text)
    if "gloo" not in text and "Gloo" not in text and "op.preamble" not in text:
        return None
    if m := _SIZE.search(text):
        # the receiver of a foreign collective's message; the one that sent it is not named
        return "aborted", {"why": "size", "got": int(m[1]), "expected": int(m[2])}
    if m := _TIMEOUT.search(text):
        return "timed_out_waiting", {"duration_ms": float(m[1]), "timeout_ms": float(m[1]), "direction": m[2]}
    if "Application timeout caused pair closure" in text:
        return "timed_out_waiting", {"why": "own timeout before"}
    if m := _CLOSED.search(text):
        return "lost_connection", {"how": "closed", "peer_host": m[1], "peer_port": int(m[2])}
    if m := _RESET.search(text):
        return "lost_connection", {"how": _how(m[3]), "peer_host": m[1], "peer_port": int(m[2])}
    if _CONNECT.search(text):
        if m := _UNREACHABLE.search(text):
            return "net_unreachable", {"fault": m[0], **_remote(text)}
        return "lost_connection", {"how": _how(text) if "SO_ERROR" in text else "refused", "at": "start-up", **_remote(text)}
    return None


def _barrier(text: str) -> tuple[str, dict[str, Any]] | None:
    if m := _BARRIER.search(text):
        ranks = [int(r) for r in re.findall(r"\d+", m[2])]
        return "accused", {"ranks": ranks, "why": "monitored_barrier", "group_local": True, "group_rank": int(m[1]), "duration_ms": float(m[3])}
    if m := _BARRIER_BARE.search(text):
        # without its prefix the number may be the speaker's
        return "timed_out_waiting", {"why": "monitored_barrier", "duration_ms": float(m[1]) if m[1] else None}
    if _BARRIER_PEER.search(text):
        return "timed_out_waiting", {"why": "monitored_barrier"}
    return None


def _how(text: str) -> str:
    """How the operating system said that the connection ended. ``timed out connecting`` precedes the true error."""
    reason = text.rsplit("SO_ERROR:", 1)[-1]
    return next((how for word, how in _HOW if word in reason), "closed")


def _remote(text: str) -> dict[str, Any]:
    m = _REMOTE.search(text)
    return {"peer_host": m[1], "peer_port": int(m[2])} if m else {}


def parse(line: Line, out: Sink) -> bool:
    """Gloo lines that stand alone (not an exception's last line): connection attempts that will be repeated."""
    if "failed to connect, willRetry=" not in line.msg:
        return False
    speaker = _SPEAKER.search(line.msg)
    out.event("warned", line, source=NAME, why="retrying", group_rank=int(speaker[1]) if speaker else None, **_remote(line.msg))
    return True
