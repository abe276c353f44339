from __future__ import annotations

import pytest

from correlator.parsers.sources import gloo, python_traceback

from .reading import only, read

PAIR = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] "


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        (PAIR + "Connection closed by peer [10.1.0.2]:61608. This is typically caused by a remote worker crashing.", "lost_connection",
         {"how": "closed", "peer_host": "10.1.0.2", "peer_port": 61608}),
        (PAIR + "Read error [::1]:4711: Connection reset by peer. This is typically caused by", "lost_connection", {"how": "reset", "peer_host": "::1", "peer_port": 4711}),
        (PAIR + "Write error [10.1.0.2]:9: Broken pipe", "lost_connection", {"how": "broken_pipe", "peer_host": "10.1.0.2", "peer_port": 9}),
        (PAIR + "Read error [10.1.0.2]:9: Connection timed out", "lost_connection", {"how": "timeout", "peer_host": "10.1.0.2", "peer_port": 9}),
        ("[/x/gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 6000ms for send operation to complete", "timed_out_waiting",
         {"duration_ms": 6000.0, "timeout_ms": 6000.0, "direction": "send"}),
        (PAIR + "Application timeout caused pair closure", "timed_out_waiting", {"why": "own timeout before"}),
        ("Gloo connectFullMesh failed with [/x/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[10.0.0.9]:513$1", "lost_connection",
         {"how": "refused", "at": "start-up", "peer_host": "10.0.0.9", "peer_port": 513}),
        ("Gloo connectFullMesh failed with [/x/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection timed out, remote=[10.0.0.9]:513", "lost_connection",
         {"how": "timeout", "at": "start-up", "peer_host": "10.0.0.9", "peer_port": 513}),
        ("Gloo connectFullMesh failed with [/x/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: No route to host, remote=[10.0.0.9]:513", "net_unreachable",
         {"fault": "No route to host", "peer_host": "10.0.0.9", "peer_port": 513}),
        ("[enforce fail at /x/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 4096 vs 4. Received data size doesn't match", "aborted",
         {"why": "size", "got": 4096, "expected": 4}),
        ("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 3000 ms", "accused",
         {"ranks": [1], "why": "monitored_barrier", "group_local": True, "group_rank": 0, "duration_ms": 3000.0}),
        ("ProcessGroupWrapper: Monitored Barrier encountered error running collective: CollectiveFingerPrint(SequenceNumber=3). Error: \n"
         "[Rank 0]: Ranks 1, 5 failed to pass monitoredBarrier in 900 ms", "accused",
         {"ranks": [1, 5], "why": "monitored_barrier", "group_local": True, "group_rank": 0, "duration_ms": 900.0}),
        ("Rank 0 failed to pass monitoredBarrier in 300000 ms", "timed_out_waiting", {"why": "monitored_barrier", "duration_ms": 300000.0}),
        ("Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.", "timed_out_waiting", {"why": "monitored_barrier"}),
    ],
)  # fmt: skip
def test_texts(text: str, kind: str, fields: dict[str, object]) -> None:
    assert gloo.classify(text) == (kind, fields)


@pytest.mark.parametrize("text", ["Connection closed by peer [1.2.3.4]:5", "No module named gloo", "ValueError: bad sample", "wait timeout after 5ms, keys: /a"])
def test_other_texts_are_not_gloo(text: str) -> None:
    assert gloo.classify(text) is None


def test_an_exception_becomes_what_its_text_says_and_keeps_its_type() -> None:
    event = only(read(python_traceback, f"RuntimeError: {PAIR}Connection closed by peer [127.0.0.1]:61608. This is typically"), "lost_connection")
    assert (event.peer_host, event.attrs["how"], event.attrs["exception"]) == ("127.0.0.1", "closed", "RuntimeError")


def test_a_repeated_attempt_is_a_warning_that_names_speaker_and_peer() -> None:
    text = "ERROR failed to connect, willRetry=1, retry=1, retryLimit=3, rank=1, size=2, local=[10.0.0.2]:1, remote=[10.0.0.1]:2, error=SO_ERROR: Connection refused"
    event = only(read(gloo, text), "warned")
    assert (event.peer_host, event.attrs) == ("10.0.0.1", {"why": "retrying", "group_rank": 1, "peer_port": 2})
