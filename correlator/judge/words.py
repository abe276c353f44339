"""Sentences: what a fact says, what to fetch, what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from correlator.judge.causes import SYMPTOMS, Cause, RankRow
from correlator.judge.graph import Fact
from correlator.rulebook import Rule, Rulebook

_ACTIONS = {
    "gpu_hardware": ("drain_host", "the GPU needs a reset or replacement"), "network_ib": ("drain_host", "its port or adapter failed"),
    "node_lost": ("drain_host", "the host went away"), "gpu_driver_init": ("drain_host", "driver or fabric manager is not healthy there"),
    "storage_full": ("free_storage", "the target has no room"), "checkpoint_save_failed": ("free_storage", "the checkpoint could not be written"),
    "preemption": ("restart", "resources were taken back, nothing is broken"), "external_termination": ("restart", "it was stopped from outside, nothing is broken"),
    "process_killed": ("investigate", "find who sent the signal before restarting"), "host_oom": ("fix_config", "it will run out of memory again"),
    "gpu_oom": ("fix_config", "it will run out of memory again"), "slow_rank_work": ("fix_code", "do the long work once, before the group waits"),
    "peer_lost": ("investigate", "how the peer ended is not in these logs"), "rendezvous_missing_rank": ("investigate", "find why it did not start"),
    "rendezvous_timeout": ("investigate", "find the node that did not join"), "port_in_use": ("fix_config", "free the port or choose another"),
}  # fmt: skip
_FIX_CODE = {"user_exception", "unused_parameters", "collective_mismatch", "cuda_device_assert", "uneven_data", "numeric_nan", "cuda_illegal_access"}


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 3`` or ``ranks 0-1, 3-7``."""
    unique = sorted(set(ranks))
    if len(unique) == 1:
        return f"rank {unique[0]}"
    runs: list[str] = []
    start = prev = None
    for r in [*unique, None]:
        if prev is not None and r is not None and r == prev + 1:
            prev = r
            continue
        if start is not None:
            runs.append(str(start) if start == prev else f"{start}-{prev}")
        start = prev = r
    return "ranks " + ", ".join(runs)


def say(fact: Fact, rulebook: Rulebook) -> str:
    """The fact as the end of a sentence: ``ran out of GPU memory``."""
    template = rulebook.predicates[fact.predicate].says
    values: dict[str, Any] = {"seq": fact.seq, "pg": fact.pg, "peer": fact.object, **fact.attrs}
    if fact.predicate == "raised" and "exception" not in values:
        values["exception"] = fact.object or "an exception"

    def fill(m: re.Match[str]) -> str:
        value = values.get(m.group(1))
        return str(value) if value not in (None, "") else ""

    text = re.sub(r"\{(\w+)\}", fill, template)
    text = re.sub(r"\s*\(\s*\)", "", text)
    text = re.sub(r"\s+(by signal|with exit code|with|to|of group)\s*(?=$|[,.])", "", text).strip()
    if fact.predicate == "raised":
        detail = str(fact.attrs.get("text") or "").strip().splitlines()
        if detail and detail[0] and not text.endswith(detail[0]):
            text = f"{text}: {detail[0][:110]}"
    return text


_DOUBTS = {
    "kind": "it follows from absence alone", "completeness": "other ranks are silent too", "margin": "another cause is as strong",
    "coverage": "its own log is missing or cut", "identity": "its rank number was inferred", "order": "nothing says what came first",
    "unexplained": "it does not explain all failed ranks", "caught": "the program may have handled it",
}  # fmt: skip


def doubt_of(parts: Sequence[tuple[str, float, float]]) -> str:
    """The feature that costs the most confidence, in words. ``parts``: (feature, value, logit)."""
    name = min((p for p in parts if p[0] in _DOUBTS), key=lambda p: p[2], default=("", 0.0, 0.0))[0]
    return _DOUBTS.get(name, "the evidence is weak")


def missing_of(cause: Cause | None, scope: str, effects: list[Fact], ranks: list[RankRow], rulebook: Rulebook, rule: Rule | None) -> list[dict[str, str]]:
    """What to fetch, as {fact, how}; never empty for an undetermined verdict."""
    asks: list[str] = []
    if scope == "undetermined":
        if cause is not None:
            asks.append(rulebook.predicates[cause.predicate].asks_for)
        asks.extend(rulebook.predicates[f.predicate].asks_for for f in effects)
    elif cause is not None:
        p = rulebook.predicates[cause.predicate]
        if p.asks_why:
            asks.append(p.asks_why)
        elif p.certainty == "absence" or cause.predicate in SYMPTOMS:
            asks.append(p.asks_for)
    out: list[dict[str, str]] = []
    for ask in asks:
        fact, _, how = ask.partition(" | ")  # the first bar only: commands may hold more
        if fact and all(o["fact"] != fact for o in out):
            out.append({"fact": fact, "how": how})
    unseen = [r.rank for r in ranks if r.coverage == "absent"]
    if unseen and len(unseen) < len(ranks):
        out.append({"fact": f"the log of {ranks_text(unseen)}", "how": "copy their stdout/stderr files into the same directory and run again"})
    if scope == "undetermined" and not out:
        out.append({"fact": "what every rank did last", "how": "the log of every rank from its start, one file each"})
    return out[:5]


def action_for(failure_class: str, scope: str, ranks: list[int], hosts: list[str]) -> dict[str, str]:
    """The next action: kind, target, why."""
    target = ", ".join(hosts) if hosts else ranks_text(ranks) if ranks else "the job"
    if scope == "undetermined":
        return {"kind": "investigate", "target": "the job", "why": "the logs do not decide; drain nothing on this evidence"}
    if failure_class in _ACTIONS:
        kind, why = _ACTIONS[failure_class]
        return {"kind": kind, "target": target, "why": why}
    if failure_class in _FIX_CODE:
        return {"kind": "fix_code", "target": target, "why": "a restart would meet the same fault"}
    return {"kind": "investigate", "target": target, "why": "see the evidence"}
