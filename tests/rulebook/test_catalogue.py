"""Signatures: the literals that reject, the order that decides, the texts that each source sees."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.parsers.catalogue import Catalogue, Signature, anchors, literal
from correlator.rulebook import load

BOOK = load(prove=True)


def signature(name: str, pattern: str, *, source: str = "python", fact: str = "raised", rank: int = 0, engine: str = "re") -> Signature:
    return Signature(name, f"rule-{name}", source, fact, pattern, rank=rank, engine=engine)


@pytest.mark.parametrize(
    ("pattern", "held", "one_of"),
    [
        (r"CUDA out of memory\. Tried (\d+)", "CUDA out of memory. Tried ", ("CUDA out of memory. Tried ",)),
        (r"No space left|Disk quota exceeded", "", ("No space left", "Disk quota exceeded")),
        (r"^(?P<job>\d+).*?(?P<why>PREEMPTED|TIMEOUT)", "", ("PREEMPTED", "TIMEOUT")),
        (r"(?:abc)+d?", "abc", ("abc",)),
        (r"(?i)quota", "", ()),
        (r"(?i:disk )quota", "quota", ("quota",)),
        (r"(?:quota)?\d+", "", ()),
        (r"a|\d", "", ()),
        (r"(?<!foo)bar baz", "bar baz", ("bar baz",)),
    ],
)
def test_literals(pattern: str, held: str, one_of: tuple[str, ...]) -> None:
    assert literal(pattern) == held
    assert anchors(pattern) == one_of


@pytest.mark.parametrize("s", [s for s in BOOK.catalogue.signatures if s.sample], ids=lambda s: f"{s.rule}-{s.id}")
def test_a_match_holds_an_anchor(s: Signature) -> None:
    """Rejection by literal never loses a match."""
    assert not anchors(s.pattern) or any(a in s.sample for a in anchors(s.pattern))


@given(
    st.sampled_from(["ab|cd", "x(?:ab|cde)+y", "(?:ab)?cd", "ab{2,3}c", "[ab]cd|e"]),
    st.text(alphabet="abcdexy", max_size=12),
)
def test_anchors_are_sound(pattern: str, text: str) -> None:
    found = re.search(pattern, text)
    assert found is None or not anchors(pattern) or any(a in found[0] for a in anchors(pattern))


def test_the_specific_rule_wins_over_the_superseded_one() -> None:
    book = Catalogue([signature("general", "Error: disk full on /data", rank=1), signature("special", "disk full")])
    hit = book.match("python", "OSError: disk full on /data")
    assert hit is not None and hit.attrs["rule"] == "rule-special"


def test_the_longest_literal_wins_among_equals() -> None:
    book = Catalogue([signature("a", "full"), signature("b", "disk full", fact="io_failed")])
    hit = book.match("python", "disk full")
    assert hit is not None and (hit.predicate, hit.attrs["signature"]) == ("io_failed", "b")


def test_sources_see_their_own_texts() -> None:
    book = Catalogue(
        [
            signature("p", "boom"),
            signature("k", "boom", source="kernel", fact="device_fault"),
            signature("x", "bang", source="any"),
        ]
    )
    assert book.refine("python", "boom") == ("raised", {"rule": "rule-p", "signature": "p"})
    line = book.match_line("boom")
    assert line is not None and line.predicate == "device_fault"
    assert book.refine("nccl", "bang") == ("raised", {"rule": "rule-x", "signature": "x"})
    assert book.refine("nccl", "boom") is None
    assert set(book.tokens) == {"bang", "boom"}


def test_captures_become_attributes() -> None:
    book = Catalogue([signature("r", r"rank (?P<rank>\d+) lost(?: (?P<host>\S+))?")])
    assert book.refine("python", "rank 3 lost") == ("raised", {"rule": "rule-r", "signature": "r", "rank": "3"})


def test_a_pattern_that_runs_away_is_no_match() -> None:
    book = Catalogue([signature("slow", r"(?<!z)(a|aa)+$", engine="regex")])
    assert book.match("python", "a" * 4000 + "b") is None
    assert book.match("python", "aa") is not None


def test_it_travels_to_worker_processes() -> None:
    copy = pickle.loads(pickle.dumps(BOOK.catalogue))
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert copy.refine("python", text) == BOOK.catalogue.refine("python", text)
    assert copy.tokens == BOOK.catalogue.tokens
