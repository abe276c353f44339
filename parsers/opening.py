"""Bytes of one source: decompression by magic, archive members, damage reported and what came kept."""

from __future__ import annotations

import bz2
import io
import itertools
import lzma
import mmap
import re
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

Report = Callable[[int | None, str, str], None]

CHUNK = 4 << 20
MAX_BYTES = 64 << 30  # decompressed bytes of one source
MAX_RATIO = 2000  # decompressed : compressed, above which (and above 1 GiB) a source counts as a bomb
MAX_LAYERS = 4  # compressions inside each other that are undone
_SECTION = re.compile(rb"(?:\A|\n)==> ([^\n]{1,4096}) <==\n")
_MAGIC = ((b"\x1f\x8b", "gz"), (b"(\xb5/\xfd", "zst"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bz2"))


def compression(head: bytes) -> str | None:
    """gz, zst, xz, bz2 or None, by the first bytes and never by the name."""
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


def open_chunks(ref: Any, *, problem: Report) -> Iterator[bytes]:
    """Decompressed bytes of a source in pieces. Damage ends the stream with a problem, not an exception."""
    try:
        if ref.path == "-":
            yield from _text(_decode(sys.stdin.buffer, problem, 0))
        elif ref.span is not None:
            with Path(ref.real_path).open("rb") as f:
                f.seek(ref.span[0])
                yield from _text(_upto(f, ref.span[1] - ref.span[0]))
        elif ref.member is None:
            with Path(ref.real_path).open("rb") as f:
                yield from _text(_decode(f, problem, max(1, Path(ref.real_path).stat().st_size)))
        else:
            with open_member(ref.real_path, ref.member) as f:
                yield from _text(_decode(f, problem, max(1, ref.size)))
    except OSError as exc:
        problem(None, "unreadable", f"{type(exc).__name__}: {exc.strerror or exc}")


def sections(file: Path) -> list[tuple[str, int, int]]:
    """Name, first byte and end of each file inside one that ``head`` or ``tail`` wrote for several.

    GNU and BSD print ``==> NAME <==`` before each file and an empty line before each but the first (coreutils tail.c,
    write_header). Empty when the file does not begin with such a header.
    """
    with file.open("rb") as f:
        if not f.read(4) == b"==> ":
            return []
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = [(m.start(), m.end(), m[1].decode("utf-8", "replace")) for m in _SECTION.finditer(data)]
            ends = [*(start for start, _, _ in found[1:]), len(data)]
    return [(name, start, max(start, end)) for (_, start, name), end in zip(found, ends, strict=True)]


def _upto(f: IO[bytes], left: int) -> Iterator[bytes]:
    while left > 0 and (piece := f.read(min(CHUNK, left))):
        left -= len(piece)
        yield piece


def read_all(ref: Any, *, limit: int, problem: Report) -> bytes:
    """All bytes of a source, at most ``limit``."""
    out = io.BytesIO()
    for chunk in open_chunks(ref, problem=problem):
        out.write(chunk)
        if out.tell() > limit:
            problem(None, "truncated", f"only the first {limit} bytes were read")
            return out.getvalue()[:limit]
    return out.getvalue()


def open_member(path: str, member: str) -> IO[bytes]:
    """A member of a tar (any compression) or zip archive as a binary file."""
    if zipfile.is_zipfile(path):
        return zipfile.ZipFile(path).open(member)
    tar = open_tar(path)
    found = tar.extractfile(member)
    if found is None:
        raise OSError(f"member {member} is not a regular file")
    return found


def open_tar(path: str) -> tarfile.TarFile:
    """A tar archive, decompressed by magic (zstandard included)."""
    with Path(path).open("rb") as f:
        kind = compression(f.read(8))
    if kind == "zst":
        # seekable access is needed for members: decompress to memory-bounded temporary storage
        import tempfile

        import zstandard

        spool = tempfile.SpooledTemporaryFile(max_size=64 << 20)  # noqa: SIM115  closed with the TarFile
        with Path(path).open("rb") as f:
            zstandard.ZstdDecompressor().copy_stream(f, spool)
        spool.seek(0)
        return tarfile.open(fileobj=spool)  # type: ignore[arg-type]
    return tarfile.open(path, "r:*")


def _decode(f: IO[bytes], problem: Report, size: int) -> Iterator[bytes]:
    """The text behind every layer of compression (a rotated ``.gz`` that was packed again for a ticket)."""
    data = _pieces(f.read(CHUNK), f)
    for _ in range(MAX_LAYERS):
        head = next(data, b"")
        kind = compression(head)
        data = itertools.chain([head], data)
        if kind is None:
            break
        data = _bounded(_inflate(kind, data, problem), problem, size)
    yield from data


def _bounded(pieces: Iterator[bytes], problem: Report, size: int) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if size and total > (1 << 30) and total > size * MAX_RATIO or total > MAX_BYTES:
            problem(None, "truncated", f"decompression stopped after {total} bytes: the source looks like a decompression bomb")
            return
        yield piece


def _pieces(head: bytes, f: IO[bytes]) -> Iterator[bytes]:
    while head:
        yield head
        head = f.read(CHUNK)


def _inflate(kind: str, raw: Iterator[bytes], problem: Report) -> Iterator[bytes]:
    make: Callable[[], Any]
    if kind == "gz":
        make = lambda: zlib.decompressobj(31)  # noqa: E731
    elif kind == "xz":
        make = lzma.LZMADecompressor
    elif kind == "bz2":
        make = bz2.BZ2Decompressor
    else:
        import zstandard

        make = lambda: zstandard.ZstdDecompressor().decompressobj()  # noqa: E731
    engine = make()
    finished = False
    try:
        for piece in raw:
            data = piece
            while data:
                if finished:  # several members in one file
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    engine, finished = make(), False
                out = engine.decompress(data)
                for i in range(0, len(out), CHUNK):
                    yield out[i : i + CHUNK]
                finished = bool(getattr(engine, "eof", False))
                data = getattr(engine, "unused_data", b"") if finished else b""
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as exc:
        problem(None, "truncated", f"broken {kind} data: {exc}")
        return
    except Exception as exc:
        problem(None, "truncated", f"broken {kind} data: {type(exc).__name__}: {exc}")
        return
    if not finished:
        problem(None, "truncated", f"the {kind} stream ends in the middle")


def _text(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Drops a UTF-8 byte order mark; turns UTF-16 into UTF-8."""
    import codecs

    decoder: Any = None
    first = True
    for chunk in chunks:
        data = chunk
        if first:
            first = False
            if data.startswith(b"\xef\xbb\xbf"):
                data = data[3:]
            elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(data).encode() if decoder is not None else data
