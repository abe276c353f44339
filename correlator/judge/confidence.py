"""Confidence: the probability that scope and ranks are right, from at most eight features.

The coefficients live in ``rules/confidence.toml`` with their provenance; every feature can only lower
the value of a perfect case (sign-constrained), so that deleting evidence never raises confidence.
"""

from __future__ import annotations

import math
import tomllib
from functools import lru_cache
from importlib import resources

NAMED_AT = 0.8  # right +1, silence 0, wrong -4: below this a name costs more than it is worth


@lru_cache(maxsize=1)
def coefficients() -> dict[str, float]:
    """Coefficient by feature name, ``intercept`` among them."""
    text = (resources.files("correlator.rules") / "confidence.toml").read_text(encoding="utf-8")
    return {k: float(v) for k, v in tomllib.loads(text)["coefficients"].items()}


def confidence(features: dict[str, float]) -> tuple[float, list[tuple[str, float, float]]]:
    """Probability and the contributions (feature, value, logit) behind it. Features are 0 (good) to 1 (bad)."""
    co = coefficients()
    parts = [("intercept", 1.0, co["intercept"])]
    parts += [(name, value, -abs(co[name]) * value) for name, value in features.items()]
    logit = sum(p[2] for p in parts)
    return 1 / (1 + math.exp(-logit)), parts
