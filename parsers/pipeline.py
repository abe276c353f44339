"""One source -> one Part: a pure function, safe to run in any process on any machine.

open -> lines -> peel wrappers -> read header -> demultiplex into streams -> parsers and signatures.
A Part holds only what the lines say; ranks, hosts and clocks are settled later for the whole job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any

from correlator.parsers import documents, sources
from correlator.parsers.catalogue import Catalogue
from correlator.parsers.headers import read_header
from correlator.parsers.lines import Chunk, iter_chunks, prefilter, segments, step_candidates, strip_ansi
from correlator.parsers.schema import Event, Line, Problem, Sink, Stamp, Step, Tag, document_line
from correlator.parsers.sources import steps as step_source
from correlator.parsers.sources.identity_lines import header_claim
from correlator.parsers.wrappers import WrapperPlan, decide

HEAD_LINES = 400  # start-up lines name ranks, hosts and versions: all of them are read
BLOCK_LIMIT = 600  # lines that one open block may swallow
LOOK_BACK = 60  # lines searched backwards for a time that an untimed event may inherit
KEEP_ALL_STEPS = 4 << 20  # bytes of a source up to which every step line is kept
STEPS_KEPT = 800  # otherwise about this many, evenly spread, plus the end
REPEAT_LIMIT = 400  # equal events (stream, kind, signature) kept of one source; the rest is counted

# Words that open most failure lines. They only choose the lines that are looked at.
GENERIC_TOKENS = (
    "rror", "ERROR", "xception", "Traceback", "NCCL", "Fatal", "FATAL", "fatal", "ignal", "imeout", "imed out",
    "illed", "failed", "Failed", "exit", "WARN", "Interrupt", "[rank", "oom", "OOM", "abort", "Abort", "NVRM",
    "CANCELLED", "panic", "refused", "world_size", "checkpoint", "omplete", "dataset", "overflow", "OVERFLOW",
    ": nan", "=nan", "= nan", "'nan", ": inf", "=inf", "= inf", "'inf", "NaN", " NAN", "nfinity",
)  # fmt: skip

_PROC = re.compile(r"(?:^|\s)(?P<host>[A-Za-z0-9][\w.\-]*):(?P<pid>\d+):\d+ (?:\[-?\d+\] |\S+ )?.*?NCCL ")


@dataclass(slots=True)
class StreamInfo:
    """One writer inside a source: ``unit`` is the key without per-line proofs ([rankN], host:pid)."""

    key: str
    unit: str
    tags: tuple[Tag, ...]
    last_line: int = 0
    first_line: int = 0
    last_text: str = ""


@dataclass(slots=True)
class Part:
    """What one source says. Lists are in line order."""

    source_id: int
    path: str
    bytes: int = 0
    lines: int = 0
    format: str = "log"
    torn: bool = False
    steps_total: int = 0
    steps_every: int = 1
    streams: dict[str, StreamInfo] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    configs: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    first: Stamp | None = None
    last: Stamp | None = None


@lru_cache(maxsize=1)
def _sources() -> tuple[ModuleType, ...]:
    return tuple(m for m in sources.load() if m is not step_source)


@lru_cache(maxsize=1)
def _documents() -> tuple[ModuleType, ...]:
    return tuple(documents.load())


def parse_document(source_id: int, path: str, data: bytes, catalogue: Catalogue, ref_us: int) -> Part | None:
    """Parses a file that is not a line log, or returns None when no document module claims it."""
    head = data[:4096]
    for module in _documents():
        if not module.claims(path, head):
            continue
        part = Part(source_id, path, bytes=len(data), lines=data.count(b"\n"), format=module.NAME)
        sink = Sink(path, catalogue.refine)
        try:
            module.parse(path, data, sink)
        except Exception as exc:  # a broken document must not stop the others
            sink.problem(None, "unreadable", f"{module.NAME}: {type(exc).__name__}: {exc}")
        part.streams[""] = StreamInfo("", "", (), part.lines, 1)
        _finish(part, sink)
        return part
    return None


def claims_document(path: str, head: bytes) -> bool:
    """Whether a document module wants this file (so that it must be read whole)."""
    return any(module.claims(path, head) for module in _documents())


def parse_log(source_id: int, path: str, chunks: Iterator[bytes], size: int, catalogue: Catalogue, ref_us: int) -> Part:
    """Parses one line log.

    Args:
        source_id, path: identity of the source. size: its (decompressed, estimated) size in bytes.
        chunks: its bytes in any pieces. ref_us: newest time the log can hold, microseconds since 1970
            (file modification time); years are inferred from it.
    """
    return _LogParser(source_id, path, size, catalogue, ref_us).run(chunks)


class _LogParser:
    def __init__(self, source_id: int, path: str, size: int, catalogue: Catalogue, ref_us: int) -> None:
        self.part = Part(source_id, path)
        self.sink = Sink(path, catalogue.refine)
        self.catalogue = catalogue
        self.ref_us = ref_us
        self.size = size
        self.plan: WrapperPlan | None = None
        self.modules = _sources()
        self.tokens = tuple(dict.fromkeys([*GENERIC_TOKENS, *(t for m in self.modules for t in m.TOKENS), *catalogue.tokens]))
        self.blocks: dict[str, tuple[Any, int]] = {}  # stream -> (block, lines left)
        self.untagged: tuple[str, int] | None = None  # stream and last line of a block that untagged lines may continue
        self.last_stamp: dict[str, Stamp] = {}  # unit -> newest stamp seen
        self.repeats: dict[tuple[str, str, str], int] = {}
        self.done = 0  # events already post-processed

    def run(self, chunks: Iterator[bytes]) -> Part:
        part = self.part
        for chunk in iter_chunks(chunks, problem=self.sink.problem):
            if self.plan is None:
                self.plan = decide(_sample(chunk))
            self._chunk(chunk)
            part.lines = chunk.first_line + len(chunk) - 1
            part.bytes = chunk.end_offset
            part.torn = chunk.torn
        for stream in list(self.blocks):
            self._close(stream)
        self._post()
        _finish(part, self.sink)
        return part

    # ---- choosing lines -------------------------------------------------------------------------
    def _chunk(self, chunk: Chunk) -> None:
        hot = set(prefilter(chunk, self.tokens))
        wanted = set(hot)
        step_lines = step_candidates(chunk, step_source.STEP_PATTERN)
        self.part.steps_total += len(step_lines)
        kept = step_lines
        if self.size > KEEP_ALL_STEPS and len(step_lines) > 400:
            every = max(1, len(step_lines) * max(1, self.size // max(1, chunk.size)) // STEPS_KEPT)
            self.part.steps_every = max(self.part.steps_every, every)
            kept = sorted({*step_lines[:50], *step_lines[::every], *step_lines[-300:]})
            wanted.difference_update(_plain_steps(chunk, set(step_lines) - set(kept)))
        wanted.update(kept)
        if chunk.first_line <= HEAD_LINES:
            wanted.update(range(min(len(chunk), HEAD_LINES)))
        steps, cold = set(step_lines), set(kept) - hot
        cursor = -1
        for index in sorted(wanted):
            if index <= cursor:
                continue
            cursor = index
            self._line(chunk, index, index in steps, index in cold and chunk.first_line + index > HEAD_LINES)
            while self.blocks and cursor + 1 < len(chunk):
                cursor += 1
                self._line(chunk, cursor, cursor in steps)
        if len(chunk):  # how far each writer got
            for index in range(max(0, len(chunk) - 40), len(chunk)):
                if index not in wanted and index > cursor:
                    self._touch(chunk, index)

    def _touch(self, chunk: Chunk, index: int) -> None:
        for line in self._peel(chunk, index):
            self._stream(line)

    # ---- one physical line ----------------------------------------------------------------------
    def _peel(self, chunk: Chunk, index: int) -> list[Line]:
        assert self.plan is not None
        out: list[Line] = []
        raw_line = chunk.text(index)
        no, offset = chunk.first_line + index, chunk.offset(index)
        for piece in segments(raw_line):
            piece = strip_ansi(piece)
            parts = self.plan.split(piece)
            for raw in parts:
                tags, text, outer = self.plan.peel(raw)
                head = read_header(text, self.ref_us, self.plan.order)
                stamp = head.stamp or outer
                line = Line(
                    no=no, offset=offset, raw=raw, text=text, msg=text[head.msg_start :], tags=tags, stamp=stamp,
                    outer=outer, level=head.level, origin=head.origin, header_pid=head.pid, torn=len(parts) > 1,
                )  # fmt: skip
                if " NCCL " in text and (m := _PROC.search(text)):
                    line.tags = (*tags, Tag("proc", int(m["pid"]), m["host"].split(".")[0]))
                out.append(line)
        return out

    def _stream(self, line: Line) -> StreamInfo:
        unit = "|".join(_tag_key(t) for t in line.tags if t.kind not in ("ranktag", "proc", "std"))
        proof = "|".join(_tag_key(t) for t in line.tags if t.kind in ("ranktag", "proc"))
        key = f"{unit}>{proof}" if proof else unit
        info = self.part.streams.get(key)
        if info is None:
            info = self.part.streams[key] = StreamInfo(key, unit, line.tags, line.no, line.no)
        info.last_line, info.last_text = line.no, line.raw[:300]
        line.stream = key
        if line.stamp is not None and line.stamp.has_date:
            self.last_stamp[unit] = line.stamp
            if self.part.first is None:
                self.part.first = line.stamp
            self.part.last = line.stamp
        return info

    def _line(self, chunk: Chunk, index: int, is_step: bool, cold: bool = False) -> None:
        for line in self._peel(chunk, index):
            info = self._stream(line)
            if cold and line.stream not in self.blocks:
                step_source.parse(line, self.sink)  # a plain step line: no other module wants it
                continue
            before = len(self.sink.events)
            self._dispatch(line, is_step)
            for ev in self.sink.events[before:]:
                if ev.rank is None and ev.line == line.no and (claim := header_claim(line)) is not None and "global_rank" in claim:
                    ev.attrs["claimed"] = claim["global_rank"]  # it counts where several ranks share the stream
            if len(self.sink.events) > before or len(self.sink.events) > self.done:
                self._post(chunk, index, info.unit)

    def _dispatch(self, line: Line, is_step: bool) -> None:
        if line.stream not in self.blocks and self.untagged is not None and self.untagged[1] == line.no - 1:
            stream = self.untagged[0]
            if stream in self.blocks and self.part.streams[stream].unit == line.stream:
                line.stream = stream  # a message of several lines whose first line alone has the writer's tag
        open_block = self.blocks.get(line.stream)
        if open_block is not None:
            block, left = open_block
            if left > 0 and block.feed(line, self.sink):
                self.blocks[line.stream] = (block, left - 1)
                self._remember(block, line)
                return
            self._close(line.stream)
            if ">" in line.stream and not any(t.kind in ("ranktag", "proc") for t in line.tags):
                line.stream = self.part.streams[line.stream].unit
        if is_step:
            progress, rest = step_source.split_progress(line.text)
            if progress and rest.strip():
                # a progress bar has no newline of its own: what follows is another line of the same writer
                head = read_header(rest, self.ref_us, self.plan.order)
                glued = Line(no=line.no, offset=line.offset, raw=rest, text=rest, msg=rest[head.msg_start :], tags=line.tags,
                             stamp=head.stamp or line.stamp, level=head.level, origin=head.origin, stream=line.stream)  # fmt: skip
                step_source.parse(Line(no=line.no, offset=line.offset, raw=progress, text=progress, msg=progress,
                                       tags=line.tags, stamp=line.stamp, stream=line.stream), self.sink)  # fmt: skip
                line = glued
            else:
                step_source.parse(line, self.sink)
        for module in self.modules:
            block_type = getattr(module, "Block", None)
            if block_type is not None and block_type.opens(line):
                self.blocks[line.stream] = (block_type(line), BLOCK_LIMIT)
                self._remember(self.blocks[line.stream][0], line)
                return
        for module in self.modules:
            if any(t in line.text for t in module.TOKENS) and module.parse(line, self.sink):
                return
        hit = self.catalogue.match_line(line.msg)
        if hit is not None:
            self.sink.event(hit.predicate, line, source=hit.source, **_fields(hit.attrs))

    def _remember(self, block: Any, line: Line) -> None:
        self.untagged = (line.stream, line.no) if getattr(block, "UNTAGGED", False) else None

    def _close(self, stream: str) -> None:
        block, _ = self.blocks.pop(stream)
        block.close(self.sink)

    # ---- after an event -------------------------------------------------------------------------
    def _post(self, chunk: Chunk | None = None, index: int = 0, unit: str = "") -> None:
        """Times for untimed events, second-hand exceptions, and a bound on repeats."""
        events = self.sink.events
        kept = events[: self.done]
        for ev in events[self.done :]:
            signature = str(ev.attrs.get("signature", ev.attrs.get("exception", "")))
            count = self.repeats[ev.stream, ev.kind, signature] = self.repeats.get((ev.stream, ev.kind, signature), 0) + 1
            if count > REPEAT_LIMIT and ev.kind not in ("identity", "mapping", "exit_record", "enqueued"):
                continue
            if ev.stamp is None:
                stamp = self.last_stamp.get(unit)
                if stamp is None and chunk is not None:
                    stamp = self._look_back(chunk, index)
                if stamp is not None:
                    ev.stamp, ev.ts_origin = stamp, "inherited"
            kept.append(ev)
        events[:] = kept
        self.done = len(events)

    def _look_back(self, chunk: Chunk, index: int) -> Stamp | None:
        for back in range(index - 1, max(-1, index - LOOK_BACK), -1):
            for line in self._peel(chunk, back):
                if line.stamp is not None and line.stamp.has_date:
                    return line.stamp
        return None


def _finish(part: Part, sink: Sink) -> None:
    part.events, part.steps, part.configs = sink.events, sink.steps, sink.configs
    part.problems.extend(sink.problems)
    for ev in part.events:
        if ev.stream not in part.streams:
            part.streams[ev.stream] = StreamInfo(ev.stream, ev.stream.split(">")[0], (), ev.line, ev.line)
    for st in part.steps:
        if st.stream not in part.streams:
            part.streams[st.stream] = StreamInfo(st.stream, st.stream.split(">")[0], (), st.line, st.line)
    if not part.streams:
        part.streams[""] = StreamInfo("", "", (), 0, 0)
    if not part.steps_total:
        part.steps_total = len(part.steps)
    part.events.extend(_second_hand(part, sink))


def _second_hand(part: Part, sink: Sink) -> list[Event]:
    """An exit record that quotes the exception of its process also says what that process went through."""
    out: list[Event] = []
    from correlator.parsers.sources import python_traceback

    for ev in part.events:
        text = ev.attrs.get("exception_text")
        if ev.kind != "exit_record" or not text or ev.peer_rank is None:
            continue
        line = document_line(ev.attrs.get("exception_line") or ev.line, str(text), ev.byte_offset, None)
        line.stream = ev.stream
        side = Sink(part.path, sink._refine)
        python_traceback.emit(str(text), line, side, second_hand=True)
        for more in side.events:
            more.attrs["subject_rank"] = ev.peer_rank
            more.rank = None
            out.append(more)
    return out


def _fields(attrs: dict[str, Any]) -> dict[str, Any]:
    """Captures with a column of their own go there, the rest stays in attrs."""
    out = dict(attrs)
    for name, column, kind in (("peer", "peer_rank", int), ("step", "step", int), ("seq", "seq", int), ("ms", "duration_ms", float)):
        if name in out:
            try:
                out[column] = kind(out.pop(name))
            except ValueError:
                out[column] = None
    if "rank" in out:
        out["subject_rank"] = out.pop("rank")
    if "host" in out:
        out["peer_host"] = out.pop("host")
    return out


def _tag_key(tag: Tag) -> str:
    extra = f"@{tag.extra.get('ip') or ''}" if tag.extra and tag.extra.get("ip") else ""
    return f"{tag.kind}:{tag.name or ''}{'' if tag.value is None else tag.value}{extra}"


def _sample(chunk: Chunk) -> list[str]:
    n = len(chunk)
    picks = [*range(min(n, 300)), *range(300, n, max(1, n // 300))]
    return [strip_ansi(chunk.text(i)[:2000]) for i in picks]


def _plain_steps(chunk: Chunk, indices: set[int]) -> set[int]:
    """Step lines that may be skipped: those without a non-finite value or a word of failure."""
    return {i for i in indices if not _HOT.search(chunk.text(i))}


_HOT = re.compile(r"(?i)[:=]\s*'?-?(nan|inf)|traceback|error|exception")
