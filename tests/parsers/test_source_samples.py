"""Every sample line of every log source yields the event it promises."""

from __future__ import annotations

from types import ModuleType

import pytest

from correlator.parsers import sources
from correlator.parsers.catalogue import Catalogue
from correlator.parsers.pipeline import parse_log
from correlator.parsers.schema import Sample

CASES = [(m, s) for m in sources.load() for s in getattr(m, "SAMPLES", ())]
REF_US = 1_796_000_000_000_000  # 30 November 2026


@pytest.mark.parametrize(("module", "sample"), CASES, ids=lambda v: getattr(v, "NAME", None))
def test_sample(module: ModuleType, sample: Sample) -> None:
    data = (sample.text + "\n").encode()
    part = parse_log(0, "x.log", iter([data]), len(data), Catalogue([]), REF_US)
    if sample.kind == "step":
        assert part.steps, sample.text
        found = {k: getattr(part.steps[0], k) for k in sample.expect}
        assert found == sample.expect
        return
    if sample.kind == "config":
        assert part.configs, sample.text
        return
    events = [e for e in part.events if e.kind == sample.kind]
    assert events, (sample.text, [e.kind for e in part.events])
    event = events[0]
    for key, value in sample.expect.items():
        have = event.attrs.get(key) if key in event.attrs else getattr(event, key, None)
        assert have == value, (key, have, value)


def test_every_source_has_a_sample() -> None:
    without = [m.NAME for m in sources.load() if not getattr(m, "SAMPLES", ())]
    assert without == []


def test_tokens_reach_every_sample() -> None:
    """A line that no literal finds would never be looked at in a big file."""
    for module, sample in CASES:
        assert any(t in sample.text for t in module.TOKENS), (module.NAME, sample.text)
