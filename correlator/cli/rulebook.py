"""``correlator rules`` and ``correlator score``."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from correlator.cli import common
from correlator.errors import CorrelatorError

_SECTIONS = (
    ("In one line", "summary"),
    ("Mechanism", "mechanism"),
    ("Symptoms", "symptoms"),
    ("Confirm", "confirm"),
    ("Fix", "fix"),
    ("Verify", "verify"),
    ("Do not", "do_not"),
    ("Prevent", "prevent"),
    ("False positives", "false_positives"),
    ("References", "references"),
    ("Related", "related"),
)

app = typer.Typer(help="The rulebook.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_rules(rules: common.Rules = None) -> None:
    """One line a failure: id, class, phase, title."""
    from correlator.rulebook import load

    book = load(list(rules or ()))
    width = max(len(r.id) for r in book.rules)
    for r in sorted(book.rules, key=lambda r: (r.category, r.id)):
        typer.echo(f"{r.id:<{width}}  {r.failure_class:<24} {r.phase:<17} {r.title}")


@app.command("show")
def show_rule(rule_id: Annotated[str, typer.Argument(help="Rule id.", metavar="ID")], rules: common.Rules = None) -> None:
    """Everything about one failure: mechanism, symptoms, how to confirm, fix, verify."""
    from correlator.rulebook import load

    book = load(list(rules or ()))
    rule = book.rule(rule_id)
    if rule is None:
        near = [r.id for r in book.rules if rule_id in r.id]
        raise CorrelatorError(f"no rule {rule_id}", where="rules", why="unknown id" + (f"; similar: {', '.join(near)}" if near else ""), help="correlator rules list")
    d = rule.doc
    out = [f"{rule.title}  [{rule.id}]", f"class {rule.failure_class}, severity {rule.severity}, phase {rule.phase}, systems {', '.join(rule.systems)}", ""]
    for title, key in _SECTIONS:
        value = d.get(key)
        if not value:
            continue
        out.append(title.upper())
        for item in value if isinstance(value, list) else [value]:
            out += textwrap.wrap(
                " ".join(str(item).split()),
                80,
                initial_indent="  - " if isinstance(value, list) else "  ",
                subsequent_indent="    " if isinstance(value, list) else "  ",
                break_long_words=False,
            )
        out.append("")
    typer.echo("\n".join(out))


@app.command("check")
def check_rules(folder: Annotated[str, typer.Argument(help="Folder with rules.", metavar="DIR")]) -> None:
    """Load the rules of a folder and run their examples."""
    from correlator.rulebook_check import check

    report = check(folder)
    typer.echo(report.text)
    if report.failed:
        raise typer.Exit(1)


def score(
    corpus: Annotated[str, typer.Argument(help="Folder with labelled incidents.", metavar="CORPUS")],
    only: Annotated[str | None, typer.Option("--only", help="Cases whose name holds this.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the sentence of every wrong case.")] = False,
    views: Annotated[bool, typer.Option("--views", help="Also hand every case over differently (joined, labelled, renamed ...): the verdict must stay.")] = False,
    rules: common.Rules = None,
) -> None:
    """Measure the engine on labelled incidents."""
    from correlator import engine
    from correlator import score as scorer

    typer.echo(scorer.run(corpus, only=only, verbose=verbose, rules=engine.rulebook(tuple(rules or ())), views=views)["text"])
