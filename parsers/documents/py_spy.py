"""Stack dumps of ``py-spy dump``, text and ``--json``: what a process was doing at one moment (py-spy, src/dump.rs).

A text dump starts with ``Process PID: COMMAND LINE`` and ``Python vX``; each thread lists its frames, the most
recent call first. One file may hold several processes (``--subprocesses``, or dumps written one after another).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from correlator.parsers.schema import Sink, document_line
from correlator.parsers.sources.stacks import emit_stack, frame

NAME = "py_spy"
PROCESSES_LIMIT = 4096

_PROCESS = re.compile(r"^\s*Process (\d+): (.*)$")
_THREAD = re.compile(r'^\s*Thread (?:0x[0-9A-Fa-f]+|\d+) \(([^)]*)\)(?:: "(.*)")?\s*$')
_FRAME = re.compile(r"^\s+(\S.*?) \(([^()]+?)(?::\d+)?\)\s*$")


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
        """The thread named MainThread, else the first one with frames; None if py-spy saw no Python frame."""
        framed = [t for t in self.threads if t.frames]
        return next((t for t in framed if t.name == "MainThread"), framed[0] if framed else None)


def claims(path: str, head: bytes) -> bool:
    """A text dump opens with its process; a JSON dump is a list of threads."""
    start = head.lstrip()
    if start.startswith(b"["):
        return all(key in start for key in (b'"thread_id"', b'"frames"', b'"owns_gil"'))
    return re.match(rb"Process \d+: ", start) is not None and b"Thread " in start


def parse(path: str, data: bytes, out: Sink) -> None:
    """A ``stack`` of each process, and what its command line says about its rank."""
    text = data.decode("utf-8", "replace")
    try:
        processes = _from_json(text) if text.lstrip().startswith("[") else _from_text(text)
    except json.JSONDecodeError as exc:
        out.problem(exc.lineno, "truncated", f"py-spy dump is not complete JSON: {exc.msg}")
        return
    for process in processes[:PROCESSES_LIMIT]:
        _emit(process, out, stream=f"pid:{process.pid}" if len(processes) > 1 else "")


def _emit(process: Process, out: Sink, stream: str) -> None:
    head = document_line(process.line, f"Process {process.pid}: {process.command}")
    head.stream = stream
    local, rank = _argument(process.command, "local_rank"), _argument(process.command, "rank")
    if local is not None or rank is not None:
        out.identity(head, NAME, rank=rank, global_rank=rank, local_rank=local, pid=process.pid, how="command line")
    main = process.main
    if main is None:
        out.problem(process.line, "empty", f"py-spy shows no Python frame of process {process.pid}")
        return
    line = document_line(main.line, " <- ".join(main.frames[:4]))
    line.stream = stream
    others = [f"{t.name}: {t.frames[0]}" for t in process.threads if t is not main and t.frames]
    emit_stack(out, line, main.frames, source=NAME, rank=rank, thread=main.name or None, state=main.state or None,
               pid=process.pid, local_rank=local, other_threads=others[:16] or None)  # fmt: skip


def _argument(command: str, name: str) -> int | None:
    """Number of ``--name=3`` or ``--name 3``, ``_`` and ``-`` alike."""
    m = re.search(rf"(?:^|\s)--{name.replace('_', '[_-]')}[ =](\d+)\b", command)
    return int(m[1]) if m else None


def _from_text(text: str) -> list[Process]:
    processes: list[Process] = []
    for no, raw in enumerate(text.split("\n"), 1):
        if m := _PROCESS.match(raw):
            processes.append(Process(int(m[1]), m[2].strip(), no))
        elif processes and (m := _THREAD.match(raw)):
            processes[-1].threads.append(Thread(m[2] or "", m[1], no))
        elif processes and processes[-1].threads and (m := _FRAME.match(raw)):
            processes[-1].threads[-1].frames.append(frame(m[2], m[1]))
    return processes


def _from_json(text: str) -> list[Process]:
    processes: dict[int, Process] = {}
    for raw in json.loads(text):
        if not isinstance(raw, dict) or not isinstance(raw.get("pid"), int):
            continue
        info: dict[str, Any] = raw["process_info"] if isinstance(raw.get("process_info"), dict) else {}
        words = info.get("command_line")
        command = " ".join(map(str, words)) if isinstance(words, list) else str(words or "")
        process = processes.setdefault(raw["pid"], Process(raw["pid"], command, 1))
        state = "active+gil" if raw.get("owns_gil") else "active" if raw.get("active") else "idle"
        frames = [f for f in raw.get("frames") or () if isinstance(f, dict)]
        names = [frame(str(f.get("filename", "?")), str(f.get("name", "?"))) for f in frames]
        process.threads.append(Thread(str(raw.get("thread_name") or ""), state, 1, names))
    return list(processes.values())
