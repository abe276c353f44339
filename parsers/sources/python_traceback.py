"""Python tracebacks: one event for a whole chain, with the exception that ended it (Lib/traceback.py, PEP 3134, PEP 654).

A traceback that a handler logged is not an exit: ``uncaught`` tells. What the exception means is said by
``exceptions.emit``.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources.exceptions import ANY, CONVENTIONAL, NAME, emit
from correlator.parsers.sources.stacks import frame

__all__ = ["Block", "NAME", "ORDER", "SAMPLES", "TOKENS", "emit", "parse"]

ORDER = 10
TOKENS = ("Traceback (most recent call last)", "Error: ", "Exception: ", "Error\n", "Interrupt", "Exception ignored in")
MESSAGE_LINES = 24
FRAMES_KEPT = 8
STRANGERS = 6  # lines of other writers, or of a terminal's wrapping, between a frame and its exception

_START = re.compile(r"^(?:[\s+|]*|\S.{0,160}: ?)(?:Exception Group )?Traceback \(most recent call last\):?\s*(?:\(RANK (\d+)\))?\s*$")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)(?:, in (.+?))?\s*$')
_CHAIN = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_SPAWN = re.compile(r"^-- Process (\d+) terminated with the following error:")
_HEADER = re.compile(r"^\[?[IWEF]\d{3,4} ")  # c10d prints the month without a leading zero
_GROUP_RULE = re.compile(r"^\s*\+(?:-\+)?-{4,}[ \d.]*-*\s*$")
_GROUP_MARGIN = re.compile(r"^\s*\| ?(.*)$")
_AGENT_FRAMES = ("torch/distributed/run.py", "torch/distributed/launcher/api.py", "torch/distributed/launch.py", "accelerate/commands/launch.py")
_OUTERMOST = ("<module>", "_bootstrap", "spawn_main", "_main", "_wrap", "_run_module_as_main", "_run_code")
_QUOTED_NCCL = re.compile(r"^nccl\w+: ")
_SENTENCE_END = (".", ":", ",", "(", "?", "!")
_LONG_MESSAGES = ("NCCL error", "CUDA error", "finished reduction", "Caught ", "Detected mismatch")
_GOES_ON = re.compile(
    r"(?:nccl|Last error|CUDA|For |Compile|Search for|Original|This |If |You |making |Parameter|Exception raised|frame #|\")"
)  # after a first line that ends like a sentence's middle
_KNOWN_LINE = re.compile(
    r"(?:nccl\w+: |Last error|CUDA kernel|For debugging|Compile with|Original Traceback|Exception raised|frame #|Parameter|making sure|If you already)"
)
# C++ frames follow what c10::Error was translated to; behind other types they are another stream's text
_CPP_FRAMES = re.compile(r"(?:Exception raised from |frame #)")
_CPP_TYPES = re.compile(r"^(?:torch\.|c10)|^(?:RuntimeError|IndexError|ValueError|TypeError|NotImplementedError)\b")
_AFTER_BLANK = ("Exception raised from ", "frame #", "Last error", "Compile with", "Original Traceback", "Parameter")

SAMPLES = (
    Sample('Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\nValueError: bad sample 7741', "raised",
           {"exception": "ValueError", "text": "bad sample 7741", "uncaught": True, "frames": ["train.py:<module>"]}, "Lib/traceback.py"),
    Sample("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "raised", {"exception": "OutOfMemoryError", "loose": True}, "torch"),
    Sample("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL", "exit_record",
           {"by": "spawn", "local_rank": 1, "signal": "SIGKILL"}, "torch/multiprocessing/spawn.py"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """An exception line without its traceback (cut or interleaved away)."""
    text = line.msg
    if text.startswith("Exception ignored in"):
        out.state(NAME, line.stream)["ignored"] = line.no
        return True
    if line.level is not None or text[:1] in (" ", "\t", "[", "{", "'", '"', "-"):
        return False
    m = CONVENTIONAL.match(text)
    if m is None or m["type"].endswith("Warning") or (m["text"] is None and "." not in m["type"] and len(text) > 40):
        return False
    if m["type"].endswith("ChildFailedError"):
        return False
    emit(text, line, out, loose=True)
    return True


class Block:
    """From ``Traceback (most recent call last):`` to the end of the last exception's message."""

    def __init__(self, line: Line) -> None:
        opening = _START.match(line.msg)
        self.first = self.last = line
        self.group = "Exception Group Traceback" in line.text
        self.rank = int(opening[1]) if opening is not None and opening[1] else None  # DCP quotes other ranks' tracebacks
        self.indent = len(line.text) - len(line.text.lstrip(" +|"))
        self.state = "frames"  # frames, message, original (a worker's own traceback inside a message), gap, chain
        self.cause: str | None = None
        self.spawned: int | None = None
        self.subs: list[str] = []  # exceptions of a group
        self.quote_line = line.no  # where the exception that counts is printed
        self._restart()

    def _restart(self) -> None:
        """A new traceback of the chain begins."""
        self.frames: list[str] = []
        self.paths: list[str] = []
        self.outer = ""
        self.message: list[str] = []
        self.strangers = 0
        self.state = "frames"

    @staticmethod
    def opens(line: Line) -> bool:
        return "Traceback (most recent" in line.text and _START.match(line.msg) is not None

    def feed(self, line: Line, out: Sink) -> bool:
        text = line.text
        if self.group:
            mine = self._in_group(text, line)
        else:
            if self.indent and not text[: self.indent].strip(" +|"):
                text = text[self.indent :]
            mine = getattr(self, f"_in_{self.state}")(text, line)
        if mine and text.strip():
            self.last = line
        return mine

    # ---- one method a state -----------------------------------------------------------------------
    def _in_frames(self, text: str, line: Line) -> bool:
        if self._frame(text):
            return True
        if not text.strip() or text[:1] in (" ", "\t") or text.startswith(("~", "^")):
            return True  # source line, marks below it, "[Previous line repeated 996 more times]"
        if _START.match(text):
            self._restart()  # the one before was cut
            return True
        if _is_record(line) or "errors.ChildFailedError" in text:
            return False
        if CONVENTIONAL.match(text) or (not self.strangers and ANY.match(text)):
            self.message, self.state, self.quote_line = [text], "message", line.no
            return True
        self.strangers += 1
        return self.strangers <= STRANGERS

    def _in_message(self, text: str, line: Line) -> bool:
        if not text.strip():
            self.state = "gap"
            return True
        if _is_record(line) or _START.match(text) or _HEADER.match(text):
            return False
        if _CHAIN.search(text):
            self.state = "chain"
            return True
        if text.startswith("Original Traceback"):
            self.state = "original"
            return True
        if CONVENTIONAL.match(text) and not _QUOTED_NCCL.match(text):
            return False
        if len(self.message) >= MESSAGE_LINES or not self._continues(text):
            return False
        self.message.append(text)
        return True

    def _in_original(self, text: str, line: Line) -> bool:
        """The traceback that a worker process sent along: only its exception belongs to the message."""
        if _is_record(line):
            return False
        if CONVENTIONAL.match(text) or (text[:1] not in (" ", "\t") and ANY.match(text)):
            self.message.append(text)
            self.state = "message"
            return True
        return not text.strip() or text[:1] in (" ", "\t")

    def _in_gap(self, text: str, line: Line) -> bool:
        if _CHAIN.search(text):
            self.state = "chain"
            return True
        if m := _SPAWN.match(text):
            self.spawned, self.state = int(m[1]), "chain"
            return True
        if text.startswith("Original Traceback"):
            self.state = "original"
            return True
        if text.startswith(_AFTER_BLANK) and (not _CPP_FRAMES.match(text) or _CPP_TYPES.match(self.message[0])):
            self.message.append(text)
            self.state = "message"
            return True
        return False

    def _in_chain(self, text: str, line: Line) -> bool:
        if not text.strip():
            return True
        if not _START.match(text):
            return False
        if self.spawned is None:
            self.cause = self.cause or "\n".join(self.message)
        self._restart()
        return True

    def _in_group(self, text: str, line: Line) -> bool:
        """An exception group draws its parts with a margin; the first leaf is what happened first."""
        if _GROUP_RULE.match(text):
            return True
        m = _GROUP_MARGIN.match(text)
        if m is None:
            return False
        body = m[1]
        if not self.message:
            self._frame(body)
        if ANY.match(body):
            if "sub-exception" in body:
                self.message = self.message or [body]
            else:
                self.quote_line = self.quote_line if self.subs else line.no
                self.subs.append(body)
        return True

    # ---- parts --------------------------------------------------------------------------------------
    def _frame(self, text: str) -> bool:
        m = _FRAME.match(text)
        if m is None:
            return False
        function = m[3] or "<module>"
        self.outer = self.outer or function
        self.frames.append(frame(m[1], function))
        self.paths.append(m[1])
        self.strangers = 0
        return True

    def _continues(self, text: str) -> bool:
        """Whether an unprefixed line belongs to the message rather than to the program's next output."""
        first = self.message[0]
        if _CPP_FRAMES.match(text) and not _CPP_TYPES.match(first):
            return False
        indented = text[:1] in (" ", "\t")
        if len(self.message) == 1 and not first.rstrip().endswith(_SENTENCE_END) and not indented:
            return _GOES_ON.match(text) is not None
        return indented or any(words in first for words in _LONG_MESSAGES) or _KNOWN_LINE.match(text) is not None

    def close(self, out: Sink) -> None:
        agent = any(marker in path for path in self.paths for marker in _AGENT_FRAMES)
        if not self.message:
            if self.frames and not agent:
                out.event("warned", self.first, source=NAME, line_end=self.last.no, why="traceback without its exception", frames=self.frames[-4:])
            return
        text = self.subs[0] if self.subs else "\n".join(self.message)
        emit(
            text, self.first, out, line_end=self.last.no, quote_line=self.quote_line, frames=self.frames[-FRAMES_KEPT:], outer=self.outer or None, uncaught=self._uncaught(), agent=agent,
            cause=self.cause, paths=self.paths[-FRAMES_KEPT:], second_hand=self.rank is not None, subject_rank=self.rank, local_rank=self.spawned,
            group=self.message[0] if self.subs else None, ignored=self._ignored(out),
        )  # fmt: skip

    def _uncaught(self) -> bool | None:
        """True: it left the program. A handler's traceback starts where the handler stands, not at ``<module>``."""
        if any("threading.py" in path for path in self.paths[:2]):
            return False  # ends a thread only
        tag = self.first.tag("ranktag")
        if (tag is not None and tag.spaced) or self.outer in _OUTERMOST or self.outer.startswith("<module"):
            return True
        return False if self.outer else None

    def _ignored(self, out: Sink) -> bool:
        """Whether the line before said ``Exception ignored in: ...``."""
        return out.state(NAME, self.first.stream).pop("ignored", None) == self.first.no - 1


def _is_record(line: Line) -> bool:
    """Whether a line starts a log record of its own."""
    return line.level is not None and line.msg != line.text
