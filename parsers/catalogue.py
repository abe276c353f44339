"""Signatures of the rulebook, matched against log lines and exception texts.

Every signature has a literal that its matches must hold; ``literal in text`` rejects nearly all lines before
any regular expression runs. Of several hits the most specific wins: the longest literal, then the rule's
place in the order of ``supersedes``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_PARSER_OWNED = frozenset({"python", "nccl"})  # their lines never reach `match_line`: their parsers ask `refine`


@dataclass(slots=True, frozen=True)
class Signature:
    """One pattern of a rule. ``fact`` is a predicate, ``source`` says which texts it may see."""

    id: str
    rule: str
    source: str
    fact: str
    pattern: str
    sample: str = ""
    engine: str = "re"
    rank: int = 0  # lower is more specific: rules that others are superseded by come first
    attrs: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(slots=True, frozen=True)
class Hit:
    """A matched signature: its predicate, its source, and the captures with rule and signature."""

    predicate: str
    source: str
    attrs: dict[str, Any]


class Catalogue:
    """All signatures of a rulebook, grouped by the source whose texts they read. Picklable."""

    def __init__(self, signatures: list[Signature]) -> None:
        self.signatures = sorted(signatures, key=lambda s: (s.rank, -len(literal(s.pattern)), s.rule, s.id))
        self._literals = [literal(s.pattern) for s in self.signatures]
        self.by_source: dict[str, list[int]] = {}
        for i, s in enumerate(self.signatures):
            self.by_source.setdefault(s.source, []).append(i)
        self._lines = [i for i, s in enumerate(self.signatures) if s.source not in _PARSER_OWNED]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Literals by which a line that some signature wants can be found."""
        return tuple(dict.fromkeys(self._literals[i] for i in self._lines if len(self._literals[i]) >= 4))

    def match(self, source: str, text: str) -> Hit | None:
        """Best signature of a source (and of source ``any``) for a text."""
        return self._first([*self.by_source.get(source, ()), *self.by_source.get("any", ())], text)

    def match_line(self, text: str) -> Hit | None:
        """Best signature for a line that no parser owns."""
        return self._first(self._lines, text)

    def refine(self, source: str, text: str) -> tuple[str, dict[str, Any]] | None:
        """Predicate and attrs for a text that a parser emitted, or None."""
        hit = self.match(source, text)
        return (hit.predicate, hit.attrs) if hit is not None else None

    def _first(self, indices: list[int], text: str) -> Hit | None:
        best: int | None = None
        found: re.Match[str] | None = None
        for i in indices:
            if best is not None and i > best:
                continue
            if self._literals[i] and self._literals[i] not in text:
                continue
            m = compiled(self.signatures[i].pattern, self.signatures[i].engine).search(text)
            if m is not None:
                best, found = i, m
        if best is None or found is None:
            return None
        s = self.signatures[best]
        attrs: dict[str, Any] = {**s.attrs, "rule": s.rule, "signature": s.id}
        attrs.update({k: v for k, v in found.groupdict().items() if v is not None})
        return Hit(s.fact, s.source, attrs)


@lru_cache(maxsize=4096)
def compiled(pattern: str, engine: str = "re") -> Any:
    """The compiled pattern; ``regex`` only where look-around is needed."""
    if engine == "regex":
        import regex

        return regex.compile(pattern)
    return re.compile(pattern)


@lru_cache(maxsize=4096)
def literal(pattern: str) -> str:
    """The longest text that every match of a pattern must hold, empty if there is none (alternations at the top)."""
    try:
        from re import _parser  # type: ignore[attr-defined]

        tree = _parser.parse(pattern)
    except Exception:
        return ""
    if tree.state.flags & re.IGNORECASE:
        return ""
    best, current = "", ""

    def walk(items: Any) -> None:
        nonlocal best, current
        for op, value in items:
            name = str(op)
            if name == "LITERAL":
                current += chr(value)
                if len(current) > len(best):
                    best = current
                continue
            if name == "SUBPATTERN":
                if value[1] & re.IGNORECASE or value[2]:
                    current = ""
                    continue
                walk(value[3])
                continue
            if name in ("AT",):
                continue
            if name == "MAX_REPEAT" or name == "MIN_REPEAT":
                low, _, inner = value
                current = ""
                if low >= 1:
                    walk(inner)
                current = ""
                continue
            current = ""

    walk(tree)
    return best
