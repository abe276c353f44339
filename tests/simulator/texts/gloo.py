"""Gloo's errors as last line of an exception (reference: pytorch.md 4.1; FINDINGS on which peer error follows which death)."""

from __future__ import annotations

from tests.simulator.cluster import Job

_TCP = "/pytorch/third_party/gloo/gloo/transport/tcp"


def closed(job: Job, ip: str, port: int) -> str:
    tail = " This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}"
    return f"RuntimeError: [{_TCP}/pair.cc:553] Connection closed by peer [{ip}]:{port}{'.' + tail if job.torch[1] >= 13 else ''}"


def reset(job: Job, ip: str, port: int) -> str:
    tail = ". This is typically caused by a remote worker hanging or bugs in the application. Check the logs of the remote worker before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}"
    return f"RuntimeError: [{_TCP}/pair.cc:537] Read error [{ip}]:{port}: Connection reset by peer{tail if job.torch[1] >= 13 else ''}"


def timed_out(ms: int, direction: str) -> str:
    return f"RuntimeError: [{_TCP}/unbound_buffer.cc:{78 if direction == 'recv' else 129}] Timed out waiting {ms}ms for {direction} operation to complete"
