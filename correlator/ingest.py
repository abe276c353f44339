"""Parses every source of a job, in this process or in worker processes, into Parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from correlator.discover import SourceRef
from correlator.parsers.catalogue import Catalogue
from correlator.parsers.opening import open_chunks, read_all
from correlator.parsers.pipeline import Part, claims_document, parse_document, parse_log
from correlator.parsers.schema import Problem

PARALLEL_BYTES = 48 << 20  # below this much input, worker processes cost more than they save
DOCUMENT_LIMIT = 64 << 20

Progress = Callable[[int, int], None]  # bytes done, bytes in all


def parse_source(ref: SourceRef, catalogue: Catalogue) -> Part:
    """One source -> one Part. Never raises: what cannot be read becomes a problem of the Part."""
    problems: list[Problem] = []

    def problem(line: int | None, kind: str, detail: str) -> None:
        problems.append(Problem(ref.path, line, kind, detail))

    part = Part(ref.source_id, ref.path)
    ref_us = int(ref.mtime * 1_000_000)
    try:
        chunks = open_chunks(ref, problem=problem)
        first = next(chunks, b"")
        if claims_document(ref.path, first[:4096]):
            data = read_all(ref, limit=DOCUMENT_LIMIT, problem=problem)
            part = parse_document(ref.source_id, ref.path, data, catalogue, ref_us) or part
        else:
            part = parse_log(ref.source_id, ref.path, _again(first, chunks), ref.size, catalogue, ref_us)
    except Exception as exc:  # the last line of defence: a bad file never stops the other files
        if os.environ.get("CORRELATOR_DEBUG"):
            raise
        problem(None, "unreadable", f"{type(exc).__name__}: {exc}")
    part.problems.extend(problems)
    if any(p.kind in ("truncated", "torn") for p in problems):
        part.torn = True
    return part


def parse_all(refs: list[SourceRef], catalogue: Catalogue, progress: Progress | None = None) -> list[Part]:
    """All Parts in the order of ``refs``, whatever order they were parsed in."""
    total = sum(r.size for r in refs)
    done = 0
    parts: list[Part] = []
    cores = os.cpu_count() or 1
    if total < PARALLEL_BYTES or cores == 1 or len(refs) < 2 or any(r.path == "-" for r in refs):
        results: Iterator[Part] = (parse_source(r, catalogue) for r in refs)
        pool = None
    else:
        # polars keeps threads of its own: spawn, never fork
        pool = ProcessPoolExecutor(min(cores, len(refs)), mp_context=get_context("spawn"))
        results = pool.map(partial(parse_source, catalogue=catalogue), refs, chunksize=max(1, min(64, len(refs) // (cores * 8))))
    try:
        for ref, part in zip(refs, results, strict=True):
            parts.append(part)
            done += ref.size
            if progress is not None:
                progress(done, total)
    finally:
        if pool is not None:
            pool.shutdown()
    return parts


def _again(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
