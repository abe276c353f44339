"""One rule file: TOML text to a checked `Rule`. By hand, so that a hundred files load in a few hundredths of a second."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from correlator.errors import CorrelatorError
from correlator.parsers.catalogue import Signature, compiled
from correlator.rulebook.lines import line_of
from correlator.rulebook.model import Condition, Predicate, Rule
from correlator.rulebook.prebuilt import Prebuilt

SOURCES = frozenset("python c10d nccl kernel slurm kubernetes ray mpi deepspeed trainer any".split())
PHASES = frozenset("launch rendezvous data forward-backward collective optimizer checkpoint evaluation teardown".split())
SEVERITIES = frozenset("low medium high critical".split())
MATURITIES = frozenset("stable incubating".split())
ENGINES = frozenset(("re", "regex"))
# key -> type, required keys first; a tuple means "one of", a list holds texts
_TEXT, _LIST, _TABLE = str, list, dict
_TOP = {
    "id": _TEXT, "title": _TEXT, "category": _TEXT, "failure_class": _TEXT, "severity": _TEXT, "phase": _TEXT, "maturity": _TEXT, "doc": _TABLE,
    "systems": _LIST, "supersedes": _LIST, "signature": _LIST, "diagnosis": _TABLE, "example": _LIST,
}  # fmt: skip
_SIGNATURE = {
    "id": _TEXT,
    "source": _TEXT,
    "fact": _TEXT,
    "pattern": _TEXT,
    "sample": _TEXT,
    "engine": _TEXT,
    "attrs": _TABLE,
}
_DIAGNOSIS = {"root": _LIST, "signatures": _LIST, "context": _LIST, "config": _TABLE, "sql": _TEXT}
_DOC = {
    "summary": _TEXT, "mechanism": _TEXT, "symptoms": _LIST, "confirm": _LIST, "fix": _TEXT, "verify": _TEXT, "do_not": _TEXT, "prevent": _LIST,
    "false_positives": _LIST, "references": _LIST, "related": _LIST, "applies_to": _TABLE,
}  # fmt: skip
_EXAMPLE = {"name": _TEXT, "expect": (str, dict), "files": _TABLE, "known_miss": _TEXT}
_EXPECT = frozenset("initiating propagated scope failure_class".split())


def parse_rule(text: str, file: str, predicates: dict[str, Predicate], classes: dict[str, str], *, proven: Prebuilt | None = None) -> Rule:
    """One rule from TOML text.

    Args:
        proven: where the file was read before. Its patterns are then not compiled and tried on their samples, because
            a test has done so (built-in rules: most of the start of every command).

    Raises:
        CorrelatorError: the text is not a rule (file:line, why, help).
    """
    return _Parser(text, Path(file), predicates, classes, proven).rule()


class _Parser:
    """The text of one rule, and the names it may use."""

    def __init__(self, text: str, path: Path, predicates: dict[str, Predicate], classes: dict[str, str], proven: Prebuilt | None) -> None:
        self.text, self.path, self.predicates, self.classes, self.proven = text, path, predicates, classes, proven
        if proven is not None and path.name in proven.raw:
            self.raw = proven.raw[path.name]
            return
        try:
            self.raw = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            line = re.search(r"line (\d+)", str(exc))
            where = f"{path}:{line[1] if line else len(text.splitlines())}"
            raise CorrelatorError("rule is not valid TOML", where=where, why=str(exc), help="quote patterns with ''' and check brackets") from exc

    def rule(self) -> Rule:
        """The checked rule."""
        raw = self.raw
        self.table(raw, _TOP, required=8)
        self.one_of(raw, "phase", PHASES)
        self.one_of(raw, "severity", SEVERITIES)
        self.one_of(raw, "maturity", MATURITIES)
        category = self.classes.get(raw["failure_class"])
        if category is None:
            raise self.error(
                f"unknown failure class {raw['failure_class']}",
                "use a name from rules/taxonomy.toml, or add it there first",
                "failure_class",
            )
        if category != raw["category"]:
            raise self.error(f"class {raw['failure_class']} belongs to category {category}", "change category", "category")
        signatures = tuple(self.signature(s, i) for i, s in enumerate(raw.get("signature", [])))
        names = [s.id for s in signatures]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise self.error(f"two signatures have the id {name}", "rename one", "id", "signature", index)
        diagnosis = raw.get("diagnosis", {})
        self.table(diagnosis, _DIAGNOSIS, "diagnosis")
        self.table(raw["doc"], _DOC, "doc")
        if not signatures and not diagnosis.get("root"):
            raise self.error("a rule needs a signature or diagnosis.root", "say which fact it explains", table="diagnosis")
        for index, example in enumerate(raw.get("example", [])):
            self.example(example, index)
        if raw["maturity"] == "stable" and not any(e["expect"] == "silent" for e in raw.get("example", [])):
            raise self.error("a stable rule needs a silent example", 'add [[example]] with expect = "silent"', "maturity")
        for key, pattern in diagnosis.get("config", {}).items():
            self.pattern(str(pattern), f"config {key}", "config")
        root = self.conditions(diagnosis.get("root", []), "root")
        if "signatures" in diagnosis:
            root = self.own(root, diagnosis["signatures"], signatures)
        return Rule(
            id=raw["id"], title=raw["title"], category=category, failure_class=raw["failure_class"], severity=raw["severity"], phase=raw["phase"],
            maturity=raw["maturity"], systems=tuple(raw.get("systems", ())), supersedes=tuple(raw.get("supersedes", ())), signatures=signatures,
            root=root, context=self.conditions(diagnosis.get("context", []), "context"),
            config={k: str(v) for k, v in diagnosis.get("config", {}).items()}, sql=(diagnosis.get("sql") or "").strip() or None, doc=raw["doc"],
            examples=tuple(raw.get("example", ())), file=str(self.path),
        )  # fmt: skip

    def signature(self, row: Any, index: int) -> Signature:
        """One ``[[signature]]``; its pattern must match its sample."""
        self.table(row, _SIGNATURE, "signature", index, required=5)
        self.one_of(row, "source", SOURCES, "signature", index)
        self.one_of(row, "engine", ENGINES, "signature", index)
        if row["fact"] not in self.predicates:
            raise self.error(f"unknown predicate {row['fact']}", "use a name from rules/predicates.toml", "fact", "signature", index)
        engine = row.get("engine", "re")
        if self.proven is None:
            self.proves(row, engine, index)
        return Signature(
            row["id"],
            self.raw["id"],
            row["source"],
            row["fact"],
            row["pattern"],
            row["sample"],
            engine,
            0,
            dict(row.get("attrs", {})),
            self.proven.holds(row["pattern"]) if self.proven is not None else None,
        )

    def proves(self, row: dict[str, Any], engine: str, index: int) -> None:
        """The pattern compiles and matches its sample."""
        try:
            pattern = compiled(row["pattern"], engine)
        except Exception as exc:  # re.error, or the regex module's own
            raise self.error(f"pattern does not compile: {exc}", "fix the regular expression", "pattern", "signature", index) from exc
        if not pattern.search(row["sample"]):
            raise self.error(
                f"sample of signature {row['id']} does not match its pattern",
                "give a line that the pattern matches",
                "sample",
                "signature",
                index,
            )

    def conditions(self, rows: Any, key: str) -> tuple[Condition, ...]:
        """``[{ fact = .., where = { attr = pattern or list } }]``."""
        for row in rows:
            if not isinstance(row, dict) or not row.keys() <= {"fact", "where"}:
                raise self.error(
                    f"a condition in {key} is {row!r}",
                    '{ fact = "predicate", where = { attr = "pattern" } }',
                    key,
                    "diagnosis",
                )
            if row.get("fact") not in self.predicates:
                raise self.error(f"unknown predicate {row.get('fact')}", "use a name from rules/predicates.toml", key, "diagnosis")
            for attr, wanted in row.get("where", {}).items():
                for pattern in wanted if isinstance(wanted, list) else [wanted]:
                    self.pattern(str(pattern), f"where {attr}", key)
        return tuple(Condition(row["fact"], dict(row.get("where", {}))) for row in rows)

    def own(self, root: tuple[Condition, ...], wanted: list[str], signatures: tuple[Signature, ...]) -> tuple[Condition, ...]:
        """Root conditions narrowed to facts that carry one of the rule's own signatures."""
        facts = {s.id: s.fact for s in signatures}
        for name in wanted:
            if name not in facts:
                raise self.error(
                    f"diagnosis.signatures names an unknown signature: {name}",
                    f"one of {', '.join(facts) or 'none'}",
                    "signatures",
                    "diagnosis",
                )
        mine = {"rule": re.escape(self.raw["id"]), "signature": [re.escape(name) for name in wanted]}
        plain = root or tuple(Condition(fact) for fact in dict.fromkeys(facts[name] for name in wanted))
        return tuple(Condition(c.fact, {**c.where, **mine}) for c in plain)

    def example(self, row: Any, index: int) -> None:
        """``expect`` is "silent" or what the verdict must say; ``files`` the logs by name."""
        self.table(row, _EXAMPLE, "example", index, required=3)
        expect = row["expect"]
        if isinstance(expect, str) and expect != "silent":
            raise self.error(f"expect is {expect!r}", '"silent" or a table', "expect", "example", index)
        if isinstance(expect, dict) and not (expect and expect.keys() <= _EXPECT):
            raise self.error(
                f"unknown key in expect: {', '.join(sorted(expect.keys() - _EXPECT)) or 'it is empty'}",
                f"known keys: {', '.join(sorted(_EXPECT))}",
                "expect",
                "example",
                index,
            )

    # ---- checks that all tables share ------------------------------------------------------------
    def table(self, row: Any, shape: dict[str, Any], name: str = "", index: int = 0, required: int = 0) -> None:
        """Known keys of the right type; the first ``required`` keys of the shape must be there."""
        if not isinstance(row, dict):
            raise self.error(f"{name} is not a table", f"write [{name}]", name)
        for key, value in row.items():
            if key not in shape:
                inside = f" in {name}" if name else ""
                raise self.error(f"unknown key {key}{inside}", f"known keys: {', '.join(sorted(shape))}", key, name, index)
            if not isinstance(value, shape[key]):
                raise self.error(
                    f"{key} has the wrong type: {type(value).__name__}",
                    f"give a {_type_name(shape[key])}",
                    key,
                    name,
                    index,
                )
        for key in list(shape)[:required]:
            if key not in row:
                what = f"{name} without {key}" if name else f"missing key {key}"
                raise self.error(what, "add it; see rules/README.md", "", name, index)

    def one_of(self, row: dict[str, Any], key: str, allowed: frozenset[str], table: str = "", index: int = 0) -> None:
        """An absent key is left to its default."""
        if key in row and row[key] not in allowed:
            raise self.error(f"{key} is {row[key]!r}", f"one of {', '.join(sorted(allowed))}", key, table, index)

    def pattern(self, pattern: str, what: str, key: str) -> None:
        """A pattern on attributes or settings must compile."""
        if self.proven is not None:
            return
        try:
            compiled(pattern)
        except re.error as exc:
            raise self.error(f"pattern of {what} does not compile: {exc}", "fix the regular expression", key, "diagnosis") from exc

    def error(self, why: str, fix: str, key: str = "", table: str = "", index: int = 0) -> CorrelatorError:
        """An error at the line of a key."""
        return rule_error(self.path, self.text, why, fix, key, table, index)


def _type_name(kind: Any) -> str:
    names = {str: "text", list: "list", dict: "table"}
    return " or ".join(names[k] for k in (kind if isinstance(kind, tuple) else (kind,)))


def rule_error(path: Path, text: str, why: str, fix: str, key: str = "", table: str = "", index: int = 0) -> CorrelatorError:
    line = line_of(text, key, table, index)
    return CorrelatorError("rule cannot be loaded", where=f"{path}:{line}", why=why, help=fix)
