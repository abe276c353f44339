"""Crashes in native code and stack dumps: faulthandler, UCX, glibc, std::terminate."""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "faulthandler"
ORDER = 12
TOKENS = ("Fatal Python error", "Timeout (", "Caught signal", "free(): ", "malloc", "corrupted", "double free", "terminate called", "Segmentation fault", "what():", "core dumped")

_FATAL = re.compile(r"^Fatal Python error: (.+)$")
_TIMEOUT = re.compile(r"^Timeout \((\d+):(\d+):(\d+)\)!")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+|\?\?\?) in (.+)$')
_UCX = re.compile(r"Caught signal (\d+) \(([^)]*)\)")
_GLIBC = re.compile(r"^(?:free\(\): |malloc\(\): |munmap_chunk\(\)|corrupted (?:size|double)|double free or corruption|malloc_consolidate|realloc\(\): )")
_WORDS = {"Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS", "Illegal instruction": "SIGILL", "Floating": "SIGFPE"}
_NUMBERS = {"11": "SIGSEGV", "6": "SIGABRT", "7": "SIGBUS", "4": "SIGILL", "8": "SIGFPE"}

SAMPLES = (Sample("Fatal Python error: Segmentation fault", "crashed", {"signal": "SIGSEGV"}, "Modules/faulthandler.c"),)


def _signal(text: str) -> str | None:
    return next((name for word, name in _WORDS.items() if text.startswith(word)), None)


def parse(line: Line, out: Sink) -> bool:
    """One-line crash statements."""
    text = line.msg
    if m := _UCX.search(text):
        out.event("crashed", line, source=NAME, signal=_NUMBERS.get(m[1], m[2]))
        return True
    if _GLIBC.match(text):
        out.event("crashed", line, source=NAME, signal="SIGABRT", why="heap corruption found by glibc")
        return True
    if m := re.match(r"^(Segmentation fault|Bus error|Aborted|Illegal instruction)(?: +\(core dumped\))?$", text):
        out.event("crashed", line, source=NAME, signal=_signal(m[1]))
        return True
    return False


class Block:
    """``Fatal Python error`` or ``Timeout (..)!`` with its threads, or ``terminate called`` with its what()."""

    def __init__(self, line: Line) -> None:
        self.first, self.last = line, line
        self.threads: list[tuple[str, list[str]]] = []
        self.what = ""
        self.kind = "terminate" if line.text.startswith("terminate called") else "timeout" if _TIMEOUT.match(line.text) else "fatal"

    @staticmethod
    def opens(line: Line) -> bool:
        return bool(_FATAL.match(line.text) or _TIMEOUT.match(line.text) or line.text.startswith("terminate called after throwing"))

    def feed(self, line: Line, out: Sink) -> bool:
        text = line.text
        if self.kind == "terminate":
            if m := re.match(r"^\s*what\(\):\s+(.*)$", text):
                self.what = m[1]
                self.last = line
                return True
            if self.what and (text.startswith(("frame #", "Exception raised from")) or not text.strip()):
                return True
            if text.strip() == "terminate called recursively":
                return True
            return False
        if re.match(r"^(?:Current thread|Thread) 0x", text):
            self.threads.append((text, []))
        elif m := _FRAME.match(text):
            if not self.threads:
                self.threads.append(("", []))
            self.threads[-1][1].append(f"{m[1].rsplit('/', 1)[-1]}:{m[3]}")
        elif text.strip() and not text.startswith(("Extension modules:", "Current thread's C stack", "  Binary file", "  <", "Python runtime state")):
            return False
        self.last = line
        return True

    def close(self, out: Sink) -> None:
        if self.kind == "terminate":
            self._terminate(out)
            return
        main = next((f for t, f in reversed(self.threads) if f and ("Current" in t or "most recent" in t)), None) or (self.threads[-1][1] if self.threads else [])
        main = self.threads[-1][1] if self.kind == "timeout" and self.threads else main
        attrs: dict[str, Any] = {"frames": main[:12], "top": main[0] if main else None}
        if self.kind == "timeout":
            m = _TIMEOUT.match(self.first.text)
            assert m is not None
            out.event("stack", self.first, source=NAME, line_end=self.last.no, duration_ms=(int(m[1]) * 3600 + int(m[2]) * 60 + int(m[3])) * 1000.0, **attrs)
            return
        m = _FATAL.match(self.first.text)
        out.event("crashed", self.first, source=NAME, line_end=self.last.no, signal=_signal(m[1] if m else "") or (m[1] if m else None), **attrs)

    def _terminate(self, out: Sink) -> None:
        from correlator.parsers.sources import c10d_nccl, c10d_store, gloo

        text = f"{self.first.text}\n{self.what}"
        rank = re.search(r"\bRank (\d+)\]", self.what)
        for module in (gloo, c10d_nccl, c10d_store):
            found = module.classify(self.what)
            if found is not None:
                kind = "aborted" if found[0] in ("timed_out_waiting",) else found[0]
                out.event(kind, self.first, source=NAME, message=text, line_end=self.last.no, **{**found[1], "why": found[1].get("why", "terminate"), "group_rank": int(rank[1]) if rank else None})
                return
        if "CUDA error" in self.what:
            out.event("raised", self.first, source="c10d", refine=True, message=self.what, line_end=self.last.no, exception="CUDA error", text=self.what[:200], uncaught=True)
            return
        out.event("aborted" if "DistBackendError" in text or "NCCL" in text else "crashed", self.first, source=NAME, message=text, line_end=self.last.no, signal="SIGABRT", why="std::terminate")
