"""Kubernetes: ``kubectl describe pod``, container statuses and event lists (kubelet, scheduler, node controller).

A container's end is known here by pod, not by rank: exit records carry ``pod``. ``OOMKilled`` is set only when the
container's own main process was killed; a killed child leaves ``Error``. Event times are the controller's and trail.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

from correlator.parsers.schema import Line, Sample, Sink, Stamp
from correlator.parsers.sources import signals

NAME = "kubernetes"
ORDER = 9
TOKENS = (
    "OOMKill", "Restart Count", "Evicted", "Preempt", "NodeNotReady", "Last State:", "  State:", "Exit Code:", "TaintManager",
    "SystemOOM", "Finished:", "Namespace:", "Name:  ",
)  # fmt: skip

_POD = re.compile(r"^Name:\s{2,}(\S+)\s*$")
_STATE = re.compile(r"^\s+(?:Last )?State:\s+(\w+)\s*$")
_REASON = re.compile(r"^\s+Reason:\s+(\w+)\s*$")
_CODE = re.compile(r"^\s+Exit Code:\s+(\d+)\s*$")
_FINISHED = re.compile(r"^\s+Finished:\s+(\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4})\s*$")
_RESTARTS = re.compile(r"^\s+Restart Count:\s+(\d+)\s*$")
_EVENT = re.compile(r"\b(?:Normal|Warning)\s+(?P<reason>OOMKilling|SystemOOM|Evicted|Preempt(?:ed|ing)|TaintManagerEviction|NodeNotReady)\b(?P<rest>.*)")
_JSON = re.compile(r'"reason": ?"(OOMKilled|OOMKilling)"')
_NODE = re.compile(r"\bnode/(?P<a>[\w.-]+)|Node (?P<b>[\w.-]+) status is now")
_VICTIM = re.compile(r"Killed process (\d+) \(([^)]*)\)|victim process: ([^,]+), pid: (\d+)")

SAMPLES = (
    Sample("      Reason:       OOMKilled", "killed_by_kernel", {}, "kubectl describe"),
    Sample("    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    139", "exit_record",
           {"exitcode": 139, "signal": "SIGSEGV", "by": "kubernetes"}, "kubectl describe"),
    Sample("2m  Normal  NodeNotReady  node/gpu-node-4  Node gpu-node-4 status is now: NodeNotReady", "host_gone", {"host": "gpu-node-4"}, "node controller"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One line of a description or an event list."""
    text = line.text
    if m := _EVENT.search(text):
        _event(m, line, out)
        return True
    if _JSON.search(text):
        out.event("killed_by_kernel", line, source=NAME, scope="host")
        return True
    return _describe(text, line, out)


def _event(m: re.Match[str], line: Line, out: Sink) -> None:
    reason, rest = m["reason"], m["rest"]
    node = _NODE.search(rest)
    host = (node["a"] or node["b"]) if node else None
    if reason in ("OOMKilling", "SystemOOM"):
        victim = _VICTIM.search(rest)
        pid = int(victim[1] or victim[4]) if victim else None
        out.event("killed_by_kernel", line, source=NAME, scope="host", host=host, pid=pid, comm=(victim[2] or victim[3]) if victim else None)
    elif reason == "NodeNotReady":
        out.event("host_gone", line, source=NAME, refine=True, scope="host", host=host)
    elif reason == "Evicted" and "low on resource: memory" in rest:
        out.event("host_memory", line, source=NAME, scope="host", host=host, fault="evicted, the node was low on memory")
    else:
        out.event("preempted", line, source=NAME, refine=True, agent=True, reason=reason)


def _describe(text: str, line: Line, out: Sink) -> bool:
    state = out.state(NAME, line.stream)
    if m := _POD.match(text):
        state["pod"] = m[1]
        return False  # many programs print a name
    if m := _STATE.match(text):
        state["ended"], state["reason"], state["record"] = m[1] == "Terminated", None, None
    elif m := _REASON.match(text):
        state["reason"] = m[1]
        if m[1] == "OOMKilled":
            out.event("killed_by_kernel", line, source=NAME, scope="host", pod=state.get("pod"))
        elif m[1] == "Evicted":
            out.event("preempted", line, source=NAME, agent=True, reason="Evicted")
    elif (m := _CODE.match(text)) and state.get("ended"):
        code = int(m[1])
        if code:  # who sent the signal to a container that ran out of memory is already said
            signal = None if state.get("reason") == "OOMKilled" else signals.of_exit(code)
            state["record"] = out.event("exit_record", line, source=NAME, by="kubernetes", pod=state.get("pod"), exitcode=code,
                                        signal=signal, reason=state.get("reason"))  # fmt: skip
    elif (m := _FINISHED.match(text)) and state.get("record") is not None:
        state["record"].stamp, state["record"].ts_origin = _stamp(m[1]), "own"
    elif m := _RESTARTS.match(text):
        if int(m[1]) > 0:
            out.event("restart", line, source=NAME, count=int(m[1]), pod=state.get("pod"))
    else:
        return False
    return True


def _stamp(text: str) -> Stamp:
    """The time kubectl prints in a description (RFC 1123 with a numeric zone, whole seconds)."""
    when = parsedate_to_datetime(text)
    offset = int(when.utcoffset().total_seconds()) // 60  # type: ignore[union-attr]
    return Stamp(int(when.timestamp()) * 1_000_000 + offset * 60_000_000, offset, 1_000_000, True, True, text)
