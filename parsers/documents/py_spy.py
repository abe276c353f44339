"""py-spy dumps: what each process was doing when somebody looked (py-spy dump output)."""

from __future__ import annotations

import re

from correlator.parsers.schema import Sink, document_line

NAME = "py_spy"
_PROCESS = re.compile(r"^Process (\d+): (.*)$", re.M)
_FRAME = re.compile(r"^\s+(.+?) \(([^():]+):(\d+)\)\s*$")


def claims(path: str, head: bytes) -> bool:
    """By its first line and the thread header that follows."""
    return re.match(rb"\s*Process \d+: ", head) is not None and b"Thread " in head


def parse(path: str, data: bytes, out: Sink) -> None:
    """One ``stack`` event a process: the main thread's frames, innermost first."""
    lines = data.decode("utf-8", "replace").splitlines()
    process: tuple[int, int, str] | None = None
    frames: list[str] = []
    main = False

    def flush() -> None:
        if process is None or not frames:
            return
        no, pid, command = process
        line = document_line(no, f"{frames[0]} <- {' <- '.join(frames[1:4])}")
        local = re.search(r"--local[_-]rank[= ](\d+)", command)
        if local:
            out.identity(line, NAME, local_rank=int(local[1]), pid=pid, how="command line")
        out.event("stack", line, source=NAME, top=frames[0], frames=frames[:12], pid=pid, local_rank=int(local[1]) if local else None)
        if any("file_baton.py" in f and f.endswith(":wait") for f in frames[:3]):
            out.event("waiting_on_lock", line, source=NAME, pid=pid, scope="job")

    for no, text in enumerate(lines, 1):
        if m := _PROCESS.match(text):
            flush()
            process, frames, main = (no, int(m[1]), m[2]), [], False
        elif text.startswith("Thread "):
            main = "MainThread" in text or not frames
        elif main and (m := _FRAME.match(text)):
            frames.append(f"{m[2].rsplit('/', 1)[-1]}:{m[1]}")
    flush()
