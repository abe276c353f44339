"""torchrun's agent: stops, exit records, restarts, rendezvous, the ChildFailedError block (torch/distributed/elastic).

The agent is the launcher process of one node. What it says is about its workers: a pid that it stops is collateral, and
its "Root Cause" is the first failure that *it* saw, in whole seconds, so the block may name a victim.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources import signals

NAME = "elastic"
ORDER = 5
TOKENS = (
    "closing signal", "failed (exitcode", "death signal", "ChildFailedError", "Worker group", "worker group", "Rendezvous", "rendezvous",
    "forcefully exiting", "D-state", "after SIGKILL", "exit barrier", "OMP_NUM_THREADS", "no error file defined",
)  # fmt: skip

_STOP = re.compile(r"Sending process (\d+) closing signal (\w+)")
_HARD = re.compile(r"Unable to shutdown process (\d+) via \S+, forcefully exiting via (\S+)")
_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_DEATH = re.compile(r"Received (?:Signals\.)?(\w+) death signal")
_STUCK = re.compile(
    r"Worker pid=(\d+) (?:entered|stuck in) uninterruptible sleep \(D-state\)(?:.*? for ([\d.]+)s)?|Process (\d+) did not exit after SIGKILL within ([\d.]+)s"
)
_RESTART = re.compile(r"Worker group FAILED\. (\d+)/(\d+) attempts left|Detected (\d+) new nodes from group_rank=(\d+)")
_REMOVED = re.compile(r"the node\(s\) (.+?) have been removed from the rendezvous .* since they had no heartbeat")
_NODE = re.compile(r"'([^']+)_\d+_\d+'")
_BENIGN = ("exit barrier", "failed to shutdown the rendezvous", "no error file defined for parent")
_FIELD = re.compile(r"^\s+(time|host|rank|exitcode|error_file|traceback)\s*: (.*)$")
_SETTING = re.compile(r"^\s+(\w+)=(.*)$")
_RANK = re.compile(r"(\d+)(?: \(local_rank: (\d+)\))?")
_CODE = re.compile(r"(-?\d+)\s+\(pid: (\d+)\)")
_EXCEPTION = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt)\w*(?::|$)")
_API = "torch/distributed/elastic/multiprocessing/api.py"

SAMPLES = (
    Sample(f"W1130 21:01:14.146000 1616 {_API}:1028] Sending process 1920 closing signal SIGTERM", "signalled", {"pid": 1920, "signal": "SIGTERM"}, _API),
    Sample(f"E1130 20:59:42.814000 713 {_API}:1002] failed (exitcode: -9) local_rank: 2 (pid: 766) of binary: /opt/venv/bin/python3",
           "exit_record", {"exitcode": -9, "signal": "SIGKILL", "local_rank": 2, "pid": 766}, _API),
    Sample("WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers", "external_signal",
           {"signal": "SIGTERM", "agent": True}, "torch/distributed/elastic/agent/server/api.py"),
    Sample(f"W0502 10:11:12.000000 99 {_API}:900] Unable to shutdown process 4242 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
           "signalled", {"pid": 4242, "signal": "SIGKILL", "stuck": True}, _API),
    Sample("I0502 10:11:12.000000 99 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. 1/3 attempts left; will restart worker group",
           "restart", {"attempts_left": 1}, "torch/distributed/elastic/agent/server/api.py"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One agent line."""
    text = line.msg
    if m := _STOP.search(text):
        out.event("signalled", line, source=NAME, pid=int(m[1]), signal=m[2])
    elif m := _HARD.search(text):
        out.event("signalled", line, source=NAME, pid=int(m[1]), signal=signals.name(m[2]), stuck=True)
    elif m := _FAILED.search(text):
        code = int(m[1])
        out.event("exit_record", line, source=NAME, by="elastic", exitcode=code, signal=signals.of_exit(code), local_rank=int(m[2]), pid=int(m[3]), agent_line=True)
    elif m := _DEATH.search(text):
        out.event("external_signal", line, source=NAME, signal=signals.name(m[1]), agent=True)
    elif m := _STUCK.search(text):
        seconds = m[2] or m[4]
        out.event("warned", line, source=NAME, pid=int(m[1] or m[3]), why="uninterruptible sleep", duration_ms=float(seconds) * 1000 if seconds else None)
    elif "Worker group FAILED" in text or "will restart worker group" in text:
        _restart(text, line, out)
    elif m := _REMOVED.search(text):
        for host in _NODE.findall(m[1]):
            out.event("warned", line, source=NAME, peer_host=host, why="no heartbeat in the rendezvous")
    elif any(phrase in text for phrase in _BENIGN):
        out.event("teardown_noise", line, source=NAME)
    elif "failed to send a keep-alive heartbeat to the rendezvous" in text:
        out.event("lost_store", line, source=NAME, agent=True)
    elif "Setting OMP_NUM_THREADS" in text:
        out.event("started", line, source=NAME, agent=True)
    else:
        return False
    return True


def _restart(text: str, line: Line, out: Sink) -> None:
    """A restart after a failure uses up an attempt, one after a change of membership does not."""
    m = _RESTART.search(text)
    if m is None or m[3] is None:
        out.event("restart", line, source=NAME, attempts_left=int(m[1]) if m else None)
    else:
        out.event("restart", line, source=NAME, why="membership", new_nodes=int(m[3]), node_rank=int(m[4]))


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
        return self._setting(line) if self.rendezvous else self._row(line)

    def _setting(self, line: Line) -> bool:
        m = _SETTING.match(line.msg)
        if m is not None:
            self.fields[m[1]] = m[2].strip()
        return m is not None

    def _row(self, line: Line) -> bool:
        text = line.text
        if re.match(r"^=+\s*$", text):
            return not self.entries or "Root Cause" not in self.section
        if re.match(r"^-+\s*$", text) or text.strip().endswith(" FAILED"):
            self.in_traceback = False
        elif text.startswith(("Failures:", "Root Cause")):
            self.section, self.in_traceback = text, False
        elif re.match(r"^\[\d+\]:", text):
            self.entries.append({"root": self.section.startswith("Root"), "line": line, "text": []})
            self.in_traceback = False
        elif "<NO_OTHER_FAILURES>" in text or not text.strip():
            pass
        elif self.entries and not self.in_traceback and (m := _FIELD.match(text)):
            self.entries[-1][m[1]] = m[2].strip()
            self.in_traceback = m[1] == "traceback"
            if self.in_traceback and "Error" in m[2]:
                self.entries[-1]["text"].append((m[2], line.no))
        elif self.entries and self.in_traceback and text[:1] == " ":
            self.entries[-1]["text"].append((text.strip(), line.no))
        else:
            return False
        return True

    def close(self, out: Sink) -> None:
        if self.rendezvous:
            self._mapping(out)
        for entry in self.entries:
            self._exit(entry, out)

    def _mapping(self, out: Sink) -> None:
        """Which global ranks this agent runs: the only sure word on it, ranks do not follow node numbers."""
        numbers = {key: [int(n) for n in re.findall(r"-?\d+", value)] for key, value in self.fields.items() if not key.startswith("master")}
        out.mapping(
            self.first, NAME, global_ranks=numbers.get("global_ranks"), local_ranks=numbers.get("local_ranks"), node_rank=_one(numbers, "group_rank"),
            restart=_one(numbers, "restart_count"), world_size=_one(numbers, "global_world_sizes"), nodes=_one(numbers, "group_world_size"),
            master_addr=self.fields.get("master_addr"), master_port=self.fields.get("master_port"),
        )  # fmt: skip

    def _exit(self, entry: dict[str, Any], out: Sink) -> None:
        rank, code = _RANK.match(entry.get("rank", "")), _CODE.match(entry.get("exitcode", ""))
        if rank is None or code is None:
            return  # the table is cut
        line: Line = entry["line"]
        exitcode, pid = int(code[1]), int(code[2])
        local = int(rank[2]) if rank[2] else None
        error_file = None if entry.get("error_file") in (None, "<N/A>") else entry["error_file"]
        attempt = re.search(r"/attempt_(\d+)/", error_file or "")
        exception, said_at = next(((t, no) for t, no in reversed(entry["text"]) if _EXCEPTION.match(t)), (None, None))
        out.event(
            "exit_record", line, source=NAME, message=f"rank {rank[1]} exitcode {exitcode} (pid {pid})" + (f": {exception}" if exception else ""),
            peer_rank=int(rank[1]), by="elastic", exitcode=exitcode, signal=signals.of_exit(exitcode), pid=pid, local_rank=local, node=entry.get("host"),
            error_file=error_file, log_attempt=int(attempt[1]) if attempt else None, time=entry.get("time"), root_cause=entry["root"], exception_text=exception, exception_line=said_at,
        )  # fmt: skip
        out.mapping(line, NAME, global_rank=int(rank[1]), local_rank=local, pid=pid, host=entry.get("host"), error_file=error_file)


def _one(numbers: dict[str, list[int]], key: str) -> int | None:
    return (numbers.get(key) or [None])[0]
