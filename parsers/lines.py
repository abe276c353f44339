"""Bytes -> candidate lines, fast: polars finds the lines that hold a literal, Python only sees those.

Lines are counted by ``\\n`` alone and byte offsets are exact, also with broken UTF-8 (each bad byte becomes
one ``?``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

Report = Callable[[int | None, str, str], None]

CHUNK_BYTES = 16 << 20
LINE_LIMIT = 64 << 10  # characters of one line that are looked at
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00\x08]")


class Chunk:
    """Whole lines of one piece of a source."""

    def __init__(self, data: bytes, first_line: int, start: int, torn: bool) -> None:
        import polars as pl

        self.first_line, self.torn, self.size = first_line, torn, len(data)
        self.end_offset = start + len(data)
        body = data[:-1] if data.endswith(b"\n") else data
        self.series: pl.Series = pl.Series([_safe(body)], dtype=pl.String).str.split("\n").explode() if data else pl.Series([], dtype=pl.String)
        lengths = self.series.str.len_bytes().cast(pl.Int64) + 1
        self._offsets = (lengths.cum_sum() - lengths + start) if len(self.series) else lengths

    def __len__(self) -> int:
        return len(self.series)

    def text(self, index: int) -> str:
        """The line without its newline, cut at LINE_LIMIT."""
        value = self.series[index]
        return value if len(value) <= LINE_LIMIT else value[:LINE_LIMIT]

    def offset(self, index: int) -> int:
        """Byte offset of the line's first byte in the (decompressed) source."""
        return int(self._offsets[index])


def _safe(data: bytes) -> str:
    """Text of the same byte length: every undecodable byte becomes one ``?``."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "correlator-mark")


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


import codecs  # noqa: E402

codecs.register_error("correlator-mark", _mark)


def iter_chunks(pieces: Iterator[bytes], *, size: int = CHUNK_BYTES, problem: Report | None = None) -> Iterator[Chunk]:
    """Chunks of whole lines, about ``size`` bytes each; a longer line makes a longer chunk."""
    buffer: list[bytes] = []
    held = 0
    line, offset = 1, 0
    for piece in pieces:
        buffer.append(piece)
        held += len(piece)
        if held < size or b"\n" not in piece:
            continue
        data = b"".join(buffer)
        cut = data.rfind(b"\n") + 1
        chunk = Chunk(data[:cut], line, offset, False)
        _long_lines(chunk, problem)
        yield chunk
        line, offset = line + len(chunk), offset + cut
        buffer, held = [data[cut:]], len(data) - cut
    data = b"".join(buffer)
    if data:
        chunk = Chunk(data, line, offset, not data.endswith(b"\n"))
        _long_lines(chunk, problem)
        yield chunk


def _long_lines(chunk: Chunk, problem: Report | None) -> None:
    if problem is None or chunk.size <= LINE_LIMIT:
        return
    lengths = chunk.series.str.len_bytes()
    for index in (lengths > LINE_LIMIT).arg_true().to_list()[:20]:
        problem(chunk.first_line + index, "long_line", f"line of {lengths[index]} bytes: only the first {LINE_LIMIT} characters are read")


@lru_cache(maxsize=8)
def _alternation(tokens: tuple[str, ...]) -> str:
    shortest = [t for t in tokens if not any(o != t and o in t for o in tokens)]
    return "|".join(re.escape(t) for t in sorted(set(shortest)))


def prefilter(chunk: Chunk, tokens: tuple[str, ...]) -> list[int]:
    """Indices of lines that hold any of the literals."""
    return chunk.series.str.contains(_alternation(tokens)).arg_true().to_list()


def step_candidates(chunk: Chunk, pattern: str) -> list[int]:
    """Indices of lines that look like training steps."""
    return chunk.series.str.contains(pattern).arg_true().to_list()


def segments(line: str) -> Sequence[str]:
    """The writings of a line that a carriage return overwrites: all that say something, in order."""
    if "\r" not in line:
        return (line,)
    parts = [p for p in line.split("\r") if p.strip()]
    if len(parts) > 8:  # a progress bar: its last state, and every segment that is not the bar
        parts = [*(p for p in parts[:-1] if "%|" not in p), parts[-1]][-64:]
    return parts or ("",)


def strip_ansi(text: str) -> str:
    """The text without escape sequences, NULs and backspaces."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\x00" in text or "\x08" in text:
        text = _CONTROL.sub("", text)
    return text
