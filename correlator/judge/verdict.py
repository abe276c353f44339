"""Builds the incident of one attempt: which cause, how sure, with what evidence, and what is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from correlator.judge.causes import Cause, RankRow, choose, merge
from correlator.judge.collective import picture
from correlator.judge.confidence import NAMED_AT, confidence
from correlator.judge.diagnosis import FALLBACK, Diagnosis, diagnose
from correlator.judge.evidence import Evidence
from correlator.judge.features import features
from correlator.judge.graph import NOISE, Fact, Graph, load
from correlator.judge.history import missing_history
from correlator.judge.words import action_for, doubt_of, missing_of, ranks_text, say
from correlator.rulebook import Rulebook


@dataclass(slots=True)
class Incident:
    """One incident, ready for the tables and the document (DESIGN: verdicts)."""

    document: dict[str, Any]
    roles: dict[int, tuple[str, int | None, str | None]]  # fact -> role, explained by, via
    onset: Any
    cause: Cause | None


def judge_attempt(con: Any, attempt: int, rulebook: Rulebook, completed: bool, why_not: int | None = None) -> Incident | None:
    """Judges one attempt. None when nothing went wrong in it."""
    graph, excluded = load(con, attempt)
    ranks = [RankRow(*r) for r in con.execute("SELECT rank, host, state, coverage, files, last_step FROM ranks WHERE attempt = ? ORDER BY rank", [attempt]).fetchall()]
    live = [f for f in graph.facts.values() if f.predicate not in NOISE]
    causes = merge(graph, ranks)
    if completed:
        # every rank said that it was done: only what spoils the result is still an incident
        causes = [c for c in causes if c.predicate in ("nan_local", "nan_global")]
        if not causes:
            return None
    if not causes and not any(f.can_initiate == "no" and f.predicate not in NOISE for f in live):
        # nothing but shutdown noise, and no word of progress or of an end: the head of the story is missing
        noise = any(f.predicate == "teardown_noise" for f in graph.facts.values())
        if (
            not noise
            or con.execute(
                "SELECT (SELECT count(*) FROM steps WHERE attempt = ?) + (SELECT count(*) FROM ev WHERE attempt = ? AND kind IN ('finished', 'started'))",
                [attempt, attempt],
            ).fetchall()[0][0]
        ):
            return None
    if not causes and live and all(f.predicate == "accused" for f in live):
        return None
    if live and all(f.attrs.get("uncaught") is False for f in live) and not _everywhere(live, ranks):
        return None  # handled, nobody is hit and nobody ended: the job goes on
    return _Builder(con, attempt, graph, excluded, ranks, causes, rulebook, completed, why_not).build()


def _everywhere(live: list[Fact], ranks: list[RankRow]) -> bool:
    """Several ranks, and every one that left a log, met it: then the log's last word is the job's, handled or not."""
    hit = {f.rank for f in live}
    return len(ranks) > 1 and all(r.rank in hit for r in ranks if r.files)


class _Builder:
    def __init__(self, con: Any, attempt: int, graph: Graph, excluded: list[Fact], ranks: list[RankRow], causes: list[Cause], rulebook: Rulebook,
                 completed: bool, why_not: int | None) -> None:  # fmt: skip
        self.con, self.attempt, self.graph, self.excluded, self.ranks, self.causes = con, attempt, graph, excluded, ranks, causes
        self.rulebook, self.completed, self.why_not = rulebook, completed, why_not
        self.evidence = Evidence(con, attempt)
        self.config = [(k, v) for k, v in con.execute("SELECT key, value FROM config").fetchall()]

    def build(self) -> Incident:
        cause, rest, conflict = choose(self.causes)
        facts = [*self.graph.facts.values(), *self.excluded]
        if cause is None:
            return self._undetermined(None, rest)
        diagnosis = diagnose(cause, facts, self.rulebook, self.config, self.con)
        sure, parts = confidence(features(self.con, self.attempt, self.graph, self.ranks, self.causes, cause, conflict))
        scope, named, hosts = cause.scope, list(cause.ranks), list(cause.hosts)
        suspects: list[dict[str, Any]] = []
        doubtful = conflict or sure < NAMED_AT or (cause.facts[0].certainty == "absence" and scope == "ranks" and cause.predicate not in ("never_joined",))
        if scope in ("rank", "ranks", "node") and named and doubtful:
            suspects = self._suspects(cause, rest if conflict else [])
            scope, named, hosts = "undetermined", [], []
            if cause.predicate == "stalled" and diagnosis.failure_class == FALLBACK["stalled"]:
                diagnosis = self._effect_class([f for f in facts if f.predicate == "timed_out_waiting"], "unknown_hang")  # who stalled is open, so what stalled is too
        if diagnosis.failure_class == "unknown_restart":
            scope = "undetermined"  # what a restart meets is a consequence of what these logs do not hold
        if scope in ("job", "external", "undetermined"):
            named = []
            if scope != "external":
                hosts = []
        return self._incident(cause, rest, diagnosis, scope, named, hosts, suspects, sure, parts)

    def _suspects(self, cause: Cause, rivals: list[Cause]) -> list[dict[str, Any]]:
        out = []
        for c in [cause, *[r for r in rivals if abs(r.strength - cause.strength) < 3]]:
            for f in c.facts:
                if f.rank is not None:
                    quoted = self.evidence.of_fact(f)
                    out.append({"rank": f.rank, "why": say(f, self.rulebook), "evidence": quoted[:1]})
        return sorted(out, key=lambda s: s["rank"])[:16]

    # ---- the document ---------------------------------------------------------------------------
    def _undetermined(self, cause: Cause | None, rest: list[Cause]) -> Incident:
        effects = [f for f in self.graph.facts.values() if f.can_initiate == "no" and f.predicate not in NOISE]
        kinds = Counter(f.predicate for f in effects)
        if kinds["timed_out_waiting"] or kinds["watchdog_stuck"]:
            name = "unknown_hang"
        elif kinds["lost_store"] and any(e for (e,) in self.con.execute("SELECT count(*) FROM ev WHERE kind = 'restart'").fetchall()):
            name = "unknown_restart"
        elif kinds["lost_connection"] or kinds["lost_store"] or kinds["remote_error"] or kinds["aborted"]:
            name = "peer_lost" if kinds["lost_connection"] or kinds["remote_error"] else "unknown"
        elif kinds["store_wait"]:
            name = "rendezvous_timeout"
        else:
            name = "unknown"
        diagnosis = self._effect_class(effects, name)
        return self._incident(cause, rest, diagnosis, "undetermined", [], [], [], 0.5, [])

    def _effect_class(self, effects: list[Fact], name: str) -> Diagnosis:
        """A rule may know an unexplained effect by its details; else the class says that it is unknown."""
        groups: dict[str, list[Fact]] = defaultdict(list)
        for f in effects:
            groups[f.predicate].append(f)
        facts = [*self.graph.facts.values(), *self.excluded]
        for predicate, members in sorted(groups.items(), key=lambda g: -len(g[1])):
            found = diagnose(Cause(predicate, members), facts, self.rulebook, self.config, self.con)
            if found.rule is not None and not found.failure_class.startswith("unknown_hang"):
                return Diagnosis(found.failure_class, found.rule, 0.5, found.reasons)
        rule = next((r for r in self.rulebook.rules if r.failure_class == name and not r.signatures), None)
        return Diagnosis(name, rule, 0.45, [])

    def _incident(self, cause: Cause | None, rest: list[Cause], diagnosis: Diagnosis, scope: str, named: list[int], hosts: list[str],
                  suspects: list[dict[str, Any]], sure: float, parts: list[tuple[str, float, float]]) -> Incident:  # fmt: skip
        roles, collateral = self._roles(cause)
        doc_rule = diagnosis.rule
        lead = cause.lead if cause is not None else None
        evidence = []
        for f in cause.facts if cause is not None else []:
            evidence.extend(self.evidence.of_fact(f, "initiating" if scope != "undetermined" else "unknown"))
            if len(evidence) >= 6:
                break
        effects = [f for f in self.graph.facts.values() if f.can_initiate == "no" and f.predicate not in NOISE]
        for f in sorted(effects, key=lambda f: (f.onset_high is None, f.onset_high, f.fact_id) if f.onset_high else (True, f.fact_id, f.fact_id))[:2]:
            evidence.extend(self.evidence.of_fact(f, "propagated")[:1])
        outcome = self._outcome(cause)
        summary = self._sentence(cause, scope, named, hosts, suspects, diagnosis, collateral, outcome)
        asks = missing_of(cause, scope, effects, self.ranks, self.rulebook, doc_rule)
        table = picture(self.con, self.attempt, cause)
        if scope == "undetermined" and table is not None and table["unknown"] and self._dumped():
            asks.insert(0, {"fact": f"the flight-recorder dump of {ranks_text(table['unknown'])}",
                            "how": "copy nccl_trace_rank_N or comm_lib_trace_rank_N from its host; if it wrote none, py-spy dump --pid PID"})  # fmt: skip
        if history := missing_history(self.con, diagnosis.failure_class):
            asks = [history, *asks][:5]
        document: dict[str, Any] = {
            "id": f"attempt{self.attempt}", "attempt": self.attempt, "outcome": outcome, "scope": scope, "initiating_ranks": named,
            "initiating_hosts": hosts, "suspects": suspects, "failure_class": diagnosis.failure_class,
            "category": self.rulebook.category_of(diagnosis.failure_class), "rule": doc_rule.id if doc_rule else None,
            "confidence": round(sure, 3), "class_confidence": round(diagnosis.class_confidence, 3),
            "reasons": self._reasons(cause, rest, diagnosis), "summary": summary, "onset": self._onset(cause),
            "collective": table, "evidence": evidence, "collateral": collateral, "demoted": self._demoted(),
            "alternatives": [self._alternative(cause, c) for c in rest[:4]], "missing": asks,
            "explanation": _explanation(doc_rule), "action": action_for(diagnosis.failure_class, scope, named, hosts),
            "resume": self.evidence.resume(), "fix": doc_rule.doc.get("fix", "") if doc_rule else "", "verify": doc_rule.doc.get("verify", "") if doc_rule else "",
            "do_not": doc_rule.doc.get("do_not", "") if doc_rule else "",
            "features": [{"feature": n, "value": round(v, 3), "logit": round(x, 3)} for n, v, x in parts],
            "why_graph": self._why_graph(cause), "why_not": self._why_nots(cause, named, suspects, parts),
        }  # fmt: skip
        onset = lead.onset_high or lead.onset_low if lead is not None else None
        return Incident(document, roles, onset, cause)

    def _dumped(self) -> bool:
        return bool(self.con.execute("SELECT count(*) FROM ev WHERE kind = 'fr_dump' AND attempt = ?", [self.attempt]).fetchall()[0][0])

    def _outcome(self, cause: Cause | None) -> str:
        if self.completed:
            return "degraded"
        if cause is not None and cause.scope == "external":
            return "stopped"
        predicates = {f.predicate for f in self.graph.facts.values()}
        if cause is None or cause.predicate in ("stalled", "busy", "rank_slow", "waiting_on_lock", "p2p_stuck", "never_arrived"):
            return "hung" if predicates & {"timed_out_waiting", "watchdog_stuck", "waiting_on_lock", "p2p_stuck"} or cause is not None else "failed"
        return "failed"

    def _roles(self, cause: Cause | None) -> tuple[dict[int, tuple[str, int | None, str | None]], list[dict[str, Any]]]:
        roles: dict[int, tuple[str, int | None, str | None]] = {}
        via: dict[int, str] = {}
        if cause is not None:
            for f in cause.facts:
                roles[f.fact_id] = ("initiating", None, None)
            for f in cause.facts:
                for target, edge in self.graph.reach(f.fact_id).items():
                    if target not in roles:
                        teardown = self.graph.facts[target].predicate in ("terminated",)
                        roles[target] = ("teardown" if teardown else "propagated", edge.cause, edge.law)
                        via[target] = edge.law
        for f in self.graph.facts.values():
            if f.fact_id not in roles:
                roles[f.fact_id] = ("benign" if f.predicate in ("warned",) else "teardown" if f.predicate == "teardown_noise" else "unknown", None, None)
        for f in self.excluded:
            roles[f.fact_id] = ("benign" if f.status == "recovered" else "teardown", None, f.status)
        initiating = {f.rank for f in cause.facts if f.rank is not None} | set(cause.ranks) if cause is not None else set()
        first: dict[int, Fact] = {f.rank: f for f in self.excluded if f.status == "duplicate" and f.rank is not None and f.rank not in initiating}
        for f in self.graph.facts.values():
            if f.rank is None or f.rank in initiating or f.predicate in NOISE or f.predicate == "accused":
                continue
            if f.rank not in first or (f.predicate != "terminated" and first[f.rank].predicate == "terminated"):
                first[f.rank] = f
        collateral = []
        for rank, f in sorted(first.items()):
            where = self.evidence.place(f.first_event_id)
            waited = self.evidence.waited(f.first_event_id)
            collateral.append({"rank": rank, "via": f.predicate.replace("_", "-"), "waited_ms": waited, "path": where[0], "line": where[1]})
        return roles, collateral

    def _onset(self, cause: Cause | None) -> dict[str, Any]:
        lead = cause.lead if cause is not None else None
        if lead is None:
            return {"time": None, "uncertainty_ms": None, "step": None, "pg": None, "seq": None}
        low, high = cause.onset_low if cause else None, cause.onset_high if cause else None
        when = high or low
        spread = (high - low).total_seconds() * 500 if high and low else None
        step = cause.step if cause else None
        if step is None and lead.rank is not None:
            step = next((r.last_step for r in self.ranks if r.rank == lead.rank), None)
        return {"time": when.isoformat().replace("+00:00", "Z") if when else None, "uncertainty_ms": round(abs(spread), 1) if spread is not None else None,
                "step": step, "pg": lead.pg, "seq": lead.seq}  # fmt: skip

    def _sentence(self, cause: Cause | None, scope: str, named: list[int], hosts: list[str], suspects: list[dict[str, Any]], diagnosis: Diagnosis,
                  collateral: list[dict[str, Any]], outcome: str) -> str:  # fmt: skip
        victims = [c["rank"] for c in collateral]
        tail = f"; {ranks_text(victims)} {'is' if len(victims) == 1 else 'are'} collateral." if victims else "."
        if cause is None:
            effects = Counter(f.predicate for f in self.graph.facts.values() if f.can_initiate == "no" and f.predicate not in NOISE)
            worst = effects.most_common(1)[0][0] if effects else "teardown_noise"
            return f"Undetermined: {ranks_text(victims) if victims else 'the job'} {self.rulebook.predicates[worst].says.split('{')[0].strip()}, and nothing in these logs says who caused it."
        what = say(cause.lead, self.rulebook)
        at = f" at step {cause.step}" if cause.step is not None else ""
        if scope == "rank":
            where = f" (host {hosts[0]})" if hosts else ""
            return f"Rank {named[0]}{where} {what}{at}{tail}"
        if scope == "ranks":
            return f"{ranks_text(named).capitalize()} {what}{at}, together{tail}"
        if scope == "node":
            subject = f"Host {', '.join(hosts)}" if hosts else "The host"
            return f"{subject} ({ranks_text(named) if named else 'its ranks alike'}) {what}{at}{tail}"
        if scope == "job":
            return f"The whole job {what}{at}: no single rank started it."
        if scope == "external":
            return f"The job {what}{at}: no rank started it{'' if not victims else f'; what {ranks_text(victims)} printed came after'}."
        if suspects:
            return f"Undetermined: suspects are {ranks_text([s['rank'] for s in suspects])} ({what}), but the logs do not decide{tail}"
        return f"Undetermined: {cause.lead.label} {what}{at}, but the logs do not say which rank{tail}"

    def _reasons(self, cause: Cause | None, rest: list[Cause], diagnosis: Diagnosis) -> list[str]:
        out = []
        if cause is None:
            return ["no fact that can start a failure is left: every statement is an effect of something not in these logs"]
        f = cause.lead
        out.append({
            "words": "its own words say so", "record": "a launcher, the kernel or another process recorded it",
            "absence": "it follows from what did not happen: the others spoke, it did not",
        }[f.certainty])  # fmt: skip
        if f.attrs.get("uncaught") is True:
            out.append("the exception left the program: nothing caught it")
        if f.attrs.get("vote") == "odd":
            out.append(f"{f.attrs.get('against')} of {f.attrs.get('voters')} ranks agree on another operand")
        if f.attrs.get("tier") == 2 and f.seq is not None:
            out.append(f"its last call in group {f.pg} came before number {f.seq}, in which others wait")
        if f.certainty == "absence" and f.attrs.get("speakers") is not None:
            out.append(f"{f.attrs['speakers']} of {f.attrs['world']} ranks reported waiting or a lost peer")
        if cause.reached:
            out.append(f"it explains {cause.reached} other rank{'s' if cause.reached != 1 else ''}")
        for c in rest[:2]:
            if c.strength < cause.strength:
                out.append(
                    f"{c.lead.label} {say(c.lead, self.rulebook)}: weaker evidence"
                    + ("" if not c.onset_low or not cause.onset_high or cause.onset_high >= c.onset_low else ", and later")
                )
        return [*out, *diagnosis.reasons]

    def _alternative(self, cause: Cause | None, other: Cause) -> dict[str, Any]:
        d = diagnose(other, list(self.graph.facts.values()), self.rulebook, self.config, self.con)
        strength = max(0.01, min(0.45, 0.4 - ((cause.strength if cause else 50) - other.strength) / 100))
        return {"initiating_ranks": other.ranks if other.scope in ("rank", "ranks", "node") else [], "failure_class": d.failure_class, "confidence": round(strength, 2),
                "why_not": "weaker evidence" if cause and other.strength <= cause.strength else "later"}  # fmt: skip

    def _demoted(self) -> list[dict[str, Any]]:
        out: dict[str, list[Any]] = defaultdict(lambda: [0, ""])
        for f in self.excluded:
            if f.status == "recovered":
                out["recovered-" + f.predicate.replace("_", "-")][0] += f.events
                out["recovered-" + f.predicate.replace("_", "-")][1] = str(f.attrs.get("excluded") or "handled")
        for f in self.graph.facts.values():
            if f.predicate in ("warned", "teardown_noise"):
                out[f.predicate.replace("_", "-")][0] += f.events
                out[f.predicate.replace("_", "-")][1] = "cannot start a failure" if f.predicate == "warned" else "printed while shutting down"
        return [{"kind": k, "count": n, "why": why} for k, (n, why) in sorted(out.items())]

    def _why_graph(self, cause: Cause | None) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if cause is None:
            return out
        for f in cause.facts[:8]:
            for target, edge in list(self.graph.reach(f.fact_id).items())[:64]:
                t = self.graph.facts[target]
                where = self.evidence.place(t.first_event_id)
                source = self.graph.facts[edge.cause]
                out.append({"cause": f"{source.label} {say(source, self.rulebook)}", "effect": f"{t.label} {say(t, self.rulebook)}", "law": edge.law,
                            "why": edge.why, "grade": edge.grade, "basis": edge.basis, "path": where[0], "line": where[1]})  # fmt: skip
        return out

    def _why_nots(self, cause: Cause | None, named: list[int], suspects: list[dict[str, Any]], parts: list[tuple[str, float, float]]) -> dict[str, Any]:
        wanted = [self.why_not] if self.why_not is not None else [r.rank for r in self.ranks] if len(self.ranks) <= 64 else []
        out: dict[str, Any] = {}
        for rank in wanted:
            own = [f for f in [*self.graph.facts.values(), *self.excluded] if f.rank == rank and f.predicate not in ("warned",)]
            suspected = any(s["rank"] == rank for s in suspects)
            role = "initiating" if rank in named else "suspect" if suspected else "propagated" if own else "benign"
            reasons = []
            for f in own[:6]:
                where = self.evidence.place(f.first_event_id)
                edges = self.graph.incoming.get(f.fact_id, [])
                if f.status != "active":
                    text = f"it {say(f, self.rulebook)}, but that was {f.status}: {f.attrs.get('excluded', '')}"
                elif f.can_initiate == "no":
                    text = f"it {say(f, self.rulebook)}: an effect, which never starts a failure" + (f" ({edges[0].why})" if edges else "")
                elif edges:
                    text = f"it {say(f, self.rulebook)}, which {edges[0].law} explains: {edges[0].why}"
                elif cause is not None and f in cause.facts and suspected:
                    others = [s["rank"] for s in suspects if s["rank"] != rank]
                    alike = f"{ranks_text(others)} did as well" if others else doubt_of(parts)
                    text = f"it {say(f, self.rulebook)}: this may be the cause, but it is not proved, because {alike}"
                elif cause is not None and f in cause.facts:
                    text = f"it {say(f, self.rulebook)}: this is the cause"
                else:
                    text = f"it {say(f, self.rulebook)}, but another cause is stronger or earlier"
                reasons.append({"text": text, "path": where[0], "line": where[1]})
            if not own:
                row = next((r for r in self.ranks if r.rank == rank), None)
                last = self.evidence.last_line(rank)
                reasons.append({"text": f"no fact about it at all; state {row.state if row else 'unknown'}", "path": last[0], "line": last[1]})
            out[str(rank)] = {"role": role, "reasons": reasons}
        return out


def _explanation(rule: Any) -> dict[str, Any]:
    if rule is None:
        return {}
    d = rule.doc
    return {"title": rule.title, "manager": d.get("summary", ""), "mechanism": d.get("mechanism", ""), "confirm": d.get("confirm", []), "prevent": d.get("prevent", []),
            "references": d.get("references", []), "related": d.get("related", []), "severity": rule.severity, "phase": rule.phase}  # fmt: skip
