"""What makes a verdict doubtful, as numbers from 0 (good) to 1 (bad); ``confidence.toml`` holds their weights.

Kept apart from the verdict: what is measured here is what ``make calibrate`` fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from correlator.judge.causes import SYMPTOMS, Cause, RankRow
from correlator.judge.graph import NOISE, Fact, Graph

CLOSE = 8  # strengths nearer than this are no ground for an order
SURE_IDENTITY = ("c10d", "own words", "path", "label", "map")  # how a stream was tied to its rank
STRONG_ABSENCE = 5  # tiers of law silent-rank: up to here a group, a number or a step points at the rank
RING_ORDER = 8  # the directions in which the neighbours of a ring waited, where nobody is silent


def features(con: Any, attempt: int, graph: Graph, ranks: Sequence[RankRow], causes: Sequence[Cause], cause: Cause, conflict: bool) -> dict[str, float]:
    """Features of the verdict ``cause``, by the names of ``rules/confidence.toml``.

    ``causes`` are all roots that were merged, ``conflict`` whether another one is as strong and not certainly later.
    """
    lead = cause.lead
    own = [r for r in ranks if r.rank in set(cause.ranks)]
    kind, completeness = _ground(graph, ranks, cause, lead, own)
    rivals = [c for c in causes if c is not cause and c.scope in ("rank", "ranks", "node") and set(c.ranks) != set(cause.ranks)]
    close = any(cause.strength - c.strength < CLOSE for c in rivals)
    return {
        "kind": kind,
        "completeness": completeness,
        "margin": 1.0 if conflict else 0.3 if close else 0.0,
        "coverage": _coverage(cause, own, completeness),
        "identity": _identity(con, attempt, cause),
        "order": 0.5 if close else 0.0,
        "unexplained": _unexplained(graph, cause),
        "caught": _caught(graph, ranks, cause),
    }


def _ground(graph: Graph, ranks: Sequence[RankRow], cause: Cause, lead: Fact, own: list[RankRow]) -> tuple[float, float]:
    """How directly the evidence names the rank, and how much of what would be needed for it is not there."""
    if cause.predicate in SYMPTOMS:  # what each rank had before the reduction is not in the logs
        return 1.0, 1.0
    if lead.certainty == "absence":
        return _absence(ranks, cause, lead)
    kind = {"words": 0.0, "record": 0.3}[lead.certainty]
    if _bare_abort(cause, own):
        return 0.6, 1.0
    if lead.certainty == "record" and len(cause.ranks) > 1:
        kind = 0.6  # one of several may have gone because of another
    if lead.attrs.get("uncaught") is False and (_waited_later(graph, lead) or any(r.coverage == "absent" for r in ranks)):
        kind = 0.6  # it was handled, and its process then waited like the others, or who is silent may have more to say
    # where its log is cut, the words in which it, like everybody, may have named a peer are lost
    return kind, 1.0 if cause.predicate == "exited" and any(r.coverage == "torn" for r in own) else 0.0


def _bare_abort(cause: Cause, own: list[RankRow]) -> bool:
    """A watchdog aborts its process too, and says so in the log: without the log an abort says nothing of who began."""
    return cause.predicate == "died" and all(f.attrs.get("signal") == "SIGABRT" for f in cause.facts) and all(r.coverage == "absent" for r in own)


def _absence(ranks: Sequence[RankRow], cause: Cause, lead: Fact) -> tuple[float, float]:
    tier = int(lead.attrs.get("tier") or 4)
    kind = 0.6 if tier <= STRONG_ABSENCE else 1.0
    if tier > STRONG_ABSENCE and tier != RING_ORDER:
        return kind, 1.0 if tier > RING_ORDER else 0.5  # who spoke last by far, or several silent ranks
    if cause.predicate in ("stalled", "vanished", "busy") and tier >= 4:
        world = max(1, int(lead.attrs.get("world") or len(ranks) or 1))
        return kind, max(0.0, 1 - (int(lead.attrs.get("speakers") or 0) + len(cause.ranks)) / world)
    return kind, 0.0


def _waited_later(graph: Graph, fact: Fact) -> bool:
    """Whether the rank of a fact timed out as a consequence of it: it lived on and waited like its peers."""
    effects = (graph.facts[e.effect] for e in graph.edges if e.cause == fact.fact_id and e.effect in graph.facts)
    return any(e.predicate == "timed_out_waiting" and e.rank == fact.rank for e in effects)


def _coverage(cause: Cause, own: list[RankRow], completeness: float) -> float:
    """Doubt from a missing or torn log of the named rank: none where the others leave only one place."""
    missing = sum(r.coverage == "absent" for r in own)
    torn = any(r.coverage == "torn" for r in own)
    if cause.predicate == "never_joined":
        return 1.0 if torn else 0.0  # no log is what is expected of it, half a log is not
    alone = cause.facts[0].certainty != "absence" or completeness == 0.0
    if missing and missing == len(own):
        return (0.15 if cause.predicate in ("died", "device_fault", "host_gone", "exited") else 0.2) if alone else 1.0
    return (0.1 if alone else 0.5) if torn and cause.facts[0].certainty == "absence" else 0.0


def _identity(con: Any, attempt: int, cause: Cause) -> float:
    """1 when which rank wrote the words rests on the number of a file, 0.3 on another inference."""
    if cause.scope != "rank":
        return 0.0
    rows = con.execute("SELECT DISTINCT evidence FROM streams WHERE attempt = ? AND rank IN (SELECT unnest(?::INTEGER[]))", [attempt, cause.ranks]).fetchall()
    how = [h for (h,) in rows]
    if not how or any(word in h for h in how for word in SURE_IDENTITY):
        return 0.0
    return 1.0 if any("file name" in h for h in how) else 0.3


def _unexplained(graph: Graph, cause: Cause) -> float:
    """Share of the ranks with consequences that no edge from the cause reaches."""
    reached = {graph.facts[t].rank for f in cause.facts for t in graph.reach(f.fact_id)}
    hit = {f.rank for f in graph.facts.values() if f.can_initiate == "no" and f.rank is not None and f.predicate not in NOISE} - set(cause.ranks)
    return len(hit - reached) / len(hit) if hit else 0.0


def _caught(graph: Graph, ranks: Sequence[RankRow], cause: Cause) -> float:
    """Doubt about words that only a handler logged: more, where the launcher had to stop that process or a log is missing."""
    if {f.attrs.get("uncaught") for f in cause.facts} != {False}:
        return 0.0
    stopped = {f.rank for f in graph.facts.values() if f.predicate == "terminated"}
    return 1.0 if set(cause.ranks) & stopped or any(r.coverage == "absent" for r in ranks) else 0.7
