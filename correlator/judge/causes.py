"""From roots to one cause: alike roots merge, then certainty of order, strength of evidence and reach decide."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from correlator.judge.graph import Fact, Graph

# How strongly a kind of root speaks when no order between roots is certain. A machine's or operator's
# act outranks words, words outrank an exit record, a record outranks absence, absence a shared symptom.
STRENGTH = {
    "host_gone": 95, "killed_by_kernel": 94, "device_fault": 92, "link_down": 90, "preempted": 93, "external_signal": 80,
    "out_of_memory": 88, "host_memory": 87, "device_assert": 86, "illegal_access": 85, "worker_died": 86, "io_failed": 85,
    "shm_exhausted": 88, "driver_failed": 88, "gpu_shared": 88, "unused_parameters": 86, "nan_local": 89, "port_taken": 86,
    "misconfigured": 84, "crashed": 84, "raised": 82, "net_unreachable": 78, "never_joined": 76, "died": 79, "left_early": 72,
    "waiting_on_lock": 84, "mismatch": 70, "exited": 68, "busy": 60, "stalled": 58, "rank_slow": 61, "vanished": 55,
    "partitioned": 50, "scale_exhausted": 66, "nan_global": 64, "rendezvous_expired": 54, "store_failed": 52, "p2p_stuck": 50,
}  # fmt: skip
SYMPTOMS = frozenset({"nan_global", "scale_exhausted"})  # what the reduction made of one rank's or everybody's fault: says that, not who
NO_TIME = datetime.max
ORDER_MARGIN = timedelta(milliseconds=1500)  # beyond both intervals, before one root is said to precede another


@dataclass(slots=True)
class Cause:
    """Roots that say the same thing, as one candidate for the verdict."""

    predicate: str
    facts: list[Fact]
    ranks: list[int] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    scope: str = "undetermined"
    reached: int = 0
    strength: float = 0.0

    @property
    def lead(self) -> Fact:
        """The fact to quote first: a rule knows it, its process ended by it, it came first."""
        timed = all(f.onset_high is not None for f in self.facts)  # else whether a time was printed would decide

        def order(f: Fact) -> tuple[bool, bool, datetime, int]:
            return f.attrs.get("uncaught") is not True, "rule" not in f.attrs, f.onset_high if timed and f.onset_high else NO_TIME, f.fact_id

        return min(self.facts, key=order)

    @property
    def onset_low(self) -> datetime | None:
        """Earliest possible onset."""
        return min((f.onset_low for f in self.facts if f.onset_low is not None), default=None)

    @property
    def onset_high(self) -> datetime | None:
        """Latest possible onset of its earliest fact."""
        return min((f.onset_high for f in self.facts if f.onset_high is not None), default=None)

    @property
    def step(self) -> int | None:
        """Training step of the onset, where one is known."""
        return min((f.step for f in self.facts if f.step is not None), default=None)


@dataclass(slots=True, frozen=True)
class RankRow:
    """What the ``ranks`` table knows of one rank."""

    rank: int
    host: str | None
    state: str
    coverage: str
    files: int
    last_step: int | None


def merge(graph: Graph, ranks: list[RankRow]) -> list[Cause]:
    """Groups alike roots and settles each group's scope."""
    hosts: dict[str, list[int]] = defaultdict(list)
    host_of: dict[int, str | None] = {}
    for r in ranks:
        host_of[r.rank] = r.host
        if r.host:
            hosts[r.host].append(r.rank)
    groups: dict[tuple[str, str, str, bool], list[Fact]] = defaultdict(list)
    for f in graph.roots():
        kind = "rank" if f.subject_kind == "rank" else f.subject_kind
        what = str(f.attrs.get("rule") or f.object or "") if f.predicate in ("raised",) else ""
        # what a handler logged is another statement than what ended its process
        groups[f.predicate, what, kind, f.attrs.get("uncaught") is False].append(f)
    stopped = {f.rank for f in graph.facts.values() if f.predicate == "terminated"}
    causes = []
    for (predicate, _, kind, _), facts in groups.items():
        cause = Cause(predicate, facts)
        cause.ranks = sorted({f.rank for f in facts if f.rank is not None})
        cause.hosts = sorted({f.subject for f in facts if kind == "host"} | {h for r in cause.ranks if (h := host_of.get(r))})
        cause.scope = _scope(cause, kind, ranks, hosts)
        if facts[0].names == "host" and kind == "rank" and cause.scope not in ("external", "job"):
            cause.scope = "node"
            if len(hosts) < 2:
                cause.ranks = []
        if facts[0].names == "host" and kind == "process":
            cause.scope = "node"
        if facts[0].names == "nobody" and kind in ("rank", "process", "host"):
            cause.scope = "job"
        if kind == "host":
            cause.ranks = sorted(r for h in cause.hosts for r in hosts.get(h, []))
            if len(hosts) < 2:
                cause.ranks = []
        seen: set[int] = set()
        for f in facts:
            seen.update(t for t in graph.reach(f.fact_id) if graph.facts[t].rank is not None)
        cause.reached = len({graph.facts[t].rank for t in seen} - set(cause.ranks))
        cause.strength = _strength(cause, stopped)
        causes.append(cause)
    return sorted(causes, key=lambda c: (-c.strength, -c.reached, c.predicate))


def _scope(cause: Cause, kind: str, ranks: list[RankRow], hosts: dict[str, list[int]]) -> str:
    if cause.predicate in ("external_signal", "preempted"):
        return "external"
    if kind == "host":
        return "node"
    if kind == "group":
        return "undetermined"  # somebody in it differs, and the logs do not say who
    if kind in ("job", "agent", "store", "link"):
        return "job"
    if cause.facts[0].can_initiate == "job":
        return "job"
    if kind == "process":
        return "undetermined"
    named = set(cause.ranks)
    if len(named) == 1:
        return "rank"
    # ranks that could have said the same: those with a whole log that nobody stopped before they spoke
    chance = {r.rank for r in ranks if r.files and r.state != "terminated" and r.coverage != "torn"} | named
    if cause.facts[0].certainty == "absence":
        return "ranks"
    if cause.predicate == "exited" and all(f.attrs.get("log") == "missing" for f in cause.facts):
        return "undetermined"  # how their processes ended is known, what they said is not
    if named >= chance and len(named) < len(ranks) and any(not r.files for r in ranks if r.rank not in named):
        return "job" if len(named) * 2 > len(ranks) else "undetermined"  # the logs of all others are missing
    if named >= chance and len(named) * 2 > len(ranks):
        return "job"
    members = [h for h, rs in hosts.items() if set(rs) == named]
    if members and len(hosts) > 1:
        return "node"
    if cause.predicate in ("shm_exhausted", "driver_failed", "gpu_shared") and len(named) > 1:
        return "node"
    return "ranks"


def _strength(cause: Cause, stopped: set[int | None]) -> float:
    value = float(STRENGTH.get(cause.predicate, 50))
    flags = {f.attrs.get("uncaught") for f in cause.facts}
    if True in flags and cause.predicate in ("raised", "io_failed", "host_memory"):
        value += 4
    elif flags == {False}:
        # below what a vote or an exit record says; and a process that its launcher had to stop was still there
        value -= 20 if set(cause.ranks) <= stopped else 14
    if any(f.attrs.get("agent") is True for f in cause.facts):
        value -= 40
    if cause.predicate == "died" and all(f.attrs.get("signal") == "SIGABRT" for f in cause.facts):
        value -= 22  # an abort is mostly what a watchdog or a peer's mismatch made of a process
    if cause.predicate == "device_fault" and all(f.attrs.get("role") in ("aftereffect", "recording", "precursor", "info") for f in cause.facts):
        value -= 60
    if cause.facts[0].subject_kind == "process":
        value -= 15 if flags == {False} else 5
    return value


def precedes(a: Cause, b: Cause) -> bool:
    """Whether a is certainly earlier than b: their onset intervals do not meet, beyond the margin."""
    if a.onset_high is None or b.onset_low is None:
        return a.step is not None and b.step is not None and a.step < b.step and a.facts[0].certainty != "absence"
    return a.onset_high + ORDER_MARGIN < b.onset_low


def choose(causes: list[Cause]) -> tuple[Cause | None, list[Cause], bool]:
    """The cause to name, the others in order, and whether the choice is a conflict.

    A cause that certainly precedes a stronger one wins; otherwise strength decides; equal strength on
    different subjects is a conflict.
    """
    if not causes:
        return None, [], False
    first = causes[0]
    for other in causes[1:]:
        if other.facts[0].certainty != "absence" and other.strength > 60 and precedes(other, first) and first.predicate not in ("nan_local", "host_gone"):
            first = other
    rest = [c for c in causes if c is not first]
    conflict = any(
        abs(c.strength - first.strength) < 3
        and set(c.ranks) != set(first.ranks)
        and not precedes(first, c)
        and c.scope in ("rank", "ranks")
        and first.scope in ("rank", "ranks")
        for c in rest
    )
    return first, rest, conflict
