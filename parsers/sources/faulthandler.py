"""Crashes in native code and stack dumps: faulthandler, UCX, glibc, std::terminate, the shell's last word.

None of these lines carries a rank of its own; their file or stream tells whose they are. (Modules/faulthandler.c,
ucs/debug/debug.c of UCX, malloc.c of glibc, vterminate.cc of libstdc++, jobs.c of bash)
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources import c10d_nccl, c10d_store, gloo, signals
from correlator.parsers.sources.stacks import FRAMES_KEPT, emit_stack, frame

NAME = "faulthandler"
ORDER = 12
TOKENS = (
    "Fatal Python error", "Timeout (", "Caught signal", "free(): ", "malloc", "corrupted", "double free", "munmap_chunk", "realloc(", "terminate called",
    "Segmentation fault", "Bus error", "Aborted", "Illegal instruction", "Killed", "what():", "core dumped",
)  # fmt: skip

_FATAL = re.compile(r"^Fatal Python error: (.+)$")
_TIMEOUT = re.compile(r"^Timeout \((\d+):(\d+):(\d+)(?:\.\d+)?\)!")
_TERMINATE = re.compile(r"^terminate called (?:after throwing an instance of '([^']+)'|without an active exception)")
_THREAD = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (?:\d+|\?\?\?) in (.+)$')
_WHAT = re.compile(r"^\s*what\(\):\s+(.*)$")
_OTHER_PARTS = ("Extension modules:", "Current thread's C stack", "Python runtime state", "  Binary file", "  <", "  ...", "  Garbage-collecting")
_UCX = re.compile(r"Caught signal (\d+) \(([^)]*)\)")
_GLIBC = re.compile(r"^(?:free\(\): |malloc\(\): |munmap_chunk\(\)|corrupted (?:size|double)|double free or corruption|malloc_consolidate|realloc\(\): )")
_BARE = re.compile(r"^(Segmentation fault|Bus error|Aborted|Illegal instruction|Killed)(?: +\(core dumped\))?$")
_SHELL = re.compile(r"^\S+: line \d+:\s+(\d+) (Segmentation fault|Bus error|Aborted|Illegal instruction|Killed|Terminated)(?: +\(core dumped\))?(?:\s+(.+))?$")

SAMPLES = (
    Sample('Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n  File "/w/ops.py", line 13 in fused_scale',
           "crashed", {"signal": "SIGSEGV", "top": "ops.py:fused_scale"}, "Modules/faulthandler.c"),
    Sample('Timeout (0:00:08)!\nThread 0x00007f (most recent call first):\n  File "/w/train.py", line 109 in load_shard', "stack",
           {"top": "train.py:load_shard", "duration_ms": 8000.0}, "Modules/faulthandler.c"),
    Sample("free(): invalid pointer", "crashed", {"signal": "SIGABRT"}, "malloc/malloc.c"),
    Sample("[n-1:71:0:71] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)", "crashed", {"signal": "SIGSEGV"}, "ucs/debug/debug.c"),
    Sample("/job/run.sh: line 12: 4242 Killed                  python train.py", "exit_record", {"pid": 4242, "signal": "SIGKILL", "by": "shell"}, "bash jobs.c"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One-line crash statements."""
    text = line.msg
    if m := _UCX.search(text):
        out.event("crashed", line, source=NAME, signal=signals.NAMES.get(int(m[1]), m[2]))
    elif _GLIBC.match(text):
        out.event("crashed", line, source=NAME, signal="SIGABRT", why="heap corruption found by glibc")
    elif m := _SHELL.match(text):
        out.event("exit_record", line, source=NAME, by="shell", pid=int(m[1]), signal=signals.of_words(m[2]), command=m[3])
    elif m := _BARE.match(text):
        signal = signals.of_words(m[1])
        if signal == "SIGKILL":  # the killed process cannot say this: its shell does
            out.event("exit_record", line, source=NAME, by="shell", signal=signal)
        else:
            out.event("crashed", line, source=NAME, signal=signal)
    else:
        return False
    return True


class Block:
    """``Fatal Python error`` or ``Timeout (..)!`` with its threads, or ``terminate called`` with its what()."""

    def __init__(self, line: Line) -> None:
        self.first, self.last = line, line
        self.threads: list[tuple[str, list[str]]] = []  # header and frames, most recent call first
        self.what = ""
        self.kind = "terminate" if _TERMINATE.match(line.text) else "timeout" if _TIMEOUT.match(line.text) else "fatal"

    @staticmethod
    def opens(line: Line) -> bool:
        return any(pattern.match(line.text) for pattern in (_FATAL, _TIMEOUT, _TERMINATE))

    def feed(self, line: Line, out: Sink) -> bool:
        mine = self._word(line.text) if self.kind == "terminate" else self._part(line.text)
        if mine:
            self.last = line
        return mine

    def _word(self, text: str) -> bool:
        if m := _WHAT.match(text):
            self.what = m[1]
            return True
        if self.what and (text.startswith(("frame #", "Exception raised from")) or not text.strip()):
            return True
        return text.strip() == "terminate called recursively"

    def _part(self, text: str) -> bool:
        if m := _THREAD.match(text):
            self.threads.append((m[1], []))
        elif m := _FRAME.match(text):
            if not self.threads:
                self.threads.append(("", []))
            self.threads[-1][1].append(frame(m[1], m[2]))
        elif text.strip() and not text.startswith(_OTHER_PARTS):
            return False
        return True

    def close(self, out: Sink) -> None:
        if self.kind == "terminate":
            self._terminate(out)
        elif self.kind == "timeout":
            m = _TIMEOUT.match(self.first.text)
            assert m is not None
            waited = (int(m[1]) * 3600 + int(m[2]) * 60 + int(m[3])) * 1000.0
            emit_stack(out, self.first, self._frames(), source=NAME, line_end=self.last.no, duration_ms=waited)
        else:
            self._fatal(out)

    def _frames(self) -> list[str]:
        """Frames of the thread that crashed, else of the main thread, which faulthandler lists last."""
        framed = [(title, frames) for title, frames in self.threads if frames]
        current = next((frames for title, frames in framed if title.startswith("Current")), None)
        return current or (framed[-1][1] if framed else [])

    def _fatal(self, out: Sink) -> None:
        m = _FATAL.match(self.first.text)
        assert m is not None
        frames = self._frames()
        out.event("crashed", self.first, source=NAME, line_end=self.last.no, signal=signals.of_words(m[1]) or m[1],
                  frames=frames[:FRAMES_KEPT], top=frames[0] if frames else None)  # fmt: skip

    def _terminate(self, out: Sink) -> None:
        """An uncaught C++ exception. The process aborts; what it says tells whether a peer or a timeout made it do so."""
        m = _TERMINATE.match(self.first.text)
        thrown = m[1] if m is not None else None
        text = f"{self.first.text}\n{self.what}"
        rank = re.search(r"\bRank (\d+)\]", self.what)
        common: dict[str, Any] = {"message": text, "line_end": self.last.no, "group_rank": int(rank[1]) if rank else None, "exception": thrown}
        for module in (gloo, c10d_nccl, c10d_store):
            found = module.classify(self.what)
            if found is not None:
                kind = "aborted" if found[0] == "timed_out_waiting" else found[0]
                out.event(kind, self.first, source=NAME, **{**common, "why": "terminate", **found[1]})
                return
        if "CUDA error" in self.what:
            out.event(
                "raised", self.first, source="c10d", refine=True, **{**common, "message": self.what, "exception": "CUDA error", "text": self.what[:200], "uncaught": True}
            )
            return
        kind = "aborted" if "DistBackendError" in text or "NCCL" in text else "crashed"
        out.event(kind, self.first, source=NAME, signal="SIGABRT", why="std::terminate", **common)
