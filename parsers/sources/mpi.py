"""Open MPI, PRRTE, Hydra and MVAPICH: the launcher's word on the first process that ended badly.

Texts: orte and prte help files (``help-orterun.txt``), Hydra ``hydra_server.c``, MVAPICH ``error_handling.c``. These
launchers name the first process that they saw end, which is why its record counts as their root cause.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources import signals

NAME = "mpi"
ORDER = 9
TOKENS = ("noticed that process rank", "Process name: [[", "MPI_ABORT was invoked", "RUNNING AT", "EXIT CODE: ", "Exit code: ",
          "with errorcode", "MPI process (rank:", "error_sighandler")  # fmt: skip

_NOTICED = re.compile(r"(?:mpirun|mpiexec|orterun|prterun|prun) noticed that process rank (\d+) with PID (\d+) on node (\S+) exited on signal (\d+)")
_FIRST = re.compile(r"^\s*Process name: \[\[\d+,\d+\],(\d+)\]")
_FIRST_CODE = re.compile(r"^\s*Exit code:\s+(\d+)\s*$")
_ABORT = re.compile(r"MPI_ABORT was invoked on rank (\d+)")
_ABORT_CODE = re.compile(r"^\s*with errorcode (-?\d+)")
_HYDRA = re.compile(r"PID (\d+) RUNNING AT (\S+)")
_HYDRA_CODE = re.compile(r"EXIT CODE: (\d+)")
_MVAPICH = re.compile(
    r"\[(?P<node>[\w.-]+):mpispawn_\d+\]\[\w+\] MPI process \(rank: (?P<rank>\d+), pid: (?P<pid>\d+)\) (?:terminated with signal (?P<signal>\d+)|exited with status (?P<code>\d+))"
)
_CAUGHT = re.compile(r"\[(?P<node>[\w.-]+):mpi_rank_(?P<rank>\d+)\]\[error_sighandler\] Caught error: .*\(signal (?P<signal>\d+)\)")

SAMPLES = (
    Sample("mpirun noticed that process rank 3 with PID 4411 on node node-2 exited on signal 9 (Killed).", "exit_record",
           {"peer_rank": 3, "signal": "SIGKILL", "pid": 4411, "node": "node-2"}, "orte/tools/orterun/help-orterun.txt"),
    Sample("[node-2:mpispawn_1][child_handler] MPI process (rank: 3, pid: 4411) terminated with signal 9 -> abort job", "exit_record",
           {"peer_rank": 3, "signal": "SIGKILL"}, "MVAPICH mpispawn"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One line of an abort block. The exit code of a block stands on a line behind the process, and is added to its record."""
    text = line.text
    state = out.state(NAME, line.stream)
    if m := _NOTICED.search(text):
        out.event("exit_record", line, source=NAME, peer_rank=int(m[1]), by="mpi", pid=int(m[2]), node=m[3], signal=signals.name(m[4]), root_cause=True)
    elif m := _FIRST.search(text):
        state["first"] = out.event("exit_record", line, source=NAME, peer_rank=int(m[1]), by="mpi", exitcode=1, root_cause=True)
    elif m := _ABORT.search(text):
        state["abort"] = out.event("exit_record", line, source=NAME, peer_rank=int(m[1]), by="mpi", exitcode=1, how="MPI_ABORT")
    elif m := _HYDRA.search(text):
        state["hydra"] = out.event("exit_record", line, source=NAME, by="mpi", pid=int(m[1]), node=m[2], exitcode=1, root_cause=True)
    elif m := _MVAPICH.search(text):
        code = int(m["code"]) if m["code"] else None
        out.event("exit_record", line, source=NAME, peer_rank=int(m["rank"]), by="mpi", pid=int(m["pid"]), node=m["node"],
                  signal=signals.name(m["signal"]), exitcode=code)  # fmt: skip
    elif m := _CAUGHT.search(text):
        out.event("crashed", line, source=NAME, subject_rank=int(m["rank"]), signal=signals.name(m["signal"]), host=m["node"])
    else:
        return _code(text, out.state(NAME, line.stream))
    return True


def _code(text: str, state: dict[str, object]) -> bool:
    """The exit code that belongs to the record printed just before it. Hydra prints a wait status' signal as the code."""
    for key, pattern in (("first", _FIRST_CODE), ("abort", _ABORT_CODE), ("hydra", _HYDRA_CODE)):
        if (m := pattern.search(text)) and (event := state.pop(key, None)) is not None:
            code = int(m[1])
            event.attrs["exitcode"] = code  # type: ignore[attr-defined]
            signal = signals.of_exit(code) or (signals.name(code) if key == "hydra" and code in (4, 6, 7, 8, 9, 11, 15) else None)
            if signal is not None:
                event.attrs["signal"] = signal  # type: ignore[attr-defined]
            return True
    return False
