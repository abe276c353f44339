"""srun and slurmstepd, one task a rank (reference: layouts.md 1.2)."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence

from tests.simulator.cluster import Job
from tests.simulator.tape import Happening, Line

STRSIGNAL = {
    signal.SIGKILL: "Killed",
    signal.SIGSEGV: "Segmentation fault (core dumped)",
    signal.SIGABRT: "Aborted (core dumped)",
    signal.SIGTERM: "Terminated",
    signal.SIGBUS: "Bus error (core dumped)",
}


def _tasks(ranks: Sequence[int]) -> str:
    """Slurm's compressed list of task numbers."""
    runs: list[list[int]] = []
    for r in sorted(ranks):
        if runs and r == runs[-1][1] + 1:
            runs[-1][1] = r
        else:
            runs.append([r, r])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"task{'s' if len(ranks) > 1 else ''} {text}"


def task_ended(job: Job, h: Happening) -> Iterator[Line]:
    """Tasks of one node that ended alike."""
    ranks, code = h.data["ranks"], h.data["code"]
    how = STRSIGNAL[signal.Signals(-code)] if code < 0 else f"Exited with exit code {code}"
    proof = f"exit:{ranks[0]}" if len(ranks) == 1 else "exits"
    yield Line(h.t, h.who, f"srun: error: {job.procs[ranks[0]].host.name}: {_tasks(ranks)}: {how}", "err", proof, h.attempt)


def terminating(job: Job, h: Happening) -> Iterator[Line]:
    """--kill-on-bad-exit: the first bad exit ends the step; slurmstepd's line names the first node by construction."""
    yield Line(h.t, h.who, "srun: launch/slurm: _step_signal: Terminating StepId=4911.0", "err", "", h.attempt)
    yield from cancelled(job, h)


def cancelled(job: Job, h: Happening) -> Iterator[Line]:
    """``why``: empty, or Slurm's reason."""
    first = job.hosts[0]
    why = h.data.get("why", "")
    what = "JOB 4911" if why == "DUE TO TIME LIMIT" else "STEP 4911.0"
    # slurmstepd writes through the first task of its node: with --label or one file a task its line stands there
    yield Line(h.t, ("rank", 0), f"slurmstepd: error: *** {what} ON {first.name} CANCELLED AT {first.local(h.t):%Y-%m-%dT%H:%M:%S} {why + ' ' if why else ''}***", "err",
               "stop" if h.data.get("outside") else "", h.attempt)  # fmt: skip
    yield Line(h.t, h.who, "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", "err", "", h.attempt)


def node_failure(job: Job, h: Happening) -> Iterator[Line]:
    yield Line(h.t, h.who, f"srun: error: Node failure on {job.hosts[h.data['host']].name}", "err", f"node:{h.data['host']}", h.attempt)
    yield from cancelled(job, Happening(h.t, h.who, "cancelled", {"why": "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"}, h.attempt))


RENDER = {"task_ended": task_ended, "terminating": terminating, "cancelled": cancelled, "node_failure": node_failure}
