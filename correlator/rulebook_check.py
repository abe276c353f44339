"""Runs the examples of rules through the whole engine: a rule is only as good as what it does to a job."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from correlator import engine
from correlator.rulebook import Rule, Rulebook, load
from correlator.rulebook.check import problems


@dataclass(slots=True)
class Report:
    """Outcome of a check."""

    lines: list[str] = field(default_factory=list)
    failed: int = 0

    @property
    def text(self) -> str:
        """Printed form."""
        return "\n".join(self.lines)


def check(folder: str) -> Report:
    """Loads the rules of a folder on top of the built-in ones and runs their examples.

    Raises:
        CorrelatorError: a rule cannot be loaded (file:line, why, help).
    """
    builtin = Path(folder).resolve() == (Path(__file__).parent / "rules" / "failures").resolve()
    book = load([] if builtin else [folder], prove=True)
    own = [r for r in book.rules if Path(r.file).resolve().is_relative_to(Path(folder).resolve())]
    report = Report()
    for rule in own:
        for number, example in enumerate(rule.examples):
            wrong, known = run_example(rule, example, book), example.get("known_miss")
            where = f"{rule.file}: example {number + 1} ({example.get('name', '')})"
            if wrong and known:
                report.lines.append(f"{where}: known miss: {known}")
            elif wrong or known:
                report.failed += 1
                report.lines.append(f"{where}: {wrong or 'passes now: remove known_miss'}")
    files = {r.file for r in own}
    wrong_rules = [p for p in problems(book) if p.split(":", 1)[0] in files]
    report.failed += len(wrong_rules)
    report.lines.extend(wrong_rules)
    report.lines.append(f"{len(own)} rules, {sum(len(r.examples) for r in own)} examples, {report.failed} failed")
    return report


def run_example(rule: Rule, example: dict[str, Any], book: Rulebook) -> str | None:
    """What is wrong with an example's outcome, None if it is as expected."""
    with tempfile.TemporaryDirectory(prefix="correlator-rule-") as tmp:
        logs = Path(tmp) / "logs"
        for name, content in example["files"].items():
            file = logs / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        _, diagnosis = engine.run([str(logs)], rules=book, store_path=str(Path(tmp) / "job.duckdb"))
    document = diagnosis.document
    expect = example.get("expect")
    primary = document["incidents"][document["primary"]] if document["incidents"] else None
    if expect == "silent":
        return None if primary is None or primary["rule"] != rule.id else f"not silent: {primary['summary']}"
    if primary is None:
        return "no incident"
    assert isinstance(expect, dict)
    if "initiating" in expect and primary["initiating_ranks"] != expect["initiating"]:
        return f"named {primary['initiating_ranks']} instead of {expect['initiating']}: {primary['summary']}"
    if "scope" in expect and primary["scope"] != expect["scope"]:
        return f"scope {primary['scope']} instead of {expect['scope']}: {primary['summary']}"
    if "failure_class" in expect and primary["failure_class"] != expect["failure_class"]:
        return f"class {primary['failure_class']} instead of {expect['failure_class']}"
    if "propagated" in expect and not set(expect["propagated"]) <= {c["rank"] for c in primary["collateral"]}:
        return f"collateral {[c['rank'] for c in primary['collateral']]} lacks some of {expect['propagated']}"
    if "scope" not in expect and primary["rule"] != rule.id and rule.failure_class != primary["failure_class"]:
        return f"rule {primary['rule']} instead of {rule.id}"
    return None
