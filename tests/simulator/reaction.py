"""From the first fault to the end of the last process: who waits, who notices, who is stopped, when. A discrete-event simulation.

Times between a cause and its effect are those of the software: NCCL's watchdog timers start at the host's enqueue and are
polled every 100 ms (every second before 2.3); torchelastic's agents poll every 0.1 s (5 s up to 2.3), the DeepSpeed launcher every
second, srun stops the step within a second; an end of a process reaches its peers over TCP within milliseconds, over InfiniBand
only after the retries, inside a host not at all (reference: pytorch.md 2.2, 3.4; deepspeed.md 2.2; layouts.md 1.2).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulator.cluster import Host, Job
from tests.simulator.program import Reach, reach
from tests.simulator.tape import Happening, Writer
from tests.simulator.texts import gloo, python
from tests.simulator.texts.headers import c10


@dataclass(slots=True)
class End:
    """How a process ended. ``seen``: the time that an agent will put into its table."""

    t: float
    code: int
    raised: tuple[str, str] | None = None  # where, text
    raised_at: float | None = None


class Reaction:
    """One attempt of the job. Faults call its verbs; ``run`` plays everything that follows."""

    def __init__(self, job: Job, rnd: random.Random, style: str, *, attempt: int = 0, start: float | None = None, restarts: bool = False) -> None:
        self.job, self.rnd, self.style, self.attempt, self.restarts = job, rnd, style, attempt, restarts
        self.happenings: list[Happening] = []
        self.now = job.start if start is None else start
        self.steps_done = 0
        self.ended: dict[int, End] = {}
        self.error_files: dict[int, str] = {}
        self.mute: set[int] = set()  # hosts that are gone: nothing more comes from them
        self.dead_since: dict[int, float] = {}
        self.stuck: set[int] = set()  # ranks that no SIGTERM ends
        self.away: set[int] = set()  # ranks that are in no collective, so that no peer's end reaches them
        self.reach: Reach | None = None
        self.began = 0.0  # of the failing step
        self._heap: list[tuple[float, int, Callable[..., None], tuple]] = []
        self._n = 0
        self._acted: set[int] = set()
        self._step_ended = False
        self._frozen: dict[int, int] = {}
        self._timed_out: set[int] = set()
        self._signalled = False
        self.exceptions: dict[int, tuple[float, str, str]] = {}

    # ---- writing ---------------------------------------------------------------------------------
    def tell(self, t: float, who: Writer, what: str, **data: Any) -> None:
        """Records a happening; processes of a host that is gone write nothing more."""
        host = self.job.procs[who[1]].host.index if who[0] == "rank" else who[1] if who[0] in ("agent", "kernel") else -1
        if host in self.mute and t >= self.dead_since[host]:
            return
        self.happenings.append(Happening(t, who, what, data, self.attempt))

    def at(self, t: float, verb: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._heap, (t, self._n, verb, args))
        self._n += 1

    def run(self) -> None:
        """Plays until nothing more happens."""
        while self._heap:
            t, _, verb, args = heapq.heappop(self._heap)
            self.now = t
            verb(t, *args)

    def alive(self, rank: int) -> bool:
        return rank not in self.ended and self.job.procs[rank].host.index not in self.mute

    # ---- before the fault ------------------------------------------------------------------------
    def begin(self) -> None:
        """Launchers and workers start, communicators are made."""
        job, rnd = self.job, self.rnd
        if job.launcher == "deepspeed":
            for h in job.hosts:
                self.tell(self.now, ("agent", h.index), "ds_started")
        for p in job.procs:
            self.tell(self.now + 4 + rnd.uniform(0, 2), ("rank", p.rank), "began", style=self.style)
            if job.backend == "nccl" and job.nccl_debug == "INFO":
                self.tell(self.now + 9 + rnd.uniform(0, 1), ("rank", p.rank), "nccl_init")
        self.now += 12

    def steps(self, n: int, *, slow: int | None = None, poison: tuple[int, int] | None = None) -> None:
        """``n`` healthy steps. ``slow``: a rank whose data take longer every step; ``poison``: (rank, step) of a local NaN that the reduction then spreads."""
        job, rnd = self.job, self.rnd
        total = self.steps_done + n + rnd.choice((40, 400, 4000))
        for _ in range(n):
            self.steps_done += 1
            s = self.steps_done
            wait = job.step_s * 0.05
            extra = job.step_s * 0.4 * (s - 2) if slow is not None and s > 2 else 0.0
            took = job.step_s * rnd.uniform(0.95, 1.05) + extra
            self.now += took
            norm = rnd.uniform(0.3, 0.5)
            for p in job.procs:
                loss = 6.0 - 0.05 * s + rnd.uniform(-0.05, 0.05)
                if poison and (s > poison[1] or (s == poison[1] and p.rank == poison[0])):
                    loss = float("nan")
                if poison and self.style in ("megatron", "hf") and s >= poison[1]:
                    loss = float("nan")  # these print the loss after its reduction
                shown = float("nan") if poison and s >= poison[1] else norm
                data = wait * rnd.uniform(0.1, 1) + (extra if p.rank == slow else 0.0)
                self.tell(self.now + rnd.uniform(0, 0.003), ("rank", p.rank), "step", style=self.style, step=s, total=total, loss=loss, norm=shown, took=took, data=data)

    # ---- verbs of faults -------------------------------------------------------------------------
    def blocks(self, stops: Mapping[int, int]) -> None:
        """The next step begins; ``stops`` call only so many of its operations. Their peers wait in what never ends."""
        job = self.job
        self.began = self.now
        self.reach = reach(job, stops)
        self.away = set(stops)
        if job.backend == "nccl":
            for p in job.procs:
                pending = self._pending(p.rank)
                if p.rank not in stops and pending:
                    self.at(self.enqueued_at(p.rank, pending[0][1]) + job.timeout_s + self.rnd.uniform(0.01, 1.0 if job.torch[1] < 3 else 0.1), self.watchdog, p.rank)
        else:
            for p in job.procs:
                if p.rank not in stops and self.reach.limit[p.rank] < len(self.reach.programs[p.rank]):
                    self.at(self.began + job.timeout_s + self.rnd.uniform(0.0, 0.04), self._gloo_timeout, p.rank, next(iter(stops)))

    def raises(self, t: float, rank: int, where: str, text: str, *, proof: str = "own", code: int = 1, teardown: float | None = None, initialised: bool = True) -> None:
        """An exception leaves the program of a rank; the interpreter then ends it."""
        if not self.alive(rank) or rank in self.exceptions:
            return
        job, p = self.job, self.job.procs[rank]
        self.tell(t, ("rank", rank), "uncaught", where=where, text=text, proof=proof, initialised=initialised)
        self.exceptions[rank] = (t, where, text)
        if job.record:
            self.error_files[rank] = python.error_file(job, p, t, where, text)
        if job.backend == "nccl" and job.torch[1] >= 4 and initialised:
            self.tell(t + 0.02, ("rank", rank), "bare", text=self._not_destroyed(t + 0.02, rank))
        self.at(t + (self.rnd.uniform(0.1, 0.6) if teardown is None else teardown), self.ends, rank, code, False)

    def ends(self, t: float, rank: int, code: int, abrupt: bool = True) -> None:
        """A process is gone; its launcher and its peers will notice."""
        if not self.alive(rank):
            return
        job, rnd = self.job, self.rnd
        exception = self.exceptions.get(rank)
        self.ended[rank] = End(t, code, exception[1:] if exception else None, exception[0] if exception else None)
        host = job.procs[rank].host.index
        if job.launcher == "srun":
            if code:
                self.at(t + rnd.uniform(0.02, 0.2), self._srun_sees, rank)
        elif code:
            poll = 1.0 if job.launcher == "deepspeed" else (0.1 if job.torch >= (2, 4) else 5.0)
            self.at(t + rnd.uniform(0, poll), self._launcher_acts, host)
        if code or abrupt:
            self._peers_notice(t, rank, abrupt)

    def host_vanishes(self, t: float, host: int) -> None:
        """Power, kernel panic: no process of the host writes another line, nobody closes a connection."""
        self.mute.add(host)
        self.dead_since[host] = t
        job = self.job
        self.happenings = [h for h in self.happenings if not (h.t >= t and self._host_of(h) == host)]
        if job.net == "ib" and job.backend == "nccl":
            for p in job.on(host):
                self.network_peers(p.rank, lambda peer, p=p: self.at(t + self.rnd.uniform(8, 30), self.completion_error, peer, p.rank))
        if job.launcher == "srun":
            self.at(t + 300 + self.rnd.uniform(0, 30), self._node_failure, host)

    def stop_from_outside(self, t: float, why: str, signal: int = 15) -> None:
        """scancel, preemption, time limit, an operator's kill: launchers are told, workers die by their hands."""
        job = self.job
        if job.launcher == "srun":
            self._signalled = True
            self.tell(t, ("srun", 0), "cancelled", why=why, outside=True)
            for p in job.procs:
                self.at(t + self.rnd.uniform(0.02, 0.4), self._terminated, p.rank)
            self._step_ended = True
            return
        for h in job.hosts:
            self.at(t + self.rnd.uniform(0, 0.8), self._launcher_stopped, h.index, signal)

    # ---- what follows ----------------------------------------------------------------------------
    def _host_of(self, h: Happening) -> int:
        return self.job.procs[h.who[1]].host.index if h.who[0] == "rank" else h.who[1] if h.who[0] in ("agent", "kernel") else -1

    def _not_destroyed(self, t: float, rank: int) -> str:
        text = (
            "Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group to ensure that any pending NCCL operations have finished in this process. In rare cases this process can exit before this point and block the progress of another member of the process group. This constraint has always been present,  but this warning has only been added since PyTorch 2.4 (function operator())"
            if self.job.torch[1] <= 5
            else "Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources. For more info, please see https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())"
        )
        return c10(self.job, self.job.procs[rank], t, "W", "ProcessGroupNCCL.cpp", 1250) + text

    def base(self, rank: int, group: int) -> int:
        """Sequence number of the last operation of a group before the failing step."""
        assert self.reach is not None
        per_step = sum(1 for o in self.reach.programs[rank] if o.group == group)
        return (3 if group == 0 else 0) + per_step * self.steps_done

    def _pending(self, rank: int) -> list[tuple[int, int]]:
        """(group, op index) of the first never completed work of each group, in the order of calls."""
        assert self.reach is not None
        found = [(g, i) for g in self.job.procs[rank].groups if (i := self.reach.first_pending(rank, g)) is not None]
        return sorted(found, key=lambda x: x[1])

    def enqueued_at(self, rank: int, index: int) -> float:
        return self.began + 0.05 * self.job.step_s * ((rank * 7919) % 97) / 97 + 0.002 * index

    def work(self, t: float, rank: int, group: int, index: int) -> dict[str, Any]:
        """The numbers that a watchdog prints about one pending work."""
        assert self.reach is not None
        op = self.reach.programs[rank][index]
        before = sum(1 for o in self.reach.programs[rank][:index] if o.group == group)
        base = self.base(rank, group)
        called, done = self.reach.counts(rank, group)
        frozen = self._frozen.setdefault(rank, self.job.groups[group].ranks.index(rank))
        return {"seq": base + before + 1, "op": op.kind, "numel_in": op.numel_in, "numel_out": op.numel_out, "timeout_ms": int(self.job.timeout_s * 1000),
                "ran_ms": int((t - self.enqueued_at(rank, index)) * 1000), "group": group, "enqueued": base + called, "completed": base + done, "frozen": frozen}  # fmt: skip

    def watchdog(self, t: float, rank: int) -> None:
        """The earliest pending work of a process is overdue; the watchdogs of its other groups follow within milliseconds."""
        if not self.alive(rank):
            return
        rnd, minor = self.rnd, self.job.torch[1]
        self._timed_out.add(rank)
        first = None
        for k, (group, index) in enumerate(self._pending(rank)[:3]):
            d = self.work(t + 0.003 * k, rank, group, index)
            self.tell(t + 0.003 * k, ("rank", rank), "timeout", **d, dies=k == 0)
            first = first or d
        assert first is not None
        if minor >= 7:
            if not self._signalled:
                self._signalled = True
                for p in self.job.procs:
                    self.at(t + rnd.uniform(0.05, 1.0), self._dump_signal, p.rank, rank)
        # 2.8 and later sleep for a minute before they end, 2.7 waits for the dump, older releases end at once
        delay = 60 + rnd.uniform(0.1, 1.5) if minor >= 8 else rnd.uniform(1.5, 6) if minor == 7 else rnd.uniform(0.05, 1.2)
        self.at(t + delay, self._taken_down, rank, first)

    def _dump_signal(self, t: float, rank: int, source: int) -> None:
        if not self.alive(rank) or self.reach is None:
            return
        called, done = self.reach.counts(rank, 0)
        base = self.base(rank, 0)
        self.tell(t, ("rank", rank), "dump_signal", local=rank in self._timed_out, **{"from": source}, enqueued=base + called, completed=base + done)

    def _taken_down(self, t: float, rank: int, d: dict[str, Any]) -> None:
        if not self.alive(rank):
            return
        self.tell(t, ("rank", rank), "taken_down", **d)
        self.at(t + self.rnd.uniform(0.05, 0.8), self.ends, rank, -6, True)

    def network_peers(self, rank: int, do: Callable[[int], None]) -> None:
        """Ranks on the neighbouring hosts that hold a network connection to this one (same rail)."""
        job = self.job
        host, local, n = rank // job.per_host, rank % job.per_host, len(job.hosts)
        for other in {(host + 1) % n, (host - 1) % n} - {host}:
            do(other * job.per_host + local)

    def _peers_notice(self, t: float, rank: int, abrupt: bool) -> None:
        job, rnd = self.job, self.rnd
        if self.reach is None:
            return
        if job.backend == "gloo":
            for peer in {(rank + 1) % job.world, (rank - 1) % job.world} - {rank}:
                self.at(t + rnd.uniform(0.001, 0.03), self._gloo_lost, peer, rank, abrupt)
        elif job.net == "ib":
            self.network_peers(rank, lambda peer: self.at(t + rnd.uniform(8, 30), self.completion_error, peer, rank))
        else:
            self.network_peers(rank, lambda peer: self.at(t + rnd.uniform(0.05, 0.8), self._net_closed, peer, rank))

    def _net_closed(self, t: float, rank: int, peer: int) -> None:
        if not self.alive(rank) or not self._pending(rank):
            return
        port = self.rnd.randint(32768, 60999)
        if self.job.nccl_debug:
            self.tell(t, ("rank", rank), "peer_closed", peer=peer, port=port)
        self._remote_error(t, rank, f"socketProgress: Connection closed by remote peer {self.job.procs[peer].host.name}<{port}>")

    def completion_error(self, t: float, rank: int, peer: int) -> None:
        if not self.alive(rank) or self.reach is None or not self._pending(rank):
            return
        port = self.rnd.randint(32768, 60999)
        if self.job.nccl_debug:
            self.tell(t, ("rank", rank), "completion_error", peer=peer, port=port)
        host = self.job.procs[peer].host
        self._remote_error(
            t,
            rank,
            f"NET/IB: Got completion from peer {host.ip}<{port}> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:{self.job.procs[rank].host.ip} remoteGids::ffff:{host.ip}",
        )

    def _remote_error(self, t: float, rank: int, last: str) -> None:
        group, index = self._pending(rank)[0]
        d = {**self.work(t, rank, group, index), "error": "remote", "last_error": last}
        self.tell(t + 0.05, ("rank", rank), "async_error", **d)
        self.at(t + self.rnd.uniform(0.1, 1.0), self._taken_down, rank, d)

    def _gloo_lost(self, t: float, rank: int, peer: int, abrupt: bool) -> None:
        if not self.alive(rank) or rank in self.away or self.reach is None or self.reach.limit[rank] >= len(self.reach.programs[rank]):
            return
        make = gloo.reset if abrupt and self.rnd.random() < 0.5 else gloo.closed
        self.raises(t, rank, "backward", make(self.job, self.job.procs[peer].host.ip, self.rnd.randint(20000, 60000)), proof=f"victim:{rank}")

    def _gloo_timeout(self, t: float, rank: int, absent: int) -> None:
        distance = (rank - absent) % self.job.world
        direction = "send" if 1 <= distance <= max(1, 3 * self.job.world // 8) else "recv"
        self.raises(t, rank, "backward", gloo.timed_out(int(self.job.timeout_s * 1000), direction), proof=f"victim:{rank}")

    # ---- launchers -------------------------------------------------------------------------------
    def _terminated(self, t: float, rank: int, code: int = -15) -> None:
        if rank in self.stuck and code == -15:
            return
        if self.alive(rank):
            exception = self.exceptions.get(rank)
            self.ended[rank] = End(t, code, exception[1:] if exception else None, exception[0] if exception else None)
            self._peers_notice(t, rank, True)

    def _launcher_acts(self, t: float, host: int) -> None:
        """A launcher saw the first bad end on its host."""
        if host in self._acted or host in self.mute:
            return
        self._acted.add(host)
        job, rnd = self.job, self.rnd
        seen = [p for p in job.on(host) if p.rank in self.ended and self.ended[p.rank].code]
        if job.launcher == "deepspeed":
            code = self.ended[rnd.choice(seen).rank].code
            self.tell(t, ("agent", host), "ds_kills", code=code)
            for p in job.on(host):
                self.at(t + rnd.uniform(0.02, 0.3), self._terminated, p.rank)
            return
        last = t
        for p in job.on(host):
            if self.alive(p.rank):
                self.tell(t, ("agent", host), "sends_signal", pid=p.pid)
                if p.rank in self.stuck:
                    self.tell(t + 30, ("agent", host), "sends_signal", pid=p.pid, hard=True)
                    gone, code = t + 30.1, -9
                else:
                    gone, code = t + rnd.uniform(0.02, 0.4), -15
                last = max(last, gone)
                self.at(gone, self._terminated, p.rank, code)
        self.at(last + rnd.uniform(0.05, 0.3), self._agent_reports, host, [p.rank for p in seen], t)

    def _agent_reports(self, t: float, host: int, seen: list[int], looked: float) -> None:
        job = self.job
        listed = [p.rank for p in job.on(host) if p.rank in seen or job.torch >= (2, 10)]
        entries = []
        for r in listed:
            end, p = self.ended[r], job.procs[r]
            has_file = r in self.error_files
            stamp = end.raised_at if has_file and end.raised_at is not None else looked
            trace = python.traceback(job, *end.raised)[:1] + python.traceback(job, *end.raised)[3:] if has_file and end.raised else None
            entries.append({"rank": r, "local": p.local, "pid": p.pid, "code": end.code, "t": stamp, "traceback": trace,
                            "error_file": f"/scratch/logs/{job.run_id}_x/attempt_{self.attempt}/{p.local}/error.json" if has_file else None})  # fmt: skip
        first = min((e for e in entries if e["rank"] in seen), key=lambda e: int(job.hosts[host].clock(e["t"])))
        self.tell(t, ("agent", host), "failed", rank=first["rank"], local=first["local"], pid=first["pid"], code=first["code"])
        if self.restarts:
            return
        self.tell(t + 0.02, ("agent", host), "table", root=first, others=[e for e in entries if e is not first])
        self._agent_gone(t + 0.1, host)

    def _agent_gone(self, t: float, host: int) -> None:
        """With the store of a c10d rendezvous the other agents lose their ground."""
        if self.job.shared_store and host == 0 and self.job.launcher == "torchrun":
            for h in self.job.hosts[1:]:
                self.at(t + self.rnd.uniform(0.1, 1.5), self._store_lost, h)

    def _store_lost(self, t: float, host: Host) -> None:
        if host.index in self._acted or host.index in self.mute:
            return
        self._acted.add(host.index)
        for p in self.job.on(host.index):
            if self.alive(p.rank):
                self.tell(t, ("agent", host.index), "sends_signal", pid=p.pid)
                self.at(t + self.rnd.uniform(0.02, 0.3), self._terminated, p.rank)
        self.tell(t + 0.5, ("agent", host.index), "store_gone")

    def _launcher_stopped(self, t: float, host: int, signal: int) -> None:
        if host in self._acted or host in self.mute:
            return
        self._acted.add(host)
        if self.job.launcher == "deepspeed":
            self.tell(t, ("agent", host), "ds_told_to_stop")
        else:
            self.tell(t, ("agent", host), "death_signal", signal=signal)
        for p in self.job.on(host):
            if self.alive(p.rank):
                if self.job.launcher == "torchrun":
                    self.tell(t + 0.002, ("agent", host), "sends_signal", pid=p.pid, signal="SIGTERM" if signal == 15 else "SIGINT")
                self.at(t + self.rnd.uniform(0.02, 0.3), self._terminated, p.rank)
        if self.job.launcher == "torchrun":
            self.tell(t + 0.6, ("agent", host), "signal_exception", signal=signal)

    def _srun_sees(self, t: float, rank: int) -> None:
        self.tell(t, ("srun", 0), "task_ended", ranks=[rank], code=self.ended[rank].code)
        if self._step_ended:
            return
        self._step_ended = True
        kill = t + self.rnd.uniform(0.05, 0.6)
        self.tell(kill, ("srun", 0), "terminating")
        for p in self.job.procs:
            self.at(kill + self.rnd.uniform(0.02, 0.5), self._terminated, p.rank)
        self.at(kill + 1.0, self._srun_closes)

    def _srun_closes(self, t: float) -> None:
        for host in self.job.hosts:
            stopped = [p.rank for p in self.job.on(host.index) if p.rank in self.ended and self.ended[p.rank].code == -15]
            if stopped:
                self.tell(t, ("srun", 0), "task_ended", ranks=stopped, code=-15)

    def _node_failure(self, t: float, host: int) -> None:
        if self._step_ended:
            return
        self._step_ended = True
        self.tell(t, ("srun", 0), "node_failure", host=host)
        for p in self.job.procs:
            self.at(t + self.rnd.uniform(0.02, 0.5), self._terminated, p.rank)
