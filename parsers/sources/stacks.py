"""What a stack dump says: shared by faulthandler's dumps in a log and py-spy's files."""

from __future__ import annotations

from typing import Any

from correlator.parsers.schema import Event, Line, Sink

FRAMES_KEPT = 12


def frame(path: str, function: str) -> str:
    """``file:function`` as attrs carry it, without the folder, which differs between hosts."""
    return f"{path.rsplit('/', 1)[-1]}:{function}"


def emit_stack(out: Sink, line: Line, frames: list[str], *, source: str, message: str | None = None, **fields: Any) -> Event:
    """Adds a ``stack`` event; frames are ``file:function``, the most recent call first.

    A process in torch.utils.file_baton's ``wait`` waits for the lock file of an extension build, for ever if the
    build was killed (torch/utils/file_baton.py), so that is said as well.
    """
    event = out.event("stack", line, source=source, message=message, top=frames[0] if frames else None, frames=frames[:FRAMES_KEPT], **fields)
    if "file_baton.py:wait" in frames[:3]:
        out.event("waiting_on_lock", line, source=source, message=message, rank=fields.get("rank"), pid=fields.get("pid"), scope="job")
    return event
