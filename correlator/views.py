"""The same logs, handed over differently: what a job looks like after `cat`, `tail`, `srun --label`, gzip or a rename.

A verdict that changes between views of one job rests on the hand-over and not on the evidence. A view is only made where
it loses nothing: a rank that is known from its file's name alone keeps its number in the new name, and files are only
poured together raw when their own lines say who wrote them.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from correlator.parsers.headers import read_header
from correlator.parsers.opening import compression
from correlator.store import open_readonly

_PATH_ONLY = ("path", "number in the file name", "local rank plus the node's first rank", "local rank of the only agent", "node rank times local world size")


@dataclass(slots=True, frozen=True)
class LogFile:
    """One file of a judged job.

    Attributes:
        path: relative to the logs. text: its bytes. rank: the only rank that writes in it, else None. host: its machine, if one is known.
        named: its own lines say who wrote them. single: one process wrote it. document: it is no line log (a dump, an error file).
        launcher_tree: its folders are a launcher's (``attempt_0/3/stderr.log``) and say which attempt it is.
    """

    path: str
    text: bytes
    rank: int | None
    host: str | None
    named: bool
    single: bool
    document: bool
    launcher_tree: bool


def files_of(logs: Path, store_path: str) -> list[LogFile]:
    """The files of a job, with what the engine knows of their writers (``store_path``: its job file)."""
    con = open_readonly(store_path)
    try:
        rows = con.execute(
            "SELECT s.path, s.format, list(DISTINCT t.rank) FILTER (WHERE t.rank IS NOT NULL), any_value(t.host), list(DISTINCT t.evidence), bool_or(t.key_kind <> 'file' AND t.key_kind <> 'ranktag')"
            " FROM sources s JOIN streams t USING (source_id) GROUP BY ALL ORDER BY s.path"
        ).fetchall()
    finally:
        con.close()
    out = []
    for path, kind, ranks, host, evidence, wrapped in rows:
        file = logs / path
        if not file.is_file():
            continue  # a member of an archive: the archive itself is handed over as it is
        single = len(ranks or ()) == 1 and not wrapped
        named = not any(e in _PATH_ONLY for e in evidence) and evidence != ["unknown"]
        out.append(LogFile(path, file.read_bytes(), ranks[0] if single else None, host, named, single, kind != "log", "attempt_" in path))
    return out


def views(files: list[LogFile], seed: int = 0) -> dict[str, Callable[[Path], list[str]]]:
    """Views that lose nothing of these files: name -> writes it below a folder and returns the paths to diagnose."""
    texts = [f for f in files if not f.document and not compression(f.text[:8])]
    own = [f for f in texts if f.single]
    rng = random.Random(seed)
    out: dict[str, Callable[[Path], list[str]]] = {
        "gzip": lambda folder: _put(folder, [(f.path if f.document else f"{f.path}.gz", f.text if f.document else gzip.compress(f.text, 1)) for f in files]),
        "shuffled": lambda folder: _shuffled(folder, files, rng),
        "joined": lambda folder: _put(folder, [("logs.txt", _joined(rng.sample(texts, len(texts)))), *_rest(files, texts)]),
    }
    if any(not f.launcher_tree for f in files):
        out["renamed"] = lambda folder: _put(folder, _renamed(files, rng))
    flat = len(own) > 1 and not any(f.launcher_tree for f in own) and all(f.single for f in texts)
    if flat and all(f.named for f in own):
        out["concatenated"] = lambda folder: _put(folder, [("all.log", b"".join(_whole(f.text) for f in rng.sample(own, len(own)))), *_rest(files, own)])
    if flat and len({f.host for f in own}) == 1 and len({f.rank for f in own}) == len(own):
        out["labelled"] = lambda folder: _put(folder, [("slurm-1.out", b"".join(_by_arrival(own))), *_rest(files, own)])
        out["by clock"] = lambda folder: _put(folder, [("slurm-1.out", b"".join(_by_clock(own))), *_rest(files, own)])
    return out


def _put(folder: Path, contents: list[tuple[str, bytes]]) -> list[str]:
    for name, data in contents:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return [str(folder)]


def _rest(files: list[LogFile], taken: list[LogFile]) -> list[tuple[str, bytes]]:
    return [(f.path, f.text) for f in files if f not in taken]


def _shuffled(folder: Path, files: list[LogFile], rng: random.Random) -> list[str]:
    _put(folder, [(f.path, f.text) for f in files])
    return [str(folder / f.path) for f in rng.sample(files, len(files))]


def _joined(files: list[LogFile]) -> bytes:
    """As `tail -n +1 FILES` prints them."""
    return b"\n".join(b"==> %s <==\n%s" % (f.path.encode(), f.text) for f in files)


def _renamed(files: list[LogFile], rng: random.Random) -> list[tuple[str, bytes]]:
    """Other names, in another order; what only the name says (rank, attempt, kind of document) stays in it."""
    out = []
    for number, f in zip(rng.sample(range(100, 100 + len(files)), len(files)), files, strict=True):
        keep = f.document or f.launcher_tree or not f.named and not f.single or bool(compression(f.text[:8]))
        out.append((f.path if keep else f"x{number:x}.txt" if f.named else f"x{number:x}-rank{f.rank}.txt", f.text))
    return out


def _whole(text: bytes) -> bytes:
    return text if text.endswith(b"\n") or not text else text + b"\n"


def _by_arrival(files: list[LogFile]) -> Iterator[bytes]:
    """Lines of all ranks in turns, as `srun --label` prints them."""
    for lines in zip_longest(*(_whole(f.text).splitlines(keepends=True) for f in files)):
        for f, line in zip(files, lines, strict=True):
            if line is not None:
                yield b"%d: %s" % (f.rank or 0, line)


def _by_clock(files: list[LogFile]) -> Iterator[bytes]:
    """Lines of all ranks in the order of their printed times; a line without one stays behind the line before it."""
    keyed: list[tuple[int, int, int, bytes]] = []
    for f in files:
        at = 0
        for number, line in enumerate(_whole(f.text).splitlines(keepends=True)):
            stamp = read_header(line.decode("utf-8", "replace"), 1 << 51).stamp
            at = max(at, stamp.naive_us) if stamp is not None and stamp.has_date else at
            keyed.append((at, f.rank or 0, number, line))
    for _, rank, _, line in sorted(keyed, key=lambda k: k[:3]):
        yield b"%d: %s" % (rank, line)
