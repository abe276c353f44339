from __future__ import annotations

import pytest

from correlator.parsers.schema import Tag
from correlator.parsers.sources import c10d_store, python_traceback

from .reading import only, read


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("wait timeout after 12000ms, keys: /default_pg/0//cpu//0/2", "store_wait", {"duration_ms": 12000.0, "key": "/default_pg/0//cpu//0/2", "peer_rank": 2}),
        ("wait timeout after 5ms, keys: /worker_pg/3//cpu//0/2", "store_wait", {"duration_ms": 5.0, "key": "/worker_pg/3//cpu//0/2", "peer_group_rank": 2}),
        ("wait timeout after 5ms, keys: /default_pg/0//cuda//0", "store_wait",
         {"duration_ms": 5.0, "key": "/default_pg/0//cuda//0", "why": "ncclUniqueId", "peer_group_rank": 0}),
        ("wait timeout after 5ms, keys: /ds/ready", "store_wait", {"duration_ms": 5.0, "key": "/ds/ready"}),
        ("Timed out after 13 seconds waiting for clients. 3/4 clients joined.", "store_wait", {"duration_ms": 13000.0, "joined": 3, "world": 4}),
        ("Timed out initializing process group in store based barrier on rank: 1, for key: store_based_barrier_key:1 (world_size=8, num_workers_joined=5, timeout=0:30:00)",
         "store_wait", {"joined": 5, "world": 8, "group_rank": 1, "duration_ms": 1_800_000.0}),
        ("Timed out initializing process group in store based barrier on rank 1, for key store_based_barrier_key:1 (world_size=8, worker_count=5, timeout=0:00:30)",
         "store_wait", {"joined": 5, "world": 8, "group_rank": 1, "duration_ms": 30_000.0}),
        ("The client socket has timed out after 1800s while trying to connect to (node-0, 29500).", "store_failed",
         {"duration_ms": 1_800_000.0, "peer_host": "node-0", "peer_port": 29500, "scope": "job"}),
        ("The client socket has timed out after 400ms while trying to connect to (10.0.0.1, 29500).", "store_failed",
         {"duration_ms": 400.0, "peer_host": "10.0.0.1", "peer_port": 29500, "scope": "job"}),
        ("The client socket has failed to connect to any network address of (node-0, 29500). The client socket has failed to connect to node-0:29500 (errno: 111 - Connection refused).",
         "store_failed", {"scope": "job", "peer_host": "node-0", "peer_port": 29500}),
        ("The client socket has failed to connect to any network address of (node-0, 29500). ... (errno: 113 - No route to host).",
         "net_unreachable", {"fault": "No route to host", "peer_host": "node-0", "peer_port": 29500}),
        ("The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
         "port_taken", {"port": 29500}),
        ("[Errno 98] Address already in use", "port_taken", {"port": None}),
        ("[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
         "store_wait", {"peer_rank": 0, "group_local": True, "group_rank": 1, "why": "ncclUniqueId"}),
        ("[1] is setting up NCCL communicators and retrieving ncclUniqueId from roots via TCPStore by key '[0]', but got error: Connection reset by peer",
         "lost_store", {"peer_rank": 0, "group_local": True, "group_rank": 1, "why": "ncclUniqueId"}),
        ("failed to recv, got 0 bytes", "lost_store", {"how": "closed"}),
        ("Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?", "lost_store", {"how": "closed"}),
        ("Socket Timeout", "store_wait", {}),
    ],
)  # fmt: skip
def test_texts(text: str, kind: str, fields: dict[str, object]) -> None:
    assert c10d_store.classify(text) == (kind, fields)


@pytest.mark.parametrize("text", ["Connection reset by peer", "The read operation timed out", "keys: a, b"])
def test_other_texts_are_not_the_store(text: str) -> None:
    assert c10d_store.classify(text) is None


def test_group_numbers_are_not_global_ranks() -> None:
    """The speaker is number 1 of its group and global rank 5: number 0 of that group is not global rank 0."""
    text = "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout"
    other = only(read(python_traceback, text, tags=(Tag("ranktag", 5, spaced=True),)), "store_wait")
    assert (other.rank, other.peer_rank, other.attrs["peer_group_rank"]) == (5, None, 0)
    default = only(read(python_traceback, text, tags=(Tag("ranktag", 1, spaced=True),)), "store_wait")
    assert (default.rank, default.peer_rank) == (1, 0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[W708 07:31:55.290000611 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=71, addr=[m1]:47210, remote=[m1]:39117): Broken pipe", "teardown_noise"),
        ("[W708 07:31:55.290000611 TCPStore.cpp:125] [c10d] recvValueWithTimeout failed on SocketImpl(fd=3, addr=[a]:1, remote=[b]:2): Connection reset by peer", "teardown_noise"),
        ('[W708 07:31:55.290000611 ProcessGroupNCCL.cpp:1] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early)', "teardown_noise"),
        ("[W708 07:31:55.290000611 socket.cpp:464] [c10d] waitForInput: socket SocketImpl(fd=3, addr=[a]:1, remote=[b]:2) timed out after 1000ms", "warned"),
        ("[W708 07:31:55.290000611 socket.cpp:752] [c10d] The client socket has failed to connect to [node-0]:29500 (errno: 111 - Connection refused).", "warned"),
        ("[W708 07:31:55.290000611 TCPStore.cpp:343] [c10d] TCP client failed to connect/validate to host a:1 - retrying (try=0, timeout=60000ms, delay=5ms): x", "warned"),
        ("[E708 07:31:55.290000611 TCPStore.cpp:332] [c10d] TCP client failed to connect/validate to host a:1 - timed out (try=1, timeout=60000ms): x", "store_failed"),
        ("[E708 07:31:55.290000611 socket.cpp:1019] [c10d] The client socket has timed out after 60000ms while trying to connect to (a, 29500).", "store_failed"),
        ("[E708 07:31:55.290000611 socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.", None),
    ],
)  # fmt: skip
def test_log_lines(text: str, kind: str | None) -> None:
    assert [e.kind for e in read(c10d_store, text).events] == ([kind] if kind else [])
