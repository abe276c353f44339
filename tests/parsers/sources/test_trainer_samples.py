"""Every sample of the trainer, DeepSpeed, identity and milestone parsers gives what it promises."""

from __future__ import annotations

import pytest

from correlator.parsers.schema import Sample
from correlator.parsers.sources import activity, deepspeed, identity_lines, launch_deepspeed, numeric, steps

from .reading import read

MODULES = (activity, deepspeed, identity_lines, launch_deepspeed, numeric, steps)
CASES = [pytest.param(m, s, id=f"{m.NAME}-{i}") for m in MODULES for i, s in enumerate(m.SAMPLES)]


@pytest.mark.parametrize(("module", "sample"), CASES)
def test_sample(module, sample: Sample) -> None:
    out = read(module, sample.text)
    if sample.kind == "step":
        (row,) = out.steps
        found = {k: getattr(row, k) for k in sample.expect}
    else:
        (event,) = [e for e in out.events if e.kind == sample.kind]
        found = {k: event.attrs[k] if k in event.attrs else getattr(event, k, None) for k in sample.expect}
    assert found == sample.expect


@pytest.mark.parametrize(("module", "sample"), CASES)
def test_sample_holds_a_token(module, sample: Sample) -> None:
    assert all(any(t in text for t in module.TOKENS) for text in sample.text.split("\n")[:1])
