"""The sign-constrained logistic, its cross-validation and its reliability table."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.calibration.samples import Row

PRIOR = 0.02  # weight of the pull towards the coefficients of before: a feature that no error touched keeps its value


@dataclass(slots=True, frozen=True)
class Bin:
    """Cases whose held-out confidence lies in an interval: how many, mean confidence, share right."""

    low: float
    high: float
    cases: int
    mean: float
    right: float


def fit(rows: Sequence[Row], start: dict[str, float]) -> dict[str, float]:
    """Coefficients (``intercept`` among them) of least log loss; every feature can only lower the logit.

    Each group weighs the square root of its size: a fault kind with many variants must not drown the others.
    """
    import numpy as np
    from scipy.optimize import minimize

    names = [n for n in start if n != "intercept"]
    sizes: dict[str, int] = defaultdict(int)
    for r in rows:
        sizes[r.group] += 1
    x = np.array([[r.features.get(n, 0.0) for n in names] for r in rows])
    y = np.array([1.0 if r.right else 0.0 for r in rows])
    w = np.array([1 / math.sqrt(sizes[r.group]) for r in rows])
    w /= w.sum()
    origin = np.array([start["intercept"], *(start[n] for n in names)])

    def loss(c: np.ndarray) -> tuple[float, np.ndarray]:
        z = c[0] - x @ c[1:]
        p = 1 / (1 + np.exp(-z))
        residual = w * (p - y)
        pull = c - origin
        value = float(-(w * (y * np.log(p + 1e-12) + (1 - y) * np.log(1 - p + 1e-12))).sum() + PRIOR * (pull**2).mean())
        return value, np.concatenate([[residual.sum()], -(x * residual[:, None]).sum(axis=0)]) + 2 * PRIOR * pull / len(c)

    found = minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=[(0.0, 6.0)] + [(0.0, 8.0)] * len(names))
    return {"intercept": float(found.x[0]), **{n: float(v) for n, v in zip(names, found.x[1:], strict=True)}}


def predict(features: dict[str, float], coefficients: dict[str, float]) -> float:
    """Probability of one row."""
    logit = coefficients["intercept"] - sum(coefficients[n] * v for n, v in features.items() if n in coefficients)
    return 1 / (1 + math.exp(-logit))


def held_out(rows: Sequence[Row], start: dict[str, float], folds: int = 5, seed: int = 7) -> list[tuple[float, bool]]:
    """(confidence, right) of every row, from a model that never saw its group."""
    groups = sorted({r.group for r in rows})
    random.Random(seed).shuffle(groups)
    fold = {g: i % folds for i, g in enumerate(groups)}
    out = []
    for k in range(folds):
        coefficients = fit([r for r in rows if fold[r.group] != k], start)
        out += [(predict(r.features, coefficients), r.right) for r in rows if fold[r.group] == k]
    return out


def reliability(pairs: Sequence[tuple[float, bool]], edges: Sequence[float] = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0001)) -> list[Bin]:
    """The table: per interval of confidence, what came true."""
    out = []
    for low, high in zip(edges, edges[1:], strict=False):
        inside = [(p, ok) for p, ok in pairs if low <= p < high]
        if inside:
            out.append(Bin(low, min(1.0, high), len(inside), sum(p for p, _ in inside) / len(inside), sum(ok for _, ok in inside) / len(inside)))
    return out


def brier(pairs: Sequence[tuple[float, bool]]) -> float:
    """Mean squared error of the probabilities."""
    return sum((p - ok) ** 2 for p, ok in pairs) / len(pairs)
