"""The rulebook's vocabulary: predicates and failure rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from correlator.parsers.catalogue import Catalogue, Signature


@dataclass(slots=True, frozen=True)
class Predicate:
    """One row of ``predicates.toml``."""

    name: str
    subject: tuple[str, ...]
    ends_subject: bool
    can_initiate: str
    certainty: str
    says: str
    asks_for: str
    names: str = "rank"
    asks_why: str = ""


@dataclass(slots=True, frozen=True)
class Condition:
    """A fact that must be there: predicate and attribute patterns (full match, or a list of them)."""

    fact: str
    where: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(slots=True, frozen=True)
class Rule:
    """One failure: what it looks like, when it is diagnosed, and everything a person on call needs."""

    id: str
    title: str
    category: str
    failure_class: str
    severity: str
    phase: str
    maturity: str
    systems: tuple[str, ...]
    supersedes: tuple[str, ...]
    signatures: tuple[Signature, ...]
    root: tuple[Condition, ...]
    context: tuple[Condition, ...]
    config: dict[str, str] = field(hash=False)
    sql: str | None
    doc: dict[str, Any] = field(hash=False)
    examples: tuple[dict[str, Any], ...] = field(hash=False)
    file: str = ""


@dataclass
class Rulebook:
    """Rules, predicates and classes that were loaded together."""

    rules: list[Rule]
    predicates: dict[str, Predicate]
    classes: dict[str, str]  # failure class -> category
    messages: list[Signature] = field(default_factory=list)  # upstream lines that need a predicate and no prose

    @cached_property
    def catalogue(self) -> Catalogue:
        """All signatures, the superseding rules' first, messages without a rule last."""
        return Catalogue([*(s for r in self.rules for s in r.signatures), *self.messages])

    def rule(self, rule_id: str) -> Rule | None:
        """The rule with an id, None if there is none."""
        return next((r for r in self.rules if r.id == rule_id), None)

    def category_of(self, failure_class: str) -> str:
        """Category of a failure class, ``unknown`` for one outside the taxonomy."""
        return self.classes.get(failure_class, "unknown")
