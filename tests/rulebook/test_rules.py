"""Every rule loads, is complete, and does in the whole engine what its examples say."""

from __future__ import annotations

import pytest

from correlator.rulebook import Rule, load
from correlator.rulebook_check import run_example

BOOK = load(prove=True)
EXAMPLES = [(r, e) for r in BOOK.rules for e in r.examples]
NAMED = [
    "zero3-stale-sync-clipping", "overlap-comm-contiguous-gradients-nan", "watchdog-shape-mismatch", "tensor-parallel-rng-divergence", "xid-13-graphics-exception",
    "adam-epsilon-underflow-fp16", "gradient-explosion",
]  # fmt: skip


@pytest.mark.parametrize(("rule", "example"), EXAMPLES, ids=[f"{r.id}-{i}" for i, (r, _) in enumerate(EXAMPLES)])
def test_example(rule: Rule, example: dict) -> None:  # type: ignore[type-arg]
    wrong = run_example(rule, example, BOOK)
    if example.get("known_miss"):
        assert wrong, "passes now: remove known_miss"
        pytest.xfail(example["known_miss"])
    assert wrong is None


def test_enough_rules_for_every_class() -> None:
    assert len(BOOK.rules) >= 40
    covered = {r.failure_class for r in BOOK.rules}
    assert set(BOOK.classes) - covered <= {"unknown"}


@pytest.mark.parametrize("rule", BOOK.rules, ids=lambda r: r.id)
def test_rule_is_complete(rule: Rule) -> None:
    for key in ("summary", "mechanism", "symptoms", "confirm", "fix", "verify", "references"):
        assert rule.doc.get(key), f"{rule.id} lacks {key}"
    assert any(e.get("expect") == "silent" for e in rule.examples) or rule.maturity != "stable"
    assert any(e.get("expect") != "silent" for e in rule.examples)


@pytest.mark.parametrize("rule_id", NAMED)
def test_the_failures_asked_for_by_name(rule_id: str) -> None:
    rule = BOOK.rule(rule_id)
    assert rule is not None
    assert rule.doc["do_not"]
    assert rule.doc["prevent"]


def test_zero3_defaults_alone_are_no_alarm() -> None:
    rule = BOOK.rule("zero3-stale-sync-clipping")
    assert rule is not None
    assert rule.root
    assert "overlap_comm" not in " ".join(rule.config)


def test_every_effect_without_a_cause_has_an_entry() -> None:
    assert {r.failure_class for r in BOOK.rules} == set(BOOK.classes)


def test_debugging_settings_are_never_a_fix() -> None:
    """A setting that only shows more may stand under confirm or do_not; a fix that names one must say that it is none."""
    for rule in BOOK.rules:
        for setting in ("NCCL_DEBUG", "CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "TORCH_CUDA_SANITIZER"):
            assert setting not in rule.doc["fix"], f"{rule.id} offers {setting} as a fix"
