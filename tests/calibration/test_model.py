"""The confidence model's own mathematics, on rows whose truth is known."""

from __future__ import annotations

import random

import pytest

from correlator.judge.confidence import coefficients, confidence
from tests.calibration import model
from tests.calibration.samples import Row, _of

START = {"intercept": 3.0, "kind": 1.0, "coverage": 1.0}


def drawn(n: int, truth: dict[str, float], seed: int = 1) -> list[Row]:
    rng = random.Random(seed)
    out = []
    for i in range(n):
        features = {"kind": rng.choice((0.0, 0.5, 1.0)), "coverage": rng.choice((0.0, 1.0))}
        out.append(Row(f"c{i}", f"g{i % 40}", features, rng.random() < model.predict(features, truth)))
    return out


def test_fit_finds_the_coefficients_that_made_the_rows() -> None:
    truth = {"intercept": 2.5, "kind": 2.0, "coverage": 3.0}
    found = model.fit(drawn(4000, truth), START)
    for name, value in truth.items():
        assert found[name] == pytest.approx(value, abs=0.7), name


def test_no_feature_may_raise_confidence() -> None:
    rows = [Row(f"c{i}", f"g{i}", {"kind": float(i % 2), "coverage": 0.0}, i % 2 == 1 or i % 4 == 0) for i in range(200)]  # kind 1 is always right
    assert model.fit(rows, START)["kind"] == 0.0


def test_held_out_confidence_is_calibrated() -> None:
    pairs = model.held_out(drawn(3000, {"intercept": 2.0, "kind": 1.5, "coverage": 2.0}), START)
    assert len(pairs) == 3000
    for b in model.reliability(pairs):
        if b.cases > 100:
            assert abs(b.mean - b.right) < 0.08, b
    assert model.brier(pairs) < 0.2


def test_reliability_counts_every_pair_once() -> None:
    pairs = [(0.05, False), (0.3, True), (0.85, True), (0.95, True), (1.0, True)]
    bins = model.reliability(pairs)
    assert sum(b.cases for b in bins) == 5
    assert [(b.low, b.cases, b.right) for b in bins] == [(0.0, 1, 0.0), (0.3, 1, 1.0), (0.8, 1, 1.0), (0.95, 2, 1.0)]


def test_the_model_in_use_has_the_same_features() -> None:
    features = {name: 0.5 for name in coefficients() if name != "intercept"}
    assert len(features) <= 8
    assert confidence(features)[0] == pytest.approx(model.predict(features, coefficients()))


def test_a_candidate_below_the_threshold_counts_by_its_suspects() -> None:
    incident = {"features": [{"feature": "kind", "value": 1.0}], "initiating_ranks": [], "suspects": [{"rank": 3}]}
    document = {"primary": 0, "incidents": [incident]}
    (row,) = _of(document, {"initiating_ranks": [3], "fault": "hang", "parent": "x"}, "c1")
    assert row == Row("c1", "hang", {"kind": 1.0}, True)
    (row,) = _of(document, {"initiating_ranks": [2]}, "c1")
    assert not row.right
