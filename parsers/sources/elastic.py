"""torchrun's agent: stops, exit records, restarts, the ChildFailedError block (torch/distributed/elastic)."""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "elastic"
ORDER = 5
TOKENS = ("closing signal", "failed (exitcode", "death signal", "ChildFailedError", "Worker group", "worker group", "Rendezvous", "rendezvous", "forcefully exiting", "D-state", "exit barrier",
          "OMP_NUM_THREADS", "no error file defined")  # fmt: skip

_STOP = re.compile(r"Sending process (\d+) closing signal (\w+)")
_HARD = re.compile(r"Unable to shutdown process (\d+) via \S+, forcefully exiting via (\S+)")
_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_DEATH = re.compile(r"Received (?:Signals\.)?(\w+) death signal")
_FIELD = re.compile(r"^\s+(time|host|rank|exitcode|error_file|traceback)\s*: (.*)$")
_SIGNALS = {"-1": "SIGHUP", "-2": "SIGINT", "-3": "SIGQUIT", "-4": "SIGILL", "-5": "SIGTRAP", "-6": "SIGABRT", "-7": "SIGBUS", "-8": "SIGFPE", "-9": "SIGKILL", "-10": "SIGUSR1",
            "-11": "SIGSEGV", "-12": "SIGUSR2", "-13": "SIGPIPE", "-15": "SIGTERM"}  # fmt: skip
_NUMBERED = {str(-int(k)): v for k, v in _SIGNALS.items()}

SAMPLES = (
    Sample("W1130 21:01:14.146000 1616 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 1920 closing signal SIGTERM", "signalled",
           {"pid": 1920, "signal": "SIGTERM"}, "torch/distributed/elastic/multiprocessing/api.py"),  # fmt: skip
    Sample("E1130 20:59:42.814000 713 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 2 (pid: 766) of binary: /opt/venv/bin/python3",
           "exit_record", {"exitcode": -9, "signal": "SIGKILL", "local_rank": 2, "pid": 766}, "torch/distributed/elastic/multiprocessing/api.py"),  # fmt: skip
)


def signal_name(exitcode: int) -> str | None:
    """SIGKILL for -9 and 137, None for an ordinary code."""
    if exitcode < 0:
        return _SIGNALS.get(str(exitcode), f"signal {-exitcode}")
    return None


def parse(line: Line, out: Sink) -> bool:
    """One agent line."""
    text = line.msg
    if m := _STOP.search(text):
        out.event("signalled", line, source=NAME, pid=int(m[1]), signal=m[2])
        return True
    if m := _HARD.search(text):
        out.event("signalled", line, source=NAME, pid=int(m[1]), signal="SIGKILL", stuck=True)
        return True
    if m := _FAILED.search(text):
        code = int(m[1])
        out.event("exit_record", line, source=NAME, by="elastic", exitcode=code, signal=signal_name(code), local_rank=int(m[2]), pid=int(m[3]), agent_line=True)
        return True
    if m := _DEATH.search(text):
        out.event("external_signal", line, source=NAME, signal=_NUMBERED.get(m[1], m[1]), agent=True)
        return True
    if "Worker group FAILED" in text or "will restart worker group" in text:
        out.event("restart", line, source=NAME)
        return True
    if "D-state" in text and (m := re.search(r"Worker pid=(\d+)", text)):
        out.event("warned", line, source=NAME, pid=int(m[1]), why="uninterruptible sleep")
        return True
    if "exit barrier" in text or "failed to shutdown the rendezvous" in text or "no error file defined for parent" in text:
        out.event("teardown_noise", line, source=NAME)
        return True
    if "failed to send a keep-alive heartbeat to the rendezvous" in text:
        out.event("lost_store", line, source=NAME, agent=True)
        return True
    if "Setting OMP_NUM_THREADS" in text:
        out.event("started", line, source=NAME, agent=True)
        return True
    return False


class Block:
    """The ChildFailedError table, or the indented result of a rendezvous."""

    def __init__(self, line: Line) -> None:
        self.first = line
        self.rendezvous = "Rendezvous complete" in line.text
        self.section = ""
        self.entries: list[dict[str, Any]] = []
        self.fields: dict[str, str] = {}
        self.in_traceback = False

    @staticmethod
    def opens(line: Line) -> bool:
        return "errors.ChildFailedError" in line.text or "Rendezvous complete for workers. Result:" in line.text

    def feed(self, line: Line, out: Sink) -> bool:
        text = line.msg if self.rendezvous else line.text
        if self.rendezvous:
            if m := re.match(r"^\s+(\w+)=(.*)$", text):
                self.fields[m[1]] = m[2].strip()
                return True
            return False
        if re.match(r"^=+\s*$", text):
            return not self.entries or "Root Cause" not in self.section
        if re.match(r"^-+\s*$", text) or text.strip().endswith(" FAILED"):
            self.in_traceback = False
            return True
        if text.startswith(("Failures:", "Root Cause")):
            self.section, self.in_traceback = text, False
            return True
        if re.match(r"^\[\d+\]:", text):
            self.entries.append({"root": self.section.startswith("Root"), "line": line, "text": []})
            self.in_traceback = False
            return True
        if "<NO_OTHER_FAILURES>" in text or not text.strip():
            return True
        if self.entries:
            if not self.in_traceback and (m := _FIELD.match(text)):
                self.entries[-1][m[1]] = m[2].strip()
                self.in_traceback = m[1] == "traceback"
                if self.in_traceback and "Error" in m[2]:
                    self.entries[-1]["text"].append(m[2])
                return True
            if self.in_traceback and text[:1] == " ":
                self.entries[-1]["text"].append(text.strip())
                return True
        return False

    def close(self, out: Sink) -> None:
        if self.rendezvous:
            numbers = {k: [int(n) for n in re.findall(r"-?\d+", v)] for k, v in self.fields.items() if k in ("global_ranks", "local_ranks", "group_rank", "restart_count", "global_world_sizes")}
            out.mapping(self.first, NAME, global_ranks=numbers.get("global_ranks"), node_rank=(numbers.get("group_rank") or [None])[0],
                        restart=(numbers.get("restart_count") or [None])[0], world_size=(numbers.get("global_world_sizes") or [None])[0])  # fmt: skip
            return
        for e in self.entries:
            rank = re.match(r"(\d+)(?: \(local_rank: (\d+)\))?", e.get("rank", ""))
            code = re.match(r"(-?\d+)\s+\(pid: (\d+)\)", e.get("exitcode", ""))
            if rank is None or code is None:
                continue
            exitcode = int(code[1])
            error_file = e.get("error_file")
            error_file = None if error_file in (None, "<N/A>") else error_file
            exception = next((t for t in reversed(e["text"]) if re.match(r"^[\w.]*(?:Error|Exception|Interrupt)\w*(?::|$)", t)), None)
            line: Line = e["line"]
            out.event("exit_record", line, source=NAME, message=f"rank {rank[1]} exitcode {exitcode} (pid {code[2]})" + (f": {exception}" if exception else ""), peer_rank=int(rank[1]),
                      by="elastic", exitcode=exitcode, signal=signal_name(exitcode), pid=int(code[2]), local_rank=int(rank[2]) if rank[2] else None, node=e.get("host"),
                      error_file=error_file, time=e.get("time"), root_cause=e["root"], exception_text=exception)  # fmt: skip
            out.mapping(line, NAME, global_rank=int(rank[1]), local_rank=int(rank[2]) if rank[2] else None, pid=int(code[2]), host=e.get("host"), error_file=error_file)
