"""What loading leaves out because it costs time: is a rulebook portable, reachable, unambiguous and complete?

Loading checks what would break a diagnosis. This checks what would silently weaken one: a pattern that only Python can
run, a signature whose lines never pass the first search, two signatures that disagree about one line, SQL that does
not run (the judge skips such a rule), an entry that leaves a reader alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources

from correlator.parsers.catalogue import Signature
from correlator.rulebook.model import Rule, Rulebook

# What a person on call needs of every entry.
NEEDED = ("summary", "mechanism", "symptoms", "confirm", "fix", "verify", "references")


def problems(book: Rulebook) -> list[str]:
    """``file: what is wrong`` for everything found; empty for a good rulebook."""
    rule_of = {r.id: r for r in book.rules}
    runs = _sql_check()
    found: list[str] = []
    for rule in book.rules:
        found += [f"{rule.file}: {why}" for why in (*_incomplete(rule), *_unexplained(rule))]
        if rule.sql and (why := runs(rule.sql)):
            found.append(f"{rule.file}: diagnosis.sql does not run: {why}")
    for s in book.catalogue.signatures:
        where = rule_of[s.rule].file if s.rule in rule_of else s.rule
        found += [f"{where}: signature {s.id}: {why}" for why in (*_not_portable(s), *_unreachable(s, book), *_contested(s, book))]
    return found


def _incomplete(rule: Rule) -> Iterator[str]:
    for key in NEEDED:
        if not rule.doc.get(key):
            yield f"doc.{key} is missing"
    if len(str(rule.doc.get("summary", "")).strip().splitlines()) > 1:
        yield "doc.summary is longer than one line"
    if rule.maturity == "stable" and all(e["expect"] == "silent" for e in rule.examples):
        yield "a stable rule needs an example that it fires on"


def _unexplained(rule: Rule) -> Iterator[str]:
    """A rule that names itself as its relative, or supersedes itself, would vanish from the verdict."""
    if rule.id in rule.supersedes:
        yield "it supersedes itself"
    if rule.id in rule.doc.get("related", []):
        yield "it is related to itself"


def _not_portable(signature: Signature) -> Iterator[str]:
    """Patterns also run inside polars, whose engine (Rust regex) has no look-around and no back-references."""
    if signature.engine == "regex":
        return
    import polars as pl

    try:
        pl.Series([""]).str.contains(signature.pattern)
    except pl.exceptions.ComputeError as exc:
        yield f"the pattern is not portable to Rust regex ({str(exc).splitlines()[-1]}); rewrite it or set engine"


def _unreachable(signature: Signature, book: Rulebook) -> Iterator[str]:
    """Lines are first found by literals; a line that holds none of them is never looked at."""
    from correlator.parsers.pipeline import GENERIC_TOKENS

    if signature.source in ("python", "nccl") or not signature.sample:
        return
    if not any(token in signature.sample for token in (*GENERIC_TOKENS, *book.catalogue.tokens)):
        yield "its sample holds no literal of the first search: give the pattern a literal of four characters"


def _contested(signature: Signature, book: Rulebook) -> Iterator[str]:
    """One message, one owner: another signature may win, but must not say something else."""
    if not signature.sample:
        return
    hit = book.catalogue.match(signature.source, signature.sample)
    if hit is None:
        yield "it does not match its own sample"
    elif hit.predicate != signature.fact:
        yield f"its sample means {hit.predicate} to {hit.attrs['rule']}, not {signature.fact}"


def _sql_check() -> Callable[[str], str | None]:
    """A function that plans a rule's SQL on empty tables and returns the database's complaint."""
    import duckdb

    con = duckdb.connect()
    con.execute((resources.files("correlator") / "sql" / "tables.sql").read_text(encoding="utf-8"))

    def run(sql: str) -> str | None:
        try:
            con.execute(sql.replace("$root", "0")).fetchall()
        except duckdb.Error as exc:
            return str(exc).splitlines()[0]
        return None

    return run
