"""Slurm: what srun and slurmstepd say of tasks, nodes and the end of a step (src/srun, src/slurmd/slurmstepd)."""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "slurm"
ORDER = 8
TOKENS = ("srun: ", "slurmstepd", "JobState=", "oom_kill", "oom-kill")

_TASK = re.compile(r"srun: error: (?P<node>[\w.\[\],-]+): tasks? (?P<tasks>[\d,\-]+): (?P<what>.+)$")
_CANCELLED = re.compile(r"\*\*\* (?:STEP|JOB) (?P<id>[\w.+]+) ON (?P<node>[\w.-]+) (?:CANCELLED|FAILED)(?: AT (?P<at>\S+))?(?: (?:DUE TO|DUE to) (?P<why>[^*]+?))?(?:,.*)? ?\*\*\*")
_SIGNALS = {"Killed": "SIGKILL", "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS", "Terminated": "SIGTERM", "Illegal instruction": "SIGILL", "Interrupt": "SIGINT"}

SAMPLES = (Sample("srun: error: node-3: task 5: Killed", "exit_record", {"peer_rank": 5, "signal": "SIGKILL"}, "src/srun/libsrun/launch.c"),)


def expand(tasks: str) -> list[int]:
    """``16-18,25`` -> [16, 17, 18, 25]."""
    out: list[int] = []
    for part in tasks.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            out.extend(range(int(low), int(high or low) + 1))
    return out[:4096]


def parse(line: Line, out: Sink) -> bool:
    """One line of srun or slurmstepd."""
    text = line.text
    if m := _TASK.search(text):
        what = m["what"].removesuffix(" (core dumped)").strip()
        code = re.search(r"exit code (\d+)", what)
        signal = next((s for w, s in _SIGNALS.items() if what.startswith(w)), None)
        if what.startswith("Out Of Memory"):
            signal = "SIGKILL"
            out.event("killed_by_kernel", line, source=NAME, host=m["node"], subject_rank=expand(m["tasks"])[0] if len(expand(m["tasks"])) == 1 else None)
        for task in expand(m["tasks"]):
            out.event("exit_record", line, source=NAME, peer_rank=task, by="slurm", node=m["node"] if "[" not in m["node"] else None,
                      exitcode=int(code[1]) if code else None, signal=signal)  # fmt: skip
        return True
    if m := re.search(r"srun: error: Node failure on (\S+)", text):
        out.event("host_gone", line, source=NAME, host=m[1], scope="host")
        return True
    if m := _CANCELLED.search(text):
        why = (m["why"] or "").strip().upper()
        if "PREEMPT" in why or "REQUEUE" in why:
            out.event("preempted", line, source=NAME, agent=True, reason=why.lower())
        elif "TIME LIMIT" in why:
            out.event("external_signal", line, source=NAME, agent=True, signal="SIGTERM", reason="time limit")
        elif "NODE FAILURE" in why:
            out.event("host_gone", line, source=NAME, host=m["node"], scope="host", reason="node failure")
        elif "TASK FAILURE" in why or "SIGNAL" in why:
            out.event("teardown_noise", line, source=NAME, reason=why.lower() or None)
        else:
            out.event("external_signal" if not why else "teardown_noise", line, source=NAME, agent=True, signal="SIGTERM", reason=why.lower() or "cancelled")
        return True
    if re.search(r"slurmstepd.*(?:oom[_-]kill event)", text):
        out.event("killed_by_kernel", line, source=NAME, scope="host")
        return True
    if text.startswith(("srun: Terminating", "srun: Job step aborted", "srun: Force Terminated", "slurmstepd: error: ***")):
        out.event("teardown_noise", line, source=NAME)
        return True
    return False
