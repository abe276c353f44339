"""Loads rules from TOML files; every error names file and line, says why and what to do."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from correlator.errors import CorrelatorError
from correlator.parsers.catalogue import Signature, messages
from correlator.rulebook.model import Predicate, Rule, Rulebook
from correlator.rulebook.parse import SOURCES, parse_rule, rule_error
from correlator.rulebook.prebuilt import Prebuilt


def load(extra: Sequence[str] = (), *, builtin: bool = True, prove: bool = False) -> Rulebook:
    """The built-in rulebook with the rules of further folders added (an equal id replaces).

    Args:
        extra: folders or files. builtin: False for the further folders alone.
        prove: try the patterns of built-in rules on their samples too; those of further folders always are.

    Raises:
        CorrelatorError: a file cannot be read, or a rule is wrong (file:line, why, help).
    """
    root = Path(str(resources.files("correlator.rules") / "predicates.toml")).parent
    predicates = _predicates(root / "predicates.toml")
    classes = {name: category for category, names in _toml(root / "taxonomy.toml").items() for name in names}
    rules: dict[str, Rule] = {}
    folders = [root / "failures"] if builtin else []
    folders += [Path(e) for e in extra]
    for folder in folders:
        texts = {file: _read(file) for file in _files(folder)}
        ours = builtin and folder == folders[0] and not prove
        proven = Prebuilt({file.name: text for file, text in texts.items()}) if ours else None
        seen: dict[str, str] = {}
        for file, text in texts.items():
            rule = parse_rule(text, str(file), predicates, classes, proven=proven)
            if rule.id in seen:
                raise rule_error(file, text, f"two rules have the id {rule.id}", f"the other is {seen[rule.id]}", "id")
            seen[rule.id] = str(file)
            rules[rule.id] = rule
    _check_links(rules)
    return Rulebook(_ordered(list(rules.values())), predicates, classes, _messages(root / "messages", predicates))


def _check_links(rules: dict[str, Rule]) -> None:
    for rule in rules.values():
        for key, table, names in (("supersedes", "", rule.supersedes), ("related", "doc", rule.doc.get("related", []))):
            for name in names:
                if name not in rules:
                    path = Path(rule.file)
                    raise rule_error(
                        path,
                        _read(path),
                        f"{key} names an unknown rule: {name}",
                        "use the id of an existing rule",
                        key,
                        table,
                    )


def _ordered(rules: list[Rule]) -> list[Rule]:
    """Rules that supersede others come first; their signatures are tried first."""
    below = {s for r in rules for s in r.supersedes}
    ordered = sorted(rules, key=lambda r: (r.id in below, -len(r.supersedes), r.id))
    return [replace(r, signatures=tuple(replace(s, rank=int(r.id in below)) for s in r.signatures)) for r in ordered]


def _messages(folder: Path, predicates: dict[str, Predicate]) -> list[Signature]:
    try:
        found = messages(folder)
    except ValueError as exc:
        where, line, why = str(exc).split(":", 2)
        raise CorrelatorError("message table cannot be loaded", where=f"{where}:{line}", why=why.strip(), help="see rules/README.md") from exc
    for s in found:
        if s.fact not in predicates or s.source not in SOURCES:
            raise CorrelatorError(
                "message table cannot be loaded",
                where=s.rule,
                why=f"message {s.id} has an unknown source or predicate",
                help="see rules/predicates.toml",
            )
    return found


def _files(folder: Path) -> list[Path]:
    if not folder.exists():
        raise CorrelatorError(
            "rules folder not found",
            where=str(folder),
            why="it does not exist",
            help="give the folder that holds your .toml rules",
        )
    return sorted(folder.rglob("*.toml")) if folder.is_dir() else [folder]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise CorrelatorError("rule cannot be read", where=str(path), why=str(exc), help="a rule is a readable UTF-8 text file") from exc


def _predicates(path: Path) -> dict[str, Predicate]:
    return {
        name: Predicate(
            name,
            tuple(p["subject"]),
            bool(p["ends_subject"]),
            p["can_initiate"],
            p["certainty"],
            p["says"],
            p["asks_for"],
            p.get("names", "rank"),
        )
        for name, p in _toml(path).items()
    }


def _toml(path: Path) -> dict[str, Any]:
    with path.open("rb") as f:
        return tomllib.load(f)
