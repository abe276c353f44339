"""Stack dumps of ``py-spy dump``, text and ``--json``: what a process was doing at one moment (py-spy, src/dump.rs).

A text dump starts with ``Process PID: COMMAND LINE`` and ``Python vX``; each thread lists its frames, the most
recent call first. One file may hold several processes (``--subprocesses`` or dumps written one after another).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from correlator.parsers.schema import Line, Sink, document_line
from correlator.parsers.sources.faulthandler import emit_stack

NAME = "py_spy"
PROCESSES_LIMIT = 4096

_PROCESS = re.compile(r"^\s*Process (\d+): (.*)$")
_THREAD = re.compile(r'^\s*Thread (0x[0-9A-Fa-f]+|\d+) \(([^)]*)\)(?:: "(.*)")?\s*$')
_FRAME = re.compile(r"^\s+(\S.*?) \(([^()]+?)(?::(\d+))?\)\s*$")
_ARGUMENT = r"(?:^|\s)--{}[ =](\d+)\b"


@dataclass(slots=True)
class Thread:
    """One thread of a dump. ``frames`` are ``file:function``, most recent first."""

    name: str
    state: str
    line: int
    frames: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Process:
    """One dumped process and its command line."""

    pid: int
    command: str
    line: int
    threads: list[Thread] = field(default_factory=list)

    @property
    def main(self) -> Thread | None:
        """The main thread: by name, else the last listed one that has frames (py-spy lists it last or alone)."""
        framed = [t for t in self.threads if t.frames]
        return next((t for t in framed if t.name == "MainThread"), framed[-1] if framed else None)


def claims(path: str, head: bytes) -> bool:
    """A text dump opens with its process; a JSON dump is a list of threads."""
    start = head.lstrip()
    if start.startswith(b"Process ") and _PROCESS.match(start.split(b"\n", 1)[0].decode("utf-8", "replace")):
        return b"\nPython v" in start or b"Thread " in start
    return start.startswith(b"[") and b'"thread_id"' in start and b'"frames"' in start and b'"owns_gil"' in start


def parse(path: str, data: bytes, out: Sink) -> None:
    """A ``stack`` of each process, and what its command line says about its rank."""
    text = data.decode("utf-8", "replace")
    try:
        processes = _from_json(text) if text.lstrip().startswith("[") else _from_text(text)
    except json.JSONDecodeError as exc:
        out.problem(exc.lineno, "truncated", f"py-spy dump is not complete JSON: {exc.msg}")
        return
    if not processes:
        out.problem(None, "empty", "py-spy dump without a process")
    for process in processes[:PROCESSES_LIMIT]:
        _emit(process, out)


def _emit(process: Process, out: Sink) -> None:
    head = document_line(process.line, f"Process {process.pid}: {process.command}")
    head.stream = f"pid:{process.pid}"
    numbers = {key: m for key in ("local_rank", "node_rank", "rank", "world_size") if (m := _argument(process.command, key)) is not None}
    rank = numbers.pop("rank", None)
    out.identity(head, NAME, rank=rank, pid=process.pid, global_rank=rank, **numbers, how="command line in a py-spy dump")
    main = process.main
    if main is None:
        out.problem(process.line, "empty", f"py-spy shows no Python frame of process {process.pid}")
        return
    line: Line = document_line(main.line, f'Thread "{main.name}" ({main.state}): {main.frames[0]}')
    line.stream = head.stream
    others = [f"{t.name}: {t.frames[0]}" for t in process.threads if t is not main and t.frames]
    emit_stack(out, line, main.frames, source=NAME, rank=rank, thread=main.name, state=main.state or None,
               pid=process.pid, other_threads=others[:16] or None)  # fmt: skip


def _argument(command: str, name: str) -> int | None:
    """Number of ``--name=3`` or ``--name 3``, with ``_`` and ``-`` alike."""
    m = re.search(_ARGUMENT.format(name.replace("_", "[_-]")), command)
    return int(m[1]) if m else None


def _from_text(text: str) -> list[Process]:
    processes: list[Process] = []
    for no, raw in enumerate(text.split("\n"), 1):
        if m := _PROCESS.match(raw):
            processes.append(Process(int(m[1]), m[2].strip(), no))
        elif not processes:
            continue
        elif m := _THREAD.match(raw):
            processes[-1].threads.append(Thread(m[3] or "", m[2], no))
        elif processes[-1].threads and (m := _FRAME.match(raw)):
            processes[-1].threads[-1].frames.append(f"{m[2].rsplit('/', 1)[-1]}:{m[1]}")
    return processes


def _from_json(text: str) -> list[Process]:
    processes: dict[int, Process] = {}
    for raw in json.loads(text):
        if not isinstance(raw, dict) or not isinstance(raw.get("pid"), int):
            continue
        info = raw.get("process_info")
        command = " ".join(str(c) for c in info["command_line"]) if isinstance(info, dict) and isinstance(info.get("command_line"), list) else ""
        process = processes.setdefault(raw["pid"], Process(raw["pid"], command, 1))
        state = "active+gil" if raw.get("owns_gil") else "active" if raw.get("active") else "idle"
        frames: list[Any] = raw.get("frames") if isinstance(raw.get("frames"), list) else []
        names = [f"{str(f.get('filename', '?')).rsplit('/', 1)[-1]}:{f.get('name', '?')}" for f in frames if isinstance(f, dict)]
        process.threads.append(Thread(str(raw.get("thread_name") or ""), state, 1, names))
    return list(processes.values())
