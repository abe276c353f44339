"""TCPStore, rendezvous of processes and c10d sockets (TCPStore.cpp, socket.cpp, rendezvous.py).

The store lives in rank 0's process, or in the agent of the rendezvous host. Whoever loses it is a victim. A wait for
a key names the peer that would have written it, if the key ends in a rank: the immediate blocker, not the root.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources.group_ranks import settle

NAME = "c10d_store"
TOKENS = (
    "[c10d", "TCPStore", "wait timeout after", "clients joined", "client socket", "server socket", "store based barrier", "Socket Timeout",
    "EADDRINUSE", "ddress already in use",
)  # fmt: skip

_KEYS = re.compile(r"wait timeout after (\d+)ms, keys: ([^\s,]+)")
_GLOO_KEY = re.compile(r"(default_pg/0)?//cpu//\d+/(\d+)$")  # group, device, creation, rank that publishes its address
_NCCL_KEY = re.compile(r"//cuda//\d+(?:/|$)")
_CLIENTS = re.compile(r"Timed out after (\d+) seconds waiting for clients\. (\d+)/(\d+) clients joined")
_CLIENT_TIMEOUT = re.compile(r"client socket has timed out after (\d+)(ms|s)? while trying to connect to \(?([\w.:\-\[\]]+), (\d+)\)?")
_CLIENT_FAILED = re.compile(r"client socket has failed to connect to any network address(?: of \(?([\w.:\-\[\]]+), (\d+)\)?)?")
_STORE_BARRIER = re.compile(
    r"Timed out initializing process group in store based barrier on rank:? (\d+).*?world_size=(\d+), (?:num_workers_joined|worker_count)=(\d+)"
    r"(?:, timeout=(\d+):(\d\d):(\d\d))?"
)
_LISTEN = re.compile(
    r"failed to listen on any local network address.*?port: (\d+).*?(?:EADDRINUSE|ddress already in use)|EADDRINUSE|[Aa]ddress already in use", re.DOTALL
)
_UNIQUE_ID = re.compile(r"\[(\d+)\] is setting up NCCL communicators? and retrieving ncclUniqueId from (?:\[(\d+)\]|roots)")
_LOST = re.compile(r"recvValue|sendBytes|recvVector|[Ff]ailed to recv, got 0 bytes|[Cc]onnection was likely closed\. Did the remote server shutdown or crash")
_UNREACHABLE = re.compile(r"No route to host|Network is unreachable|Host is unreachable")
_WAIT_FOR_INPUT = re.compile(r"waitForInput: .*(?:timed out after (\d+)ms|likely a timeout)")

SAMPLES = (
    Sample("torch.distributed.DistStoreError: wait timeout after 12000ms, keys: /default_pg/0//cpu//0/2", "store_wait",
           {"peer_rank": 2, "duration_ms": 12000.0, "key": "/default_pg/0//cpu//0/2"}, "torch/csrc/distributed/c10d/TCPStore.cpp"),
    Sample("torch.distributed.DistStoreError: Timed out after 13 seconds waiting for clients. 3/4 clients joined.", "store_wait",
           {"joined": 3, "world": 4, "duration_ms": 13000.0}, "torch/csrc/distributed/c10d/TCPStore.cpp"),
    Sample("torch.distributed.DistNetworkError: The client socket has timed out after 1800s while trying to connect to (node-0, 29500).", "store_failed",
           {"peer_host": "node-0", "peer_port": 29500, "duration_ms": 1800000.0}, "torch/csrc/distributed/c10d/socket.cpp"),
    Sample("[W708 07:31:55.290000611 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=71, addr=[m1]:47210, remote=[m1]:39117): Broken pipe",
           "teardown_noise", {"how": "broken_pipe"}, "torch/csrc/distributed/c10d/Utils.hpp"),
)  # fmt: skip


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of a store or socket text, None if it is not one."""
    if m := _UNIQUE_ID.search(text):
        # group rank 0 makes the id; its process is gone when the store's answer is a closed connection
        lost = any(word in text for word in ("reset", "0 bytes", "Broken pipe"))
        peer = int(m[2]) if m[2] else 0
        return ("lost_store" if lost else "store_wait"), {"peer_rank": peer, "group_local": True, "group_rank": int(m[1]), "why": "ncclUniqueId"}
    if m := _KEYS.search(text):
        return "store_wait", {"duration_ms": float(m[1]), "key": m[2], **_writer(m[2])}
    if m := _CLIENTS.search(text):
        return "store_wait", {"duration_ms": float(m[1]) * 1000, "joined": int(m[2]), "world": int(m[3])}
    if m := _STORE_BARRIER.search(text):
        waited = (int(m[4]) * 3600 + int(m[5]) * 60 + int(m[6])) * 1000.0 if m[4] else None
        return "store_wait", {"joined": int(m[3]), "world": int(m[2]), "group_rank": int(m[1]), "duration_ms": waited}
    if m := _CLIENT_TIMEOUT.search(text):
        ms = float(m[1]) * (1 if m[2] == "ms" else 1000)
        return "store_failed", {"duration_ms": ms, "peer_host": m[3], "peer_port": int(m[4]), "scope": "job"}
    if m := _LISTEN.search(text):
        return "port_taken", {"port": int(m[1]) if m[1] else None}
    if m := _CLIENT_FAILED.search(text):
        peer_fields = {"peer_host": m[1], "peer_port": int(m[2])} if m[1] else {}
        if why := _UNREACHABLE.search(text):
            return "net_unreachable", {"fault": why[0], **peer_fields}
        return "store_failed", {"scope": "job", **peer_fields}
    if "TCP client failed to connect/validate" in text:
        return "store_failed", {"scope": "job"}
    if _LOST.search(text):
        return "lost_store", {"how": "reset" if "reset" in text else "broken_pipe" if "roken pipe" in text else "closed"}
    if re.search(r"\bSocket Timeout\b", text):
        return "store_wait", {}
    return None


def _writer(key: str) -> dict[str, Any]:
    """Who would have written a key: for gloo the rank at its end, in the default group the global one."""
    if m := _GLOO_KEY.search(key):
        return {"peer_rank": int(m[2])} if m[1] else {"peer_group_rank": int(m[2])}
    return {"why": "ncclUniqueId", "peer_group_rank": 0} if _NCCL_KEY.search(key) else {}


def parse(line: Line, out: Sink) -> bool:
    """Log lines of c10d sockets and stores."""
    text = line.msg
    if "should dump" in text or ("on TCPStore" in text and "Failed to check" in text):
        out.event("teardown_noise", line, source=NAME)
        return True
    origin = line.origin or ""
    if "[c10d" not in text and not origin.startswith(("TCPStore.cpp", "socket.cpp")):
        return False
    retry = "will retry" in text or "failed to connect to [" in text or "retrying (try=" in text
    if retry or line.level in ("INFO", "DEBUG", "VERBOSE"):
        out.event("warned", line, source=NAME, why="retrying" if retry else None)
        return True
    if m := _WAIT_FOR_INPUT.search(text):
        # the exception that follows says which key; this line alone is also printed by waits that go on
        out.event("warned", line, source=NAME, why="slow store", duration_ms=float(m[1]) if m[1] else None)
        return True
    found = classify(text)
    if found is None:
        return False
    kind, fields = found
    if kind == "lost_store" and ("sendBytes failed" in text or "recvValue" in text or "recvVector" in text):
        # a warning of a background thread: at the end of a good run the store is gone first as well
        kind = "teardown_noise"
    out.event(kind, line, source=NAME, **settle(fields, line))
    return True
