"""Open MPI, PRRTE and Hydra: the launcher's word on the first process that ended badly (orte/prte help texts)."""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "mpi"
ORDER = 9
TOKENS = ("mpirun noticed", "Process name: [[", "MPI_ABORT was invoked", "RUNNING AT", "prterun noticed")

_SIGNALS = {"9": "SIGKILL", "11": "SIGSEGV", "6": "SIGABRT", "7": "SIGBUS", "15": "SIGTERM", "4": "SIGILL", "8": "SIGFPE"}
SAMPLES = (
    Sample("mpirun noticed that process rank 3 with PID 4411 on node node-2 exited on signal 9 (Killed).", "exit_record", {"peer_rank": 3, "signal": "SIGKILL", "pid": 4411}),
)


def parse(line: Line, out: Sink) -> bool:
    """One line of an abort block."""
    text = line.text
    if m := re.search(r"(?:mpirun|prterun) noticed that process rank (\d+) with PID (\d+) on node (\S+) exited on signal (\d+)", text):
        out.event("exit_record", line, source=NAME, peer_rank=int(m[1]), by="mpi", pid=int(m[2]), node=m[3], signal=_SIGNALS.get(m[4], f"signal {m[4]}"), root_cause=True)
        return True
    if m := re.search(r"Process name: \[\[\d+,\d+\],(\d+)\]", text):
        out.state(NAME, line.stream)["rank"] = int(m[1])
        out.event("exit_record", line, source=NAME, peer_rank=int(m[1]), by="mpi", exitcode=1, root_cause=True)
        return True
    if m := re.search(r"MPI_ABORT was invoked on rank (\d+)", text):
        out.event("exit_record", line, source=NAME, peer_rank=int(m[1]), by="mpi", exitcode=1)
        return True
    if m := re.search(r"PID (\d+) RUNNING AT (\S+)", text):
        out.event("exit_record", line, source=NAME, by="mpi", pid=int(m[1]), node=m[2], exitcode=1)
        return True
    return False
