"""What a Python exception means, given its ``Type: text``.

Texts that a backend owns (a lost peer, a timeout, a mismatch) are read by that backend's ``classify``; the rest is
``raised`` and goes through the rulebook's signatures. Exceptions of launchers are the agent's, not a rank's.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sink
from correlator.parsers.sources import c10d_nccl, c10d_store, deepspeed, fingerprint, gloo, numeric, signals
from correlator.parsers.sources.group_ranks import settle

NAME = "python"
TEXT_LIMIT = 300

# names that follow PEP 8 (…Error, …Exception) and the few standard ones that do not
CONVENTIONAL = re.compile(
    r"^(?P<type>(?:[A-Za-z_][\w]*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Fault|Timeout|Iteration|Abort)\w*|[A-Z]\w*Err))(?:: ?(?P<text>.*))?$",
    re.DOTALL,
)
ANY = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*|(?:[A-Za-z_]\w*\.)+(?:error|timeout|gaierror|herror))(?:: ?(?P<text>.*))?$", re.DOTALL)

_CAUGHT = re.compile(r"Caught (\w+) in (?:DataLoader worker process (\d+)|replica \d+ on device|pin memory thread)")
_INNER = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt)): (.*)$", re.MULTILINE)
_SPAWNED = re.compile(r"process (\d+) terminated with (?:signal (\w+)|exit code (-?\d+))")
_RENDEZVOUS = {"RendezvousTimeoutError": "rendezvous_expired", "RendezvousClosedError": "teardown_noise", "RendezvousGracefulExitError": "teardown_noise"}
_EFFECTS = frozenset({"timed_out_waiting", "lost_connection", "lost_store", "store_wait", "remote_error"})


def emit(
    text: str,
    line: Line,
    out: Sink,
    *,
    line_end: int | None = None,
    quote_line: int | None = None,
    frames: list[str] | None = None,
    outer: str | None = None,
    uncaught: bool | None = None,
    agent: bool | None = None,
    cause: str | None = None,
    paths: list[str] | None = None,
    loose: bool = False,
    second_hand: bool = False,
    ignored: bool = False,
    **more: Any,
) -> None:
    """Adds the event of an exception.

    Args:
        text: ``Type: message``, all lines of it. line, line_end: where it stands.
        frames: ``file:function``, outermost first. outer: function of the outermost frame. paths: files of the frames.
        uncaught: whether it left the program, None if unknown. agent: a launcher raised it.
        cause: the first exception of a chain. loose: no traceback was seen. second_hand: quoted by another process.
        ignored: the interpreter reported and dropped it (a destructor at shutdown).
        more: further attrs, for example subject_rank (the rank that it is about).
    """
    m = CONVENTIONAL.match(text) or ANY.match(text)
    if m is None:
        return
    name, body = m["type"].rsplit(".", 1)[-1], m["text"] or ""
    name, body, worker = _inner(name, body)
    attrs: dict[str, Any] = {
        "exception": name, "text": body.split("\n", 1)[0][:TEXT_LIMIT], "frames": frames, "outer": outer, "uncaught": uncaught, "agent": agent or None,
        "second_hand": second_hand or None, "paths": paths, "loose": loose or None, "worker": worker, **more,
    }  # fmt: skip
    attrs = {k: v for k, v in attrs.items() if v is not None}
    common: dict[str, Any] = {"message": text, "line_end": line_end, "quote_line": quote_line}
    if ignored:
        out.event("teardown_noise", line, source=NAME, **common, **attrs)
        return
    if _of_launcher(name, body, line, out, common, attrs):
        return
    found = _effect(text, cause)
    if found is not None:
        kind, fields = found
        out.event(kind, line, source=NAME, **common, **{**attrs, **settle(fields, line)})
        return
    if cause:
        attrs["cause"] = cause.split("\n", 1)[0][:TEXT_LIMIT]
    whole = f"{m['type']}: {m['text']}" if m["text"] else m["type"]
    out.event("raised", line, source=NAME, **{**common, "message": whole}, refine=True, **attrs)


def _inner(name: str, body: str) -> tuple[str, str, int | None]:
    """A worker's exception is raised again in the main process around its own text: the worker's counts."""
    caught = _CAUGHT.search(body)
    if caught is None:
        return name, body, None
    worker = int(caught[2]) if caught[2] else None
    inner = _INNER.findall(body)
    return (*inner[-1], worker) if inner else (caught[1], body, worker)


def _of_launcher(name: str, body: str, line: Line, out: Sink, common: dict[str, Any], attrs: dict[str, Any]) -> bool:
    """Exceptions by which launchers and interpreters end; True if this is one."""
    if name in ("ChildFailedError", "SystemExit"):
        return True  # the report is the elastic parser's; an exit has no words
    if name == "SignalException":
        m = re.search(r"got signal: ([\w.]+)", body)
        out.event("external_signal", line, source=NAME, **common, signal=signals.name(m[1]) if m else None, agent=True)
        return True
    if name == "KeyboardInterrupt":
        out.event("external_signal", line, source=NAME, **common, signal="SIGINT", agent=bool(attrs.get("agent")))
        return True
    if name == "ProcessExitedException" and (m := _SPAWNED.search(body)):
        code = int(m[3]) if m[3] else None
        signal = signals.name(m[2]) if m[2] else signals.of_exit(code) if code is not None else None
        out.event("exit_record", line, source=NAME, **common, by="spawn", local_rank=int(m[1]), exitcode=code, signal=signal)
        return True
    if name.startswith("Rendezvous"):
        kind = _RENDEZVOUS.get(name, "lost_store")
        out.event(kind, line, source=NAME, **common, **{**attrs, "agent": True, "scope": "job" if kind == "rendezvous_expired" else None})
        return True
    return False


def _effect(text: str, cause: str | None) -> tuple[str, dict[str, Any]] | None:
    """What the owner of this text makes of it; else, what it makes of the exception that was being handled."""
    found = _owned(text)
    if found is None and cause:
        chained = _owned(cause)
        if chained is not None and chained[0] in _EFFECTS:
            return chained[0], {**chained[1], "why": "raised while handling it"}
    return found


def _owned(text: str) -> tuple[str, dict[str, Any]] | None:
    for module in (fingerprint, gloo, c10d_store, c10d_nccl, numeric):
        found = module.classify(text)
        if found is not None:
            return found
    if "isagreement" in text and (claims := deepspeed.disagreement(text)) is not None:
        return "mismatch", {"why": "zero3_disagreement", **claims}
    return None
