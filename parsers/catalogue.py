"""Signatures of the rulebook, matched against log lines and exception texts.

Nearly every signature has literals of which its matches must hold one; ``literal in text`` rejects nearly all lines
before any regular expression runs. Of several hits the most specific wins: rules that supersede others come first,
then the longest literal that every match holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

SHORTEST_TOKEN = 4  # characters of a literal that is worth a search over every line
REGEX_SECONDS = 0.2  # for one text, where a pattern needs the backtracking engine
_PARSER_OWNED = frozenset({"python", "nccl"})  # their lines never reach `match_line`: their parsers ask `refine`


@dataclass(slots=True, frozen=True)
class Signature:
    """One pattern of a rule. ``fact`` is a predicate, ``source`` says which texts it may see.

    ``held``: `literal` and `anchors` of the pattern where they are known already, else they are worked out.
    """

    id: str
    rule: str
    source: str
    fact: str
    pattern: str
    sample: str = ""
    engine: str = "re"
    rank: int = 0  # lower is more specific: rules that others are superseded by come first
    attrs: dict[str, Any] = field(default_factory=dict, hash=False)
    held: tuple[str, tuple[str, ...]] | None = field(default=None, hash=False, compare=False)


@dataclass(slots=True, frozen=True)
class Hit:
    """A matched signature: its predicate, its source, and the captures with rule and signature."""

    predicate: str
    source: str
    attrs: dict[str, Any]


class Catalogue:
    """All signatures of a rulebook, grouped by the source whose texts they read. Picklable."""

    def __init__(self, signatures: list[Signature]) -> None:
        self.signatures = sorted(signatures, key=lambda s: (s.rank, -len(s.held[0] if s.held else literal(s.pattern)), s.rule, s.id))
        self._anchors = [s.held[1] if s.held else anchors(s.pattern) for s in self.signatures]
        self.by_source: dict[str, list[int]] = {}
        for i, s in enumerate(self.signatures):
            self.by_source.setdefault(s.source, []).append(i)
        self._lines = [i for i, s in enumerate(self.signatures) if s.source not in _PARSER_OWNED]

    @property
    def tokens(self) -> tuple[str, ...]:
        """Literals by which a line that some signature wants can be found; very short ones would let every line pass."""
        wanted = (a for i in self._lines for a in self._anchors[i])
        return tuple(dict.fromkeys(a for a in wanted if len(a) >= SHORTEST_TOKEN))

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
            if self._anchors[i] and not any(a in text for a in self._anchors[i]):
                continue
            m = _search(self.signatures[i], text)
            if m is not None:
                best, found = i, m
        if best is None or found is None:
            return None
        s = self.signatures[best]
        attrs: dict[str, Any] = {**s.attrs, "rule": s.rule, "signature": s.id}
        attrs.update({k: v for k, v in found.groupdict().items() if v is not None})
        return Hit(s.fact, s.source, attrs)


def _search(signature: Signature, text: str) -> re.Match[str] | None:
    """First match in a text; a pattern that takes too long on it does not match it."""
    pattern = compiled(signature.pattern, signature.engine)
    if signature.engine != "regex":
        return pattern.search(text)
    try:
        return pattern.search(text, timeout=REGEX_SECONDS)
    except TimeoutError:
        return None


@lru_cache(maxsize=4096)
def compiled(pattern: str, engine: str = "re") -> Any:
    """The compiled pattern; ``regex`` only where look-around is needed."""
    if engine == "regex":
        import regex

        return regex.compile(pattern)
    return re.compile(pattern)


@lru_cache(maxsize=4096)
def literal(pattern: str) -> str:
    """The longest text that every match of a pattern must hold, empty if there is none."""
    tree = _tree(pattern)
    return max((run for run in _runs(tree) if isinstance(run, str)), key=len, default="") if tree is not None else ""


@lru_cache(maxsize=4096)
def anchors(pattern: str) -> tuple[str, ...]:
    """Texts of which every match of a pattern holds at least one; empty if there are none (then all texts are tried).

    ``a|b`` gives one text a branch. Of several choices the one whose shortest text is longest rejects most.
    """
    tree = _tree(pattern)
    return _best(tree) if tree is not None else ()


@lru_cache(maxsize=4096)
def _tree(pattern: str) -> Any | None:
    """The parsed pattern, asked for by `literal` and by `anchors`; None for one that ``re`` cannot read or that ignores case as a whole."""
    from re import _parser  # type: ignore[attr-defined]

    try:
        tree = _parser.parse(pattern)
    except Exception:
        return None
    return None if tree.state.flags & re.IGNORECASE else tree


def _best(items: Any) -> tuple[str, ...]:
    choices = [(run,) if isinstance(run, str) else run for run in _runs(items)]
    return max(choices, key=lambda c: min(map(len, c)), default=())


def _runs(items: Any) -> list[str | tuple[str, ...]]:
    """What a match of a sequence must hold: texts, and tuples of texts of which one must be there."""
    found: list[str | tuple[str, ...]] = []
    run = ""

    def flush() -> None:
        nonlocal run
        if run:
            found.append(run)
        run = ""

    def walk(sequence: Any) -> None:
        nonlocal run
        for op, value in sequence:
            name = str(op)
            if name == "LITERAL":
                run += chr(value)
            elif name == "SUBPATTERN" and not value[1] & re.IGNORECASE and not value[2]:
                walk(value[3])
            elif name == "BRANCH":
                flush()
                branches = [_best(branch) for branch in value[1]]
                if all(branches):
                    found.append(tuple(text for texts in branches for text in texts))
            elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
                flush()
                if value[0] >= 1:
                    walk(value[2])
                    flush()
            elif name != "AT":  # a position takes no character: the text goes on behind it
                flush()

    walk(items)
    flush()
    return found


MESSAGE_COLUMNS = ("id", "source", "fact", "pattern", "text")


def messages(folder: Path) -> list[Signature]:
    """Signatures of ``messages/*.tsv``: upstream lines that only need a predicate and no prose.

    Columns: id, source, fact, and ``pattern`` (a regular expression) or ``text`` (the line itself, with ``{name}`` for
    what varies). The first line names the columns, lines that start with ``#`` are comments. Tables without these
    columns (codes of one parser, such as ``xid.tsv``) are not messages and are left alone.

    Raises:
        ValueError: ``file:line: why`` for a row that cannot be used.
    """
    found: list[Signature] = []
    for file in sorted(folder.glob("*.tsv")):
        rows = [(n, t.split("\t")) for n, t in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)]
        rows = [(n, cells) for n, cells in rows if cells != [""] and not cells[0].startswith("#")]
        if not rows or not {"id", "source", "fact"} <= set(rows[0][1]) <= set(MESSAGE_COLUMNS):
            continue
        header = rows[0][1]
        for number, cells in rows[1:]:
            row = dict(zip(header, cells))
            pattern = row.get("pattern") or _from_text(row.get("text", ""))
            if len(cells) > len(header) or not (row.get("id") and row.get("source") and row.get("fact") and pattern):
                raise ValueError(f"{file}:{number}: a message needs id, source, fact, and pattern or text")
            try:
                compiled(pattern)
            except re.error as exc:
                raise ValueError(f"{file}:{number}: the pattern does not compile: {exc}") from exc
            found.append(Signature(row["id"], f"messages/{file.stem}", row["source"], row["fact"], pattern, rank=2))
    return found


def _from_text(text: str) -> str:
    """A pattern for a message template; ``{name}`` becomes a capture, ``{}`` anything."""
    parts = re.split(r"\{(\w*)\}", text)
    return "".join(re.escape(p) if i % 2 == 0 else (f"(?P<{p}>.+?)" if p else ".+?") for i, p in enumerate(parts))
