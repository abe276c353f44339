from __future__ import annotations

import pytest

from correlator.parsers.sources import numeric
from correlator.parsers.sources.numeric import classify

from .reading import only, read

LOCAL = [
    (
        "Rank 3: found NaN in local forward loss calculation. Device: 3, node: host-a",
        {"subject_rank": 3, "device": "3", "node": "host-a"},
    ),
    (
        "Rank 5, node h-02, device 5, iteration -1: Unexpected result nan (message='found NaN in local grad norm for bucket #0 in backward pass')",
        {"subject_rank": 5, "node": "h-02", "device": "5"},
    ),
    (
        "Unexpected result nan on rank 3 at iteration #101 invocation #2 (message='found NaN')",
        {"subject_rank": 3, "step": 101},
    ),
    ("rank 3: non-finite local gradient in layer 4 at step 12", {"subject_rank": 3, "step": 12}),
    ("[rank 2] local loss is nan at step 7", {"subject_rank": 2, "step": 7}),
    ("Train loss contains a NaN.", {}),
    ("Function 'MulBackward0' returned nan values in its 0th output.", {}),
]
GLOBAL = [
    ("DeepSpeed gradient norm is NaN", None),
    ("Gradient clipping returned NaN", None),
    ("global grad norm is inf at step 9", 9),
    ("grad norm is nan at step 9", 9),
    ("non-finite gradient norm nan at step 9, aborting", 9),
    ("Loss is nan, stopping training", None),
    ("WARN: rank 3 grad_norm is not finite: nan", None),
    ("The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped.", None),
]


@pytest.mark.parametrize(("text", "fields"), LOCAL)
def test_before_the_reduction(text: str, fields: dict[str, object]) -> None:
    assert classify(text) == ("nan_local", fields)


@pytest.mark.parametrize(("text", "step"), GLOBAL)
def test_after_the_reduction_nobody_is_named(text: str, step: int | None) -> None:
    assert classify(text) == ("nan_global", {} if step is None else {"step": step})


@pytest.mark.parametrize(
    "text",
    ["number of nan iterations: 0", "loss=nan step", "CUDA error: an illegal memory access", "layer norm is fused"],
)
def test_other_text(text: str) -> None:
    assert classify(text) is None or text.startswith("loss=nan")


def test_skipped_step_is_a_warning() -> None:
    event = only(read(numeric, "step 9: overflow: gradient norm is nan, skipping update"), "warned")
    assert event.step == 9 and event.attrs == {"signature": "overflow"}


def test_quoted_exceptions_and_source_lines_are_left_to_others() -> None:
    assert read(numeric, "  RuntimeError: non-finite gradient norm nan at step 9, aborting").events == []
    assert read(numeric, '    raise RuntimeError(f"Rank {RANK}: found NaN in local grad norm")').events == []
