"""error.json of torchelastic's @record (torch/distributed/elastic/multiprocessing/errors/error_handler.py)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from correlator.parsers.schema import Sink, Stamp, document_line
from correlator.parsers.sources import python_traceback

NAME = "error_json"


def claims(path: str, head: bytes) -> bool:
    """By name, or by the one key that every writer of this file uses."""
    return path.rsplit("/", 1)[-1].startswith("error.json") or head.lstrip().startswith(b'{"message": {"message"')


def parse(path: str, data: bytes, out: Sink) -> None:
    """The exception that left the program, with the second in which it was caught."""
    try:
        document = json.loads(data.decode("utf-8", "replace"))
    except json.JSONDecodeError as exc:
        out.problem(exc.lineno, "truncated" if data else "empty", f"error.json is not complete JSON: {exc.msg}")
        return
    message = document.get("message") if isinstance(document, dict) else None
    if isinstance(message, dict):
        extra = message.get("extraInfo") or {}
        text, stack, stamp = str(message.get("message", "")), str(extra.get("py_callstack", "")), extra.get("timestamp")
    elif isinstance(message, str):
        text, stack, stamp = message, "", document.get("timestamp")
    else:
        out.problem(None, "unreadable", "error.json holds no message")
        return
    frames = [line.strip() for line in stack.splitlines() if line.strip().startswith("File ")]
    line = document_line(1, text)
    try:
        seconds = int(float(stamp))  # type: ignore[arg-type]
        line.stamp = Stamp(seconds * 1_000_000, 0, 1_000_000, True, True, datetime.fromtimestamp(seconds, UTC).isoformat())
    except (TypeError, ValueError, OverflowError):
        pass
    names = [f"{f.split(chr(34))[1].rsplit('/', 1)[-1]}:{f.rsplit(' in ', 1)[-1]}" for f in frames if f.count('"') >= 2 and " in " in f]
    python_traceback.emit(text, line, out, frames=names[-8:], uncaught=True, paths=[f.split('"')[1] for f in frames if f.count('"') >= 2][-8:])
