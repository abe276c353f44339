"""Failure class and rulebook entry of a cause: rules refine what is known, they never accuse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from correlator.judge.causes import Cause
from correlator.rulebook import Rule, Rulebook

# Class of a root predicate that no rule refines. Names are those of rules/taxonomy.toml.
FALLBACK = {
    "raised": "user_exception", "out_of_memory": "gpu_oom", "host_memory": "host_oom", "killed_by_kernel": "host_oom", "died": "process_killed",
    "crashed": "native_crash", "exited": "process_exit", "vanished": "peer_lost", "stalled": "rank_stalled", "busy": "slow_rank_work",
    "rank_slow": "slow_rank_work", "never_joined": "rendezvous_missing_rank", "never_arrived": "rank_stalled", "left_early": "uneven_data",
    "mismatch": "collective_mismatch", "device_fault": "gpu_hardware", "device_assert": "cuda_device_assert", "illegal_access": "cuda_illegal_access",
    "driver_failed": "gpu_driver_init", "link_down": "network_ib", "net_unreachable": "network_config", "host_gone": "node_lost",
    "partitioned": "network_partition", "nan_local": "numeric_nan", "nan_global": "numeric_nan", "io_failed": "data_error",
    "worker_died": "dataloader_worker_died", "shm_exhausted": "shm_too_small", "misconfigured": "env_mismatch", "gpu_shared": "rank_gpu_mapping",
    "unused_parameters": "unused_parameters", "waiting_on_lock": "build_lock", "p2p_stuck": "p2p_hang", "external_signal": "external_termination",
    "preempted": "preemption", "port_taken": "port_in_use", "store_failed": "rendezvous_store", "rendezvous_expired": "rendezvous_timeout",
    "scale_exhausted": "loss_scale_exhausted",
}  # fmt: skip


@dataclass(slots=True)
class Diagnosis:
    """Class, rule and how sure the class is; ``reasons`` are a rule's own grounds."""

    failure_class: str
    rule: Rule | None
    class_confidence: float
    reasons: list[str]


def diagnose(cause: Cause, all_facts: list[Any], rulebook: Rulebook, config: list[tuple[str, str]], con: Any) -> Diagnosis:
    """The most specific rule whose root conditions fit the cause, else the predicate's own class."""
    matches = [r for r in rulebook.rules if _root_fits(r, cause) and _context_fits(r, all_facts) and _config_fits(r, config)]
    reasons: list[str] = []
    kept = []
    for rule in matches:
        if rule.sql:
            try:
                rows = con.execute(rule.sql.replace("$root", str(cause.lead.fact_id))).fetchall()
            except Exception:
                continue  # a rule's own SQL must not break the verdict; `rules check` reports it
            if not rows:
                continue
            reasons.extend(str(r[-1]) for r in rows[:3])
        kept.append(rule)
    superseded = {s for r in kept for s in r.supersedes}
    kept = [r for r in kept if r.id not in superseded]
    if kept:
        best = max(kept, key=lambda r: (_specificity(r, cause), r.id))
        sure = 0.95 if _owns(best, cause) else 0.85
        if cause.predicate in ("vanished", "exited") or any(f.attrs.get("log") == "missing" for f in cause.facts):
            sure = 0.45
        return Diagnosis(best.failure_class, best, sure, reasons)
    fallback = FALLBACK.get(cause.predicate, "unknown")
    if cause.predicate == "died" and cause.lead.attrs.get("signal") in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"):
        fallback = "native_crash"
    return Diagnosis(fallback, None, 0.7, [])


def _owns(rule: Rule, cause: Cause) -> bool:
    return any(f.attrs.get("rule") == rule.id for f in cause.facts)


def _specificity(rule: Rule, cause: Cause) -> tuple[int, int]:
    return (
        2 * _owns(rule, cause) + bool(rule.config) + bool(rule.sql) + bool(rule.context),
        max((len(c.where) for c in rule.root), default=0),
    )


def _root_fits(rule: Rule, cause: Cause) -> bool:
    if rule.root:
        return any(_fits(c.fact, c.where, f) for c in rule.root for f in cause.facts)
    return _owns(rule, cause)


def _context_fits(rule: Rule, facts: list[Any]) -> bool:
    return all(any(_fits(c.fact, c.where, f) for f in facts) for c in rule.context)


def _config_fits(rule: Rule, config: list[tuple[str, str]]) -> bool:
    for key, pattern in rule.config.items():
        if not any((k == key or k.endswith("." + key)) and re.fullmatch(str(pattern), v, re.IGNORECASE) for k, v in config):
            return False
    return True


def _fits(fact: str, where: dict[str, Any], candidate: Any) -> bool:
    if candidate.predicate != fact:
        return False
    for key, wanted in where.items():
        value = candidate.attrs.get(key)
        if value is None and key in ("subject_kind", "object", "pg", "step"):
            value = getattr(candidate, key)
        if value is None:
            return False
        texts = [str(v) for v in value] if isinstance(value, list) else [str(value)]
        options = wanted if isinstance(wanted, list) else [wanted]
        if not any(re.fullmatch(str(o), t, re.DOTALL) for o in options for t in texts):
            return False
    return True
