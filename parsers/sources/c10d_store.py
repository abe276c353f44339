"""TCPStore, rendezvous of processes and c10d sockets (TCPStore.cpp, socket.cpp, rendezvous.py)."""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "c10d_store"
TOKENS = ("[c10d", "TCPStore", "wait timeout after", "clients joined", "client socket", "server socket", "store based barrier", "Socket Timeout", "EADDRINUSE", "ddress already in use")

_KEYS = re.compile(r"wait timeout after (\d+)ms, keys: (\S+)")
_CLIENTS = re.compile(r"Timed out after (\d+) seconds waiting for clients\. (\d+)/(\d+) clients joined")
_CLIENT_TIMEOUT = re.compile(r"client socket has timed out after (\d+)(ms|s|000ms)? while trying to connect to \(?([\w.:\-\[\]]+), (\d+)\)?")
_STORE_BARRIER = re.compile(r"Timed out initializing process group in store based barrier on rank:? (\d+).*?world_size=(\d+), (?:num_workers_joined|worker_count)=(\d+)")
_LISTEN = re.compile(r"failed to listen on any local network address.*?port: (\d+)|EADDRINUSE|[Aa]ddress already in use", re.DOTALL)
_UNIQUE_ID = re.compile(r"\[(\d+)\] is setting up NCCL communicators? and retrieving ncclUniqueId from (?:\[(\d+)\]|roots)")

SAMPLES = (
    Sample("torch.distributed.DistStoreError: wait timeout after 12000ms, keys: /default_pg/0//cpu//0/2", "store_wait", {"peer_rank": 2}, "torch/csrc/distributed/c10d/TCPStore.cpp"),
)


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of a store or socket text, None if it is not one."""
    if m := _UNIQUE_ID.search(text):
        lost = "reset" in text or "got 0 bytes" in text or "0 bytes" in text or "Broken pipe" in text
        return ("lost_store" if lost else "store_wait"), {"peer_rank": int(m[2]) if m[2] else 0, "group_local": True, "why": "ncclUniqueId"}
    if m := _KEYS.search(text):
        fields: dict[str, Any] = {"duration_ms": float(m[1]), "key": m[2]}
        if last := re.search(r"//(?:cpu|cuda)//\d+/(\d+)$", m[2]):
            fields["peer_rank"] = int(last[1])
        return "store_wait", fields
    if m := _CLIENTS.search(text):
        return "store_wait", {"duration_ms": float(m[1]) * 1000, "joined": int(m[2]), "world": int(m[3])}
    if m := _STORE_BARRIER.search(text):
        return "store_wait", {"joined": int(m[3]), "world": int(m[2])}
    if m := _CLIENT_TIMEOUT.search(text):
        ms = float(m[1]) * (1 if (m[2] or "s").endswith("ms") else 1000)
        return "store_failed", {"duration_ms": ms, "peer_host": m[3], "peer_port": int(m[4]), "scope": "job"}
    if _LISTEN.search(text):
        return "port_taken", {}
    if re.search(r"recvValue|sendBytes|recvVector|Failed to recv, got 0 bytes|failed to recv, got 0 bytes", text):
        return "lost_store", {"how": "reset" if "reset" in text else "broken_pipe" if "roken pipe" in text else "closed"}
    if re.search(r"client socket has failed to connect to any network address|TCP client failed to connect/validate", text):
        return "store_failed", {"scope": "job"}
    if re.search(r"\bSocket Timeout\b", text):
        return "store_wait", {}
    return None


def parse(line: Line, out: Sink) -> bool:
    """Log lines of c10d sockets and stores."""
    text = line.msg
    if "should dump" in text or "on TCPStore" in text and "Failed to check" in text:
        out.event("teardown_noise", line, source=NAME)
        return True
    if "[c10d" not in text and "TCPStore.cpp" not in (line.origin or "") and "socket.cpp" not in (line.origin or ""):
        return False
    if "will retry" in text or "failed to connect to [" in text or "retrying (try=" in text or (line.level in ("INFO", "DEBUG", "VERBOSE")):
        out.event("warned", line, source=NAME)
        return True
    found = classify(text)
    if found is None:
        return False
    kind, fields = found
    if kind == "lost_store":
        kind = "teardown_noise" if "sendBytes failed" in text or "recvValue failed" in text else kind
    out.event(kind, line, source=NAME, **fields)
    return True
