"""Loads rules from TOML files; every error names file and line, says why and what to do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from correlator.errors import CorrelatorError
from correlator.parsers.catalogue import Signature, compiled
from correlator.rulebook.model import Condition, Predicate, Rule, Rulebook

SOURCES = frozenset("python c10d nccl kernel slurm kubernetes ray mpi deepspeed trainer any".split())
PHASES = frozenset("launch rendezvous data forward-backward collective optimizer checkpoint evaluation teardown".split())
SEVERITIES = frozenset("low medium high critical".split())
MATURITIES = frozenset("stable incubating".split())
_TOP = frozenset("id title category failure_class severity systems phase maturity supersedes signature diagnosis doc example".split())
_SIGNATURE = frozenset("id source fact pattern sample engine attrs".split())
_DIAGNOSIS = frozenset("root signatures context config sql".split())
_DOC = frozenset("summary mechanism symptoms confirm fix verify do_not prevent false_positives references related applies_to".split())


def load(extra: Sequence[str] = (), *, builtin: bool = True) -> Rulebook:
    """The built-in rulebook with the rules of further folders added (an equal id replaces).

    Raises:
        CorrelatorError: a file cannot be read, or a rule is wrong (file:line, why, help).
    """
    root = Path(str(resources.files("correlator") / "rules"))
    predicates = _predicates(root / "predicates.toml")
    classes = {name: category for category, names in _toml(root / "taxonomy.toml").items() for name in names}
    rules: dict[str, Rule] = {}
    folders = [root / "failures"] if builtin else []
    folders += [Path(e) for e in extra]
    for folder in folders:
        if not folder.exists():
            raise CorrelatorError("rules folder not found", where=str(folder), why="it does not exist", help="give the folder that holds your .toml rules")
        seen: dict[str, str] = {}
        for file in sorted(folder.rglob("*.toml")) if folder.is_dir() else [folder]:
            rule = parse_rule(file.read_text(encoding="utf-8"), str(file), predicates, classes)
            if rule.id in seen:
                raise _error(file, file.read_text(encoding="utf-8"), "id", f"two rules have the id {rule.id}", f"the other is {seen[rule.id]}")
            seen[rule.id] = str(file)
            rules[rule.id] = rule
    _check_links(rules)
    return Rulebook(_ordered(list(rules.values())), predicates, classes)


def parse_rule(text: str, file: str, predicates: dict[str, Predicate], classes: dict[str, str]) -> Rule:
    """One rule from TOML text."""
    path = Path(file)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        line = re.search(r"line (\d+)", str(exc))
        raise CorrelatorError("rule is not valid TOML", where=f"{file}:{line[1] if line else 1}", why=str(exc), help="quote patterns with ''' and check brackets") from exc
    _keys(raw, _TOP, path, text, "")
    for key in ("id", "title", "category", "failure_class", "severity", "phase", "maturity", "doc"):
        if key not in raw:
            raise _error(path, text, "", f"missing key {key}", "every rule has it; see rules/README.md")
    _one_of(raw["phase"], PHASES, "phase", path, text)
    _one_of(raw["severity"], SEVERITIES, "severity", path, text)
    _one_of(raw["maturity"], MATURITIES, "maturity", path, text)
    if classes.get(raw["failure_class"]) is None:
        raise _error(path, text, "failure_class", f"unknown failure class {raw['failure_class']}", "use a name from rules/taxonomy.toml, or add it there first")
    if classes[raw["failure_class"]] != raw["category"]:
        raise _error(path, text, "category", f"class {raw['failure_class']} belongs to category {classes[raw['failure_class']]}", "change category")
    signatures = []
    for number, s in enumerate(raw.get("signature", [])):
        _keys(s, _SIGNATURE, path, text, "signature", number)
        for key in ("id", "source", "fact", "pattern"):
            if key not in s:
                raise _error(path, text, "signature", f"signature without {key}", "add it", number)
        _one_of(s["source"], SOURCES, "source", path, text, number)
        if s["fact"] not in predicates:
            raise _error(path, text, "fact", f"unknown predicate {s['fact']}", "use a name from rules/predicates.toml", number)
        try:
            pattern = compiled(s["pattern"], s.get("engine", "re"))
        except Exception as exc:
            raise _error(path, text, "pattern", f"pattern does not compile: {exc}", "fix the regular expression", number) from exc
        if s.get("sample") and not pattern.search(s["sample"]):
            raise _error(path, text, "sample", f"sample of signature {s['id']} does not match its pattern", "give a line that the pattern matches", number)
        signatures.append(Signature(s["id"], raw["id"], s["source"], s["fact"], s["pattern"], s.get("sample", ""), s.get("engine", "re"), 0, dict(s.get("attrs", {}))))
    diagnosis = raw.get("diagnosis", {})
    _keys(diagnosis, _DIAGNOSIS, path, text, "diagnosis")
    _keys(raw["doc"], _DOC, path, text, "doc")
    if not signatures and not diagnosis.get("root"):
        raise _error(path, text, "diagnosis", "a rule needs a signature or diagnosis.root", "say which fact it explains")
    if raw["maturity"] == "stable" and not any(e.get("expect") == "silent" for e in raw.get("example", [])):
        raise _error(path, text, "maturity", "a stable rule needs a silent example", "add [[example]] with expect = \"silent\"")
    return Rule(
        id=raw["id"], title=raw["title"], category=raw["category"], failure_class=raw["failure_class"], severity=raw["severity"], phase=raw["phase"],
        maturity=raw["maturity"], systems=tuple(raw.get("systems", ())), supersedes=tuple(raw.get("supersedes", ())), signatures=tuple(signatures),
        root=tuple(_conditions(diagnosis.get("root", []), predicates, path, text)), context=tuple(_conditions(diagnosis.get("context", []), predicates, path, text)),
        config={k: str(v) for k, v in diagnosis.get("config", {}).items()}, sql=(diagnosis.get("sql") or "").strip() or None, doc=raw["doc"],
        examples=tuple(raw.get("example", ())), file=file,
    )  # fmt: skip


def _conditions(rows: Any, predicates: dict[str, Predicate], path: Path, text: str) -> Iterator[Condition]:
    for row in rows:
        if row.get("fact") not in predicates:
            raise _error(path, text, "root", f"unknown predicate {row.get('fact')}", "use a name from rules/predicates.toml")
        yield Condition(row["fact"], dict(row.get("where", {})))


def _check_links(rules: dict[str, Rule]) -> None:
    for rule in rules.values():
        for key, names in (("supersedes", rule.supersedes), ("related", rule.doc.get("related", []))):
            for name in names:
                if name not in rules:
                    text = Path(rule.file).read_text(encoding="utf-8")
                    raise _error(Path(rule.file), text, key, f"{key} names an unknown rule: {name}", "use the id of an existing rule")


def _ordered(rules: list[Rule]) -> list[Rule]:
    """Rules that supersede others come first; their signatures are tried first."""
    below = {s for r in rules for s in r.supersedes}
    out = []
    for r in sorted(rules, key=lambda r: (r.id in below, -len(r.supersedes), r.id)):
        rank = 1 if r.id in below else 0
        signatures = tuple(Signature(s.id, s.rule, s.source, s.fact, s.pattern, s.sample, s.engine, rank, s.attrs) for s in r.signatures)
        out.append(Rule(**{**{f: getattr(r, f) for f in r.__dataclass_fields__}, "signatures": signatures}))
    return out


def _predicates(path: Path) -> dict[str, Predicate]:
    return {
        name: Predicate(name, tuple(p["subject"]), bool(p["ends_subject"]), p["can_initiate"], p["certainty"], p["says"], p["asks_for"], p.get("names", "rank"), p.get("asks_why", ""))
        for name, p in _toml(path).items()
    }


def _toml(path: Path) -> dict[str, Any]:
    with path.open("rb") as f:
        return tomllib.load(f)


def _keys(table: dict[str, Any], allowed: frozenset[str], path: Path, text: str, inside: str, number: int = 0) -> None:
    for key in table:
        if key not in allowed:
            raise _error(path, text, key, f"unknown key {key}{' in ' + inside if inside else ''}", f"known keys: {', '.join(sorted(allowed))}", number)


def _one_of(value: str, allowed: frozenset[str], key: str, path: Path, text: str, number: int = 0) -> None:
    if value not in allowed:
        raise _error(path, text, key, f"{key} is {value!r}", f"one of {', '.join(sorted(allowed))}", number)


def _error(path: Path, text: str, key: str, why: str, fix: str, number: int = 0) -> CorrelatorError:
    hits = [i for i, line in enumerate(text.splitlines(), 1) if key and re.match(rf"^\s*(?:\[+)?(?:\w+\.)?{re.escape(key)}\b", line)]
    line = hits[min(number, len(hits) - 1)] if hits else 1
    return CorrelatorError("rule cannot be loaded", where=f"{path}:{line}", why=why, help=fix)
