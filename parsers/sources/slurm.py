"""Slurm: what srun and slurmstepd say of tasks, nodes and the end of a step (src/srun, src/slurmd/slurmstepd).

A task's number is its rank only where a task is a rank. Where a task is a node's launcher, the identity step turns
the number into a node's. TIME LIMIT, PREEMPTION and NODE FAILURE come from outside and precede everything else; a
plain CANCELLED is as often the consequence of a task that failed.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources import signals

NAME = "slurm"
ORDER = 8
TOKENS = ("srun: ", "slurmstepd", "oom_kill event", "oom-kill event", "error: *** ")
TASKS_LIMIT = 65_536

_TASK = re.compile(r"srun: error: (?P<node>[\w.\[\],-]+): tasks? (?P<tasks>[\d,\-]+): (?P<what>.+)$")
_NODE_FAILED = re.compile(r"srun: error: Node failure on (\S+)")
_LAUNCH = re.compile(r"srun: error: Task launch for StepId=\S+ failed on node (?P<node>[\w.-]+): (?P<why>.+)$")
_END = re.compile(
    r"error: \*\*\* (?:STEP|JOB) (?P<id>[\w.+]+) ON (?P<node>[\w.-]+) (?P<what>CANCELLED|FAILED)(?: AT (?P<at>[\dT:+.-]+))?"
    r"(?: DUE [Tt][Oo] (?P<why>[^*,]+?))?(?:,[^*]*)?(?: \([^)]*\))? ?\*\*\*"
)
_OOM = re.compile(r"[Dd]etected (?:(?P<n>\d+) )?oom[_-]kill event(?:\(s\))? in (?:StepId=)?(?P<step>[\w.+]+)")
_HOST = re.compile(r"slurmstepd-(?P<host>[\w.-]+?): ")
_CODE = re.compile(r"exit code (\d+)")

SAMPLES = (
    Sample("srun: error: node-3: task 5: Killed", "exit_record", {"peer_rank": 5, "signal": "SIGKILL", "node": "node-3"}, "src/srun/libsrun/launch.c"),
    Sample("slurmstepd: error: *** JOB 71 ON node-1 CANCELLED AT 2026-03-02T11:00:05 DUE TO TIME LIMIT ***", "external_signal",
           {"signal": "SIGTERM", "reason": "time limit"}, "src/slurmd/slurmstepd/req.c"),
)  # fmt: skip


def expand(tasks: str) -> list[int]:
    """``16-18,25`` -> [16, 17, 18, 25]; at most ``TASKS_LIMIT`` numbers."""
    out: list[int] = []
    for part in tasks.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            end = int(high) if high.isdigit() else int(low)
            out.extend(range(int(low), min(end, int(low) + TASKS_LIMIT) + 1))
    return out[:TASKS_LIMIT]


def parse(line: Line, out: Sink) -> bool:
    """One line of srun or slurmstepd."""
    text = line.text
    if m := _TASK.search(text):
        _tasks(m, line, out)
    elif m := _NODE_FAILED.search(text):
        out.event("host_gone", line, source=NAME, host=m[1], scope="host", reason="node failure")
        out.state(NAME, line.stream)["failed"] = m[1]
    elif m := _LAUNCH.search(text):
        out.event("warned", line, source=NAME, host=m["node"], why="launch failed", reason=m["why"])
    elif m := _END.search(text):
        _ended(m, line, out)
    elif m := _OOM.search(text):
        host = _HOST.search(text)
        out.event("killed_by_kernel", line, source=NAME, scope="host", host=host["host"] if host else None, step_id=m["step"].rstrip("."),
                  count=int(m["n"]) if m["n"] else None)  # fmt: skip
    elif "Terminating StepId" in text or "Terminating job step" in text:
        out.event("teardown_noise", line, source=NAME, why="srun ends the step")
    elif text.startswith(("srun: launch/slurm: ", "srun: Terminating", "srun: Job step aborted", "srun: Force Terminated", "slurmstepd: error: ***")):
        out.event("teardown_noise", line, source=NAME)
    else:
        return False
    return True


def _tasks(m: re.Match[str], line: Line, out: Sink) -> None:
    """One exit record a task. A list of nodes beside a list of tasks does not say which task ran where."""
    what = m["what"].removesuffix(" (core dumped)").strip()
    tasks, code = expand(m["tasks"]), _CODE.search(what)
    signal = signals.of_words(what) or ("SIGINT" if what.startswith("Interrupt") else None)
    node = m["node"] if "[" not in m["node"] and "," not in m["node"] else None
    if what.startswith("Out Of Memory"):
        signal = "SIGKILL"
        # of the host, never of a rank: the task may be a node's launcher, which only the identity step can tell
        out.event("killed_by_kernel", line, source=NAME, scope="host", host=node, tasks=tasks[:64])
    for task in tasks:
        out.event("exit_record", line, source=NAME, peer_rank=task, by="slurm", node=node, exitcode=int(code[1]) if code else None, signal=signal)


def _ended(m: re.Match[str], line: Line, out: Sink) -> None:
    """The end of a step or job and why, as slurmstepd prints it."""
    why = (m["why"] or "").strip().lower()
    if "preempt" in why or "requeue" in why:
        out.event("preempted", line, source=NAME, refine=True, agent=True, reason=why)
    elif "time limit" in why:
        out.event("external_signal", line, source=NAME, refine=True, agent=True, signal="SIGTERM", reason="time limit")
    elif "node failure" in why:  # ON names the step's first node by construction; the one that failed stands in srun's line
        out.event("host_gone", line, source=NAME, refine=True, scope="host", reason="node failure",
                  host=out.state(NAME, line.stream).get("failed"), reporter=m["node"])  # fmt: skip
    elif not why and m["what"] == "CANCELLED":
        out.event("external_signal", line, source=NAME, agent=True, signal="SIGTERM", reason="cancelled")
    else:
        out.event("teardown_noise", line, source=NAME, reason=why or m["what"].lower())
