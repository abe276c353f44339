"""Python tracebacks: one event for a whole chain, with the exception that ended it (traceback.py, PEP 3134).

An exception whose text is a lost connection, a timeout or a mismatch is read by the module that owns that text
before the rulebook's signatures see it. A traceback that a handler logged is not an exit: ``uncaught`` tells.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources import c10d_nccl, c10d_store, deepspeed, fingerprint, gloo, numeric

NAME = "python"
ORDER = 10
TOKENS = ("Traceback (most recent call last)", "Error: ", "Exception: ", "Error\n", "Interrupt")
MESSAGE_LINES = 24

_START = re.compile(r"^(?:[\s+|]*|\S.{0,160}: ?)Traceback \(most recent call last\):?\s*(?:\(RANK \d+\))?\s*$")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)(?:, in (.+?))?\s*$')
_EXCEPTION = re.compile(r"^(?P<type>(?:[A-Za-z_][\w]*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Fault|Timeout|Iteration|Abort)\w*|[A-Z]\w*Err))(?:: (?P<text>.*))?$", re.DOTALL)
_ANY_EXCEPTION = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (?P<text>.*))?$", re.DOTALL)
_CHAIN = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_AGENT_FRAMES = ("torch/distributed/run.py", "torch/distributed/launcher/api.py", "torch/distributed/launch.py", "accelerate/commands/launch.py")
_OUTERMOST = ("<module>", "_bootstrap", "spawn_main", "_main", "_wrap", "_run_module_as_main", "_run_code")
_WORKER = re.compile(r"Caught (\w+) in DataLoader worker process (\d+)")
_EFFECTS = frozenset({"timed_out_waiting", "lost_connection", "lost_store", "store_wait", "remote_error"})

SAMPLES = (
    Sample('Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\nValueError: bad sample 7741', "raised",
           {"exception": "ValueError", "uncaught": True}, "Lib/traceback.py"),  # fmt: skip
)


def parse(line: Line, out: Sink) -> bool:
    """An exception line without its traceback (cut or interleaved away)."""
    text = line.text if line.msg == line.text else line.msg
    if line.level is not None or text[:1] in (" ", "\t", "[", "{", "'", '"', "-"):
        return False
    m = _EXCEPTION.match(text)
    if m is None or m["type"].endswith("Warning") or (m["text"] is None and "." not in m["type"] and len(text) > 40):
        return False
    if m["type"].rsplit(".", 1)[-1] in ("ChildFailedError",):
        return False
    emit(text, line, out, loose=True)
    return True


class Block:
    """From ``Traceback (most recent call last):`` to the end of the last exception's message."""

    def __init__(self, line: Line) -> None:
        self.first = line
        self.last = line
        self.indent = len(line.text) - len(line.text.lstrip(" +|"))
        self.frames: list[str] = []
        self.outer = ""
        self.message: list[str] = []
        self.state = "frames"  # frames, message, gap, chain
        self.first_cause: str | None = None
        self.logged: str | None = None
        self.all_frames: list[str] = []

    @staticmethod
    def opens(line: Line) -> bool:
        return "Traceback (most recent" in line.text and _START.match(line.text if line.msg == line.text else line.msg) is not None

    def _body(self, text: str) -> str:
        return text[self.indent :] if self.indent and text[: self.indent].strip(" +|") == "" else text

    def feed(self, line: Line, out: Sink) -> bool:
        text = self._body(line.text)
        if self.state == "frames":
            if m := _FRAME.match(text):
                function = m[3] or "<module>"
                if not self.frames:
                    self.outer = function
                self.frames.append(f"{m[1].rsplit('/', 1)[-1]}:{function}")
                self.all_frames.append(m[1])
                self.last = line
                return True
            if not text.strip() or text[:1] in (" ", "\t") or text.startswith(("~", "^")):
                self.last = line
                return True
            if _START.match(text):
                return True
            if line.level is not None and line.msg != line.text or "errors.ChildFailedError" in text:
                return False
            if _ANY_EXCEPTION.match(text) and (not self.frames or _EXCEPTION.match(text) or ":" in text or "." in text or " " not in text.strip()):
                self.message = [text]
                self.state = "message"
                self.last = line
                return True
            # a path or statement that a terminal wrapped
            if len(self.frames) < 80:
                return True
            return False
        if self.state == "message":
            if not text.strip():
                self.state = "gap"
                return True
            if line.level is not None and line.msg != line.text or _START.match(text) or re.match(r"^\[?[IWEF]\d{4} ", text):
                return False
            if _CHAIN.search(text):
                self.state = "chain"
                return True
            if _EXCEPTION.match(text) and not text.startswith("ncclI") and not re.match(r"^nccl\w+Error: ", text):
                return False
            if len(self.message) >= MESSAGE_LINES or not self._continues(text):
                return False
            self.message.append(text)
            self.last = line
            return True
        if self.state == "gap":
            if _CHAIN.search(text):
                self.state = "chain"
                return True
            if not text.strip():
                return False
            if text.startswith(("Exception raised from ", "frame #", "Last error", "Compile with", "Original Traceback", "Parameter")):
                self.message.append(text)
                self.state = "message"
                return True
            return False
        # chain: blank lines, then the next traceback
        if not text.strip():
            return True
        if _START.match(text):
            self.first_cause = self.first_cause or "\n".join(self.message)
            self.frames, self.message, self.outer, self.state = [], [], "", "frames"
            return True
        return False

    def _continues(self, text: str) -> bool:
        """Whether an unprefixed line belongs to the message rather than to the program's next output."""
        if len(self.message) == 1 and not self.message[0].rstrip().endswith((".", ":", ",", "(", "?", "!")) and text[:1] not in (" ", "\t"):
            return bool(re.match(r"(?:nccl|Last error|CUDA|For |Compile|Original|This |If |You |making |Parameter|Exception raised|frame #|\")", text))
        joined = self.message[0]
        return (
            text[:1] in (" ", "\t")
            or "NCCL error" in joined or "CUDA error" in joined or "finished reduction" in joined or "Caught " in joined or "Detected mismatch" in joined
            or bool(re.match(r"(?:nccl\w+: |Last error|CUDA kernel|For debugging|Compile with|Original Traceback|Exception raised|frame #|Parameter|making sure|If you already)", text))
        )  # fmt: skip

    def close(self, out: Sink) -> None:
        if not self.message:
            if self.frames and not any(marker in f for f in self.all_frames for marker in _AGENT_FRAMES):
                out.event("warned", self.first, source=NAME, line_end=self.last.no, why="traceback without its exception", frames=self.frames[-4:])
            return
        out_state = out.state(NAME, self.first.stream)
        logged = bool(out_state.pop("logged", None))
        tag = self.first.tag("ranktag")
        uncaught: bool | None = None
        if tag is not None and tag.spaced:
            uncaught = True
        elif self.outer in _OUTERMOST or self.outer.startswith("<module"):
            uncaught = True
        elif logged or self.outer:
            uncaught = False
        if any("threading.py" in f for f in self.all_frames[:2]):
            uncaught = False
        agent = any(marker in f for f in self.all_frames for marker in _AGENT_FRAMES)
        emit("\n".join(self.message), self.first, out, line_end=self.last.no, frames=self.frames[-8:], outer=self.outer or None, uncaught=uncaught,
             agent=agent or None, cause=self.first_cause, paths=self.all_frames[-8:])  # fmt: skip


def emit(text: str, line: Line, out: Sink, *, line_end: int | None = None, frames: list[str] | None = None, outer: str | None = None, uncaught: bool | None = None,
         agent: bool | None = None, cause: str | None = None, paths: list[str] | None = None, loose: bool = False, second_hand: bool = False) -> None:  # fmt: skip
    """Emits the event of an exception given its ``Type: text``."""
    m = _EXCEPTION.match(text) or _ANY_EXCEPTION.match(text)
    if m is None:
        return
    kind_name = m["type"].rsplit(".", 1)[-1]
    body = m["text"] or ""
    if w := _WORKER.search(body):
        inner = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception)): (.*)$", body, re.M)
        if inner:
            kind_name, body = inner[-1][0], inner[-1][1]
        else:
            kind_name = w[1]
    attrs: dict[str, Any] = {"exception": kind_name, "text": body.split("\n", 1)[0][:300], "frames": frames, "outer": outer, "uncaught": uncaught, "agent": agent,
                             "second_hand": second_hand or None, "paths": paths, "loose": loose or None}  # fmt: skip
    if kind_name == "ChildFailedError":
        return
    if kind_name == "SignalException":
        signal = re.search(r"got signal: (?:Signals\.)?(\w+)", body)
        out.event("external_signal", line, source=NAME, message=text, line_end=line_end, signal=_signal(signal[1] if signal else None), agent=True)
        return
    if kind_name == "KeyboardInterrupt":
        out.event("external_signal", line, source=NAME, message=text, line_end=line_end, signal="SIGINT", agent=bool(agent))
        return
    if kind_name in ("SystemExit",):
        return
    if kind_name.startswith("Rendezvous"):
        attrs["agent"] = True
        kind = {"RendezvousTimeoutError": "rendezvous_expired", "RendezvousClosedError": "teardown_noise", "RendezvousConnectionError": "lost_store"}.get(kind_name, "lost_store")
        out.event(kind, line, source=NAME, message=text, line_end=line_end, **{**attrs, "scope": "job" if kind == "rendezvous_expired" else None})
        return
    found = _effect_of(text)
    if found is None and cause:
        chained = _effect_of(cause)
        if chained is not None and chained[0] in _EFFECTS:
            # raised while handling a lost peer or a timeout: the consequence of that
            found = (chained[0], {**chained[1], "why": "raised while handling it"})
    if found is not None:
        kind, fields = found
        if agent and kind in ("store_wait", "lost_store", "store_failed", "port_taken"):
            attrs["agent"] = True
        out.event(kind, line, source=NAME, message=text, line_end=line_end, **{**{k: v for k, v in attrs.items() if v is not None}, **fields})
        return
    if agent:
        attrs["agent"] = True
    attrs["cause"] = cause.split("\n", 1)[0][:300] if cause else None
    out.event("raised", line, source="python", message=f"{m['type']}: {m['text']}" if m["text"] else m["type"], line_end=line_end, refine=True,
              **{k: v for k, v in attrs.items() if v is not None})  # fmt: skip


def _effect_of(text: str) -> tuple[str, dict[str, Any]] | None:
    for module in (fingerprint, gloo, c10d_store, c10d_nccl, numeric):
        found = module.classify(text)
        if found is not None:
            return found
    if "isagreement" in text and (claims := deepspeed.disagreement(text)) is not None:
        return "mismatch", {"why": "zero3_disagreement", **claims}
    return None


def _signal(value: str | None) -> str | None:
    names = {"1": "SIGHUP", "2": "SIGINT", "3": "SIGQUIT", "15": "SIGTERM", "10": "SIGUSR1", "12": "SIGUSR2"}
    return names.get(value or "", value)
