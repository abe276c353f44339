"""Paths -> sources, with what path and name say of rank, node and attempt."""

from __future__ import annotations

import atexit
import glob
import os
import re
import shutil
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from correlator.errors import CorrelatorError
from correlator.parsers.opening import compression, open_tar, sections
from correlator.parsers.schema import Problem

MAX_FILES = 200_000
MAX_MEMBER = 64 << 30
_SKIP_SUFFIX = frozenset(
    ".pt .pth .bin .safetensors .ckpt .npy .npz .so .o .a .pyc .png .jpg .jpeg .gif .svg .ico .pdf .mp4 .whl .egg .onnx .h5 .hdf5 .parquet .arrow"
    " .duckdb .sqlite .db .exe .dll .py .c .cc .cpp .cu .h .hpp .js .css .html .ipynb .toml .cfg .ini .sh .md .rst".split()
)
_SKIP_DIRS = frozenset({".git", ".venv", "venv", "__pycache__", "node_modules", ".cache", "site-packages"})


@dataclass(slots=True, frozen=True)
class PathHints:
    """What path and name say. A number called rank in a path may be local: the kinds are kept apart."""

    rank: int | None = None
    local_rank: int | None = None
    node_rank: int | None = None
    node: str | None = None
    attempt: int | None = None
    agent_dir: str | None = None
    std: str | None = None
    launcher: str | None = None
    pid: int | None = None
    index: int | None = None


@dataclass(slots=True, frozen=True)
class SourceRef:
    """One thing to parse: a file, an archive member or stdin."""

    source_id: int
    path: str
    real_path: str
    member: str | None
    size: int
    mtime: float
    hints: PathHints = field(default_factory=PathHints)
    span: tuple[int, int] | None = None  # bytes of real_path that are this source (a file that several files were joined into)


@dataclass(slots=True)
class Discovery:
    """Sources in sorted order, what was skipped and why, and other runs that were found."""

    sources: list[SourceRef]
    problems: list[Problem]
    other_runs: list[str]


def discover(paths: Sequence[str], *, job: str | None = None) -> Discovery:
    """Finds the sources below paths (directories, files, archives, globs, ``-``).

    Raises:
        CorrelatorError: a path does not exist or cannot be listed.
    """
    found: list[SourceRef] = []
    problems: list[Problem] = []
    roots: list[Path] = []
    for given in paths:
        if given == "-":
            found.extend(_stdin())
            continue
        matches = [given] if os.path.lexists(given) else sorted(glob.glob(given, recursive=True))
        if not matches:
            raise CorrelatorError("no such file or directory", where=given, why="nothing exists at this path", help="check the path; quote globs")
        roots.extend(Path(os.path.abspath(match)) for match in matches)
    base = _common_root(roots)
    taken: set[Path] = set()
    for root in roots:
        files = [f for f in _walk(root, problems, base) if f not in taken]  # `logs logs/rank_3.log` names one file twice
        taken.update(files)
        for file in files:
            found.extend(_sources(file, base, problems))
            if len(found) > MAX_FILES:
                problems.append(Problem(str(base), None, "skipped", f"more than {MAX_FILES} files: the rest was left out"))
                break
    if job is not None:
        chosen = [r for r in found if job in PurePosixPath(r.path).parts or (r.hints.agent_dir or "").endswith(job)]
        found = chosen or found
    found.sort(key=lambda r: _natural(r.path))
    found = _families(found)
    return Discovery([replace(r, source_id=i) for i, r in enumerate(found)], problems, [])


def _common_root(roots: Sequence[Path]) -> Path:
    """The folder that shown paths are relative to: `logs/*/*` names the same files as `logs` and must read the same."""
    folders = [r if r.is_dir() else r.parent for r in roots]
    return Path(os.path.commonpath(folders)) if folders else Path()


def _stdin() -> Iterator[SourceRef]:
    """Standard input; where it is several files behind `head` or `tail` headers it is kept aside to be read by part."""
    plain = SourceRef(0, "-", "-", None, 0, time.time())
    if not getattr(sys.stdin.buffer, "peek", lambda _: b"")(4).startswith(b"==> "):
        yield plain
        return
    with tempfile.NamedTemporaryFile(prefix="correlator-stdin-", delete=False) as kept:
        atexit.register(Path(kept.name).unlink, missing_ok=True)
        shutil.copyfileobj(sys.stdin.buffer, kept)
    yield from _joined(Path(kept.name), "-", time.time()) or [plain]


def _joined(file: Path, shown: str, mtime: float) -> list[SourceRef]:
    """The files inside one that `head` or `tail` wrote for several (`tail -n 500 logs/*`), by their headers."""
    return [SourceRef(0, f"{shown}!{name}", str(file), None, end - start, mtime, path_hints(name), (start, end)) for name, start, end in sections(file)]


def _walk(root: Path, problems: list[Problem], base: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    seen: set[tuple[int, int]] = set()

    def failed(error: OSError) -> None:
        problems.append(Problem(_relative(Path(error.filename or root), base), None, "unreadable", f"{error.strerror}"))

    for folder, dirs, files in os.walk(root, followlinks=True, onerror=failed):
        try:
            st = os.stat(folder)
        except OSError as exc:
            failed(exc)
            dirs.clear()
            continue
        if (st.st_dev, st.st_ino) in seen:
            problems.append(Problem(_relative(Path(folder), base), None, "skipped", "symbolic link back into the tree"))
            dirs.clear()
            continue
        seen.add((st.st_dev, st.st_ino))
        dirs[:] = sorted(d for d in dirs if d not in _SKIP_DIRS)
        for name in sorted(files):
            yield Path(folder) / name


def _sources(file: Path, base: Path, problems: list[Problem]) -> Iterator[SourceRef]:
    shown = _relative(file, base)
    try:
        st = file.stat()
        if not file.is_file():
            problems.append(Problem(shown, None, "skipped", "not a regular file"))
            return
        with file.open("rb") as f:
            head = f.read(4096)
    except OSError as exc:
        problems.append(Problem(shown, None, "unreadable", f"{exc.strerror or exc}"))
        return
    if _is_archive(file, head):
        yield from _members(file, shown, st.st_mtime, problems)
        return
    if head.startswith(b"==> ") and (parts := _joined(file, shown, st.st_mtime)):
        yield from parts
        return
    why = _not_a_log(file.name, head)
    if why:
        problems.append(Problem(shown, None, "skipped", why))
        return
    yield SourceRef(0, shown, str(file), None, st.st_size, st.st_mtime, path_hints(shown))


def _is_archive(file: Path, head: bytes) -> bool:
    name = file.name.lower()
    if head.startswith(b"PK\x03\x04"):
        return True
    return bool(re.search(r"\.(tar|tgz|tbz2|txz)(\.\w+)?$", name)) or head[257:262] == b"ustar"


def _members(file: Path, shown: str, mtime: float, problems: list[Problem]) -> Iterator[SourceRef]:
    listed: list[tuple[str, int, float]] = []
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as z:
                listed = [(i.filename, i.file_size, mtime) for i in z.infolist() if not i.is_dir()]
        else:
            with open_tar(str(file)) as tar:
                for m in tar:
                    if m.isfile():
                        listed.append((m.name, m.size, float(m.mtime) or mtime))
                    elif not m.isdir():
                        problems.append(Problem(f"{shown}!{m.name}", None, "skipped", "link or special file in an archive"))
    except Exception as exc:  # tarfile, zipfile and zlib raise many kinds for one broken file
        problems.append(Problem(shown, None, "truncated" if listed else "unreadable", f"broken archive: {type(exc).__name__}: {exc}"))
    if not listed:
        problems.append(Problem(shown, None, "skipped", "the archive holds no file"))
    for name, size, when in listed:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts:
            problems.append(Problem(f"{shown}!{name}", None, "skipped", "absolute or parent path in an archive"))
            continue
        if size > MAX_MEMBER:
            problems.append(Problem(f"{shown}!{name}", None, "skipped", f"member of {size} bytes is larger than the limit"))
            continue
        if Path(name).suffix.lower() in _SKIP_SUFFIX or any(p in _SKIP_DIRS for p in parts):
            problems.append(Problem(f"{shown}!{name}", None, "skipped", "not a log"))
            continue
        yield SourceRef(0, f"{shown}!{name}", str(file), name, size, when, path_hints(name))


def _not_a_log(name: str, head: bytes) -> str | None:
    if head[:2] == b"\x80\x02" or re.search(r"trace_rank_?\d*|nccl_trace|fr_trace", name):
        return None  # a flight-recorder dump
    if compression(head):
        return None
    if Path(name).suffix.lower() in _SKIP_SUFFIX:
        return f"{Path(name).suffix} is not a log"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    sample = head.replace(b"\x00", b"")
    if head and len(head) - len(sample) > len(head) // 2 and not sample.strip():
        return None  # a hole left by copytruncate: the rest may be a log
    control = sum(c < 9 or 13 < c < 27 for c in sample[:2048])
    if sample and control > len(sample[:2048]) // 5:
        return "binary data"
    return None


_ATTEMPT = re.compile(r"(?:^|/)(?P<dir>[^/]*/)?attempt_(?P<a>\d+)/(?P<l>\d+)/(?P<f>[^/]+)$")
_NODE = re.compile(r"^(?:node|host|worker|machine|pod)[-_]?[\w.]*\d[\w.-]*$|^[a-z][\w]*-[\w-]*\d+(?:\.[\w.-]+)?$", re.IGNORECASE)
# a host's own log is called after the host: dmesg-gpu17.txt, gpu17.kern.log
_HOST_LOG = re.compile(
    r"^(?:(?:dmesg|kern(?:el)?|journal(?:ctl)?|syslog|messages)[-_.](?P<after>[a-z][\w.-]*\d[\w-]*?)|(?P<before>[a-z][\w-]*\d[\w-]*)[-_.](?:dmesg|kern(?:el)?|journal(?:ctl)?|syslog))"
    r"\.(?:txt|log|out)$", re.IGNORECASE,
)  # fmt: skip
_RANK = re.compile(r"(?:^|[^a-z])(?:global_?)?rank[-_.]?(\d+)(?!\d)", re.IGNORECASE)
_LOCAL = re.compile(r"local_?rank[-_.]?(\d+)", re.IGNORECASE)


def path_hints(path: str) -> PathHints:
    """Hints of a relative path, by the conventions of torchrun, Slurm, DeepSpeed, NCCL, Kubernetes, Ray, NeMo and MPI."""
    out: dict[str, object] = {}
    plain = re.sub(r"\.(gz|zst|xz|bz2)$", "", path)
    parts = PurePosixPath(plain.replace("!", "/")).parts
    name = parts[-1] if parts else plain
    m = re.search(r"(?:^|/)attempt_(\d+)/(\d+)/([^/]+)$", plain.replace("!", "/"))
    if m:
        out.update(attempt=int(m[1]), local_rank=int(m[2]), launcher="torchrun", agent_dir="/".join(parts[:-3]) or ".")
    elif re.search(r"(?:^|/)attempt_(\d+)/", plain):
        out.update(attempt=int(re.search(r"attempt_(\d+)/", plain)[1]), launcher="torchrun")  # type: ignore[index]
    if name in ("stdout.log", "stdout"):
        out["std"] = "stdout"
    elif name in ("stderr.log", "stderr"):
        out["std"] = "stderr"
    for part in parts[:-1]:
        if "node" not in out and _NODE.match(part) and not part.startswith("attempt_") and not re.match(r"^(?:slurm|job|run|rank)", part):
            out["node"] = part
    if "node" not in out and (m2 := re.match(r"^((?:node|host|worker|pod|machine)[-_]?[A-Za-z]*\d+[\w-]*|node[-_.][a-z0-9]+)\.(?:log|txt|out|err)$", name)):
        out["node"] = m2[1]
    if "node" not in out and (m0 := _HOST_LOG.match(name)):
        out["node"] = (m0["after"] or m0["before"]).split(".")[0]
    if m3 := re.match(r"nccl\.(?P<h>[\w.-]+)\.(?P<p>\d+)(?:\.\w+)?$", name):
        out.update(node=m3["h"].split(".")[0], pid=int(m3["p"]))
    if m4 := _LOCAL.search(name):
        out["local_rank"] = int(m4[1])
    if m5 := _RANK.search(re.sub(r"local_?rank[-_.]?\d+", "", name)):
        out["rank"] = int(m5[1])
    elif len(parts) > 1 and (m6 := re.match(r"^(?:rank[-_.]?)(\d+)$", parts[-2])):
        out["rank"] = int(m6[1])
    elif m7 := re.match(r"^std_log_process_(\d+)", name):
        out["rank"] = int(m7[1])
    if m8 := re.match(r"^worker-[0-9a-f]{8,}-[0-9a-f]+-(\d+)\.(?:out|err)$", name):
        out.update(pid=int(m8[1]), launcher="ray")
    if "/pods/" in "/" + plain and (m9 := re.search(r"pods/[^_/]+_([^_/]+)_[^/]+/[^/]+/(\d+)\.log", plain)):
        out.update(node=m9[1], attempt=int(m9[2]), launcher="kubernetes")
    if name.startswith("slurm-") or re.search(r"\.(?:out|err)$", name):
        out.setdefault("launcher", "slurm" if name.startswith("slurm") else None)
    return PathHints(**{k: v for k, v in out.items() if v is not None})  # type: ignore[arg-type]


def _families(refs: list[SourceRef]) -> list[SourceRef]:
    """Several siblings that differ in one number, dense from 0: the number is an index, weak evidence for a rank."""
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, r in enumerate(refs):
        if r.hints.rank is not None or r.hints.local_rank is not None or r.hints.node is not None:
            continue
        name = PurePosixPath(r.path).name
        numbers = list(re.finditer(r"\d+", name))
        for m in numbers:
            groups[str(PurePosixPath(r.path).parent) + "/" + name[: m.start()] + "#" + re.sub(r"\d+", "*", name[m.end() :])].append((i, int(m[0])))
    out = list(refs)
    for members in groups.values():
        values = sorted({n for _, n in members})
        if len(values) > 1 and values == list(range(len(values))):
            for i, n in members:
                if out[i].hints.index is None:
                    out[i] = replace(out[i], hints=replace(out[i].hints, index=n))
    return out


def _relative(file: Path, base: Path) -> str:
    try:
        return file.relative_to(base).as_posix()
    except ValueError:
        return file.as_posix()


def _natural(path: str) -> list[object]:
    return [(1, int(p), "") if p.isdigit() else (0, 0, p) for p in re.split(r"(\d+)", path)]
