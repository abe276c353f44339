"""The graph of facts and edges of one attempt: cycles condensed, roots found, reach counted."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

NOISE = frozenset({"warned", "teardown_noise", "group_broken"})  # predicates that neither cause nor show a failure


@dataclass(slots=True)
class Fact:
    """A row of ``facts`` with its predicate's properties."""

    fact_id: int
    attempt: int
    predicate: str
    subject_kind: str
    subject: str
    object_kind: str | None
    object: str | None
    onset_low: datetime | None
    onset_high: datetime | None
    pg: str | None
    seq: int | None
    step: int | None
    status: str
    coverage: str | None
    events: int
    first_event_id: int | None
    last_event_id: int | None
    attrs: dict[str, Any]
    can_initiate: str
    certainty: str
    ends_subject: bool
    names: str = "rank"

    @property
    def rank(self) -> int | None:
        """Rank the fact is about, None when it is about something else."""
        return int(self.subject) if self.subject_kind == "rank" else None

    @property
    def label(self) -> str:
        """Short name for sentences: ``rank 3``, ``host n1``, ``the job``."""
        if self.subject_kind == "rank":
            return f"rank {self.subject}"
        if self.subject_kind == "job":
            return "the job"
        if self.subject_kind == "group":
            return "some rank"
        if self.subject_kind == "process":
            return "a process that no evidence ties to a rank"
        return f"{self.subject_kind} {self.subject}"


@dataclass(slots=True, frozen=True)
class Edge:
    """``cause`` explains ``effect``."""

    cause: int
    effect: int
    law: str
    grade: str
    basis: str
    why: str


@dataclass(slots=True)
class Graph:
    """Active facts of one attempt and the edges between them."""

    facts: dict[int, Fact]
    edges: list[Edge]
    incoming: dict[int, list[Edge]] = field(default_factory=lambda: defaultdict(list))
    outgoing: dict[int, list[Edge]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for e in self.edges:
            if e.cause in self.facts and e.effect in self.facts:
                self.incoming[e.effect].append(e)
                self.outgoing[e.cause].append(e)

    def roots(self) -> list[Fact]:
        """Facts that may initiate and that nothing outside their own cycle explains."""
        component = self._components()
        inside: dict[int, set[str]] = defaultdict(set)
        for f in self.facts.values():
            inside[component[f.fact_id]].add(f.can_initiate)
        entered = {component[e.effect] for edges in self.incoming.values() for e in edges if component[e.cause] != component[e.effect]}
        out = []
        for f in self.facts.values():
            if f.can_initiate == "no" or component[f.fact_id] in entered:
                continue
            # in a cycle that runs through the hub, what an effect of its own process explains started nothing
            through_effects = "no" in inside[component[f.fact_id]]
            if through_effects and any(self.facts[e.cause].predicate != "group_broken" for e in self.incoming.get(f.fact_id, ())):
                continue
            out.append(f)
        return out

    def reach(self, fact_id: int) -> dict[int, Edge]:
        """Everything that a fact explains, with the edge by which it was reached."""
        seen: dict[int, Edge] = {}
        stack = [fact_id]
        while stack:
            for e in self.outgoing.get(stack.pop(), ()):
                if e.effect not in seen and e.effect != fact_id:
                    seen[e.effect] = e
                    stack.append(e.effect)
        return seen

    def _components(self) -> dict[int, int]:
        """Strongly connected components (Tarjan, iterative): fact id -> component number."""
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        on: set[int] = set()
        order: list[int] = []
        out: dict[int, int] = {}
        counter = 0
        number = 0
        for start in self.facts:
            if start in index:
                continue
            work = [(start, iter(self.outgoing.get(start, ())))]
            index[start] = low[start] = counter
            counter += 1
            order.append(start)
            on.add(start)
            while work:
                node, it = work[-1]
                advanced = False
                for e in it:
                    nxt = e.effect
                    if nxt not in index:
                        index[nxt] = low[nxt] = counter
                        counter += 1
                        order.append(nxt)
                        on.add(nxt)
                        work.append((nxt, iter(self.outgoing.get(nxt, ()))))
                        advanced = True
                        break
                    if nxt in on:
                        low[node] = min(low[node], index[nxt])
                if advanced:
                    continue
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while True:
                        member = order.pop()
                        on.discard(member)
                        out[member] = number
                        if member == node:
                            break
                    number += 1
        return out


def load(con: Any, attempt: int) -> tuple[Graph, list[Fact]]:
    """The graph of active facts of an attempt, and the excluded facts apart."""
    rows = con.execute(
        "SELECT f.fact_id, f.attempt, f.predicate, f.subject_kind, f.subject, f.object_kind, f.object, f.onset_low, f.onset_high, f.pg, f.seq, f.step,"
        " f.status, f.coverage, f.events, f.first_event_id, f.last_event_id, f.attrs, p.can_initiate, p.certainty, p.ends_subject, p.names"
        " FROM facts f JOIN predicates p USING (predicate) WHERE f.attempt = ? ORDER BY f.fact_id",
        [attempt],
    ).fetchall()
    facts = [Fact(*r[:17], json.loads(r[17] or "{}"), *r[18:]) for r in rows]  # pyright: ignore[reportCallIssue]
    edges = [
        Edge(*r)
        for r in con.execute("SELECT DISTINCT cause, effect, law, grade, basis, why FROM edges WHERE attempt = ? ORDER BY cause, effect, law", [attempt]).fetchall()
    ]
    active = {f.fact_id: f for f in facts if f.status == "active"}
    return Graph(active, edges), [f for f in facts if f.status != "active"]
