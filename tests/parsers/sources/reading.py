"""Reads text the way the pipeline does, without wrappers: header, progress bars, blocks, parsers."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from correlator.parsers.headers import read_header
from correlator.parsers.schema import Event, Line, Sink, Tag

NEWEST_US = 1_798_000_000_000_000  # late in 2026


def line(text: str, no: int = 1, stream: str = "", tags: tuple[Tag, ...] = ()) -> Line:
    head = read_header(text, NEWEST_US)
    return Line(no=no, offset=0, raw=text, text=text, msg=text[head.msg_start :], tags=tags, stamp=head.stamp, level=head.level,
                origin=head.origin, header_pid=head.pid, stream=stream)  # fmt: skip


def read(module: ModuleType, text: str, stream: str = "", tags: tuple[Tag, ...] = ()) -> Sink:
    """Feeds every line of a text to one module."""
    out = Sink("x.log")
    block: Any = None
    for no, raw in enumerate(text.split("\n"), 1):
        one = line(raw, no, stream, tags)
        if block is not None:
            if block.feed(one, out):
                continue
            block.close(out)
            block = None
        block_type = getattr(module, "Block", None)
        if block_type is not None and block_type.opens(one):
            block = block_type(one)
            continue
        module.parse(one, out)
    if block is not None:
        block.close(out)
    return out


def only(out: Sink, kind: str) -> Event:
    found = [e for e in out.events if e.kind == kind]
    assert len(found) == 1, [(e.kind, e.message) for e in out.events]
    return found[0]
