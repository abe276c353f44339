"""Invariants of the engine as properties of simulated incidents (DESIGN 7)."""

from __future__ import annotations

import tempfile
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.simulator import Scenario, scenario
from tests.simulator.faults import EXCEPTIONS, FAULTS
from tests.simulator.judging import Verdict, diagnose

if TYPE_CHECKING:
    from collections.abc import Iterator

PREDICATES = tomllib.loads((Path(__file__).parents[2] / "rules" / "predicates.toml").read_text(encoding="utf-8"))
#: kinds whose initiator is known by its own words or an exit record, not by who is silent
SPOKEN = sorted([*EXCEPTIONS, "oom-kill", "sigkill"])
seeds = st.integers(0, 100_000)
any_kind = st.sampled_from(sorted(FAULTS))
quick = settings(max_examples=2, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@contextmanager
def written(case: Scenario) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield case.write(Path(folder))


def run(case: Scenario) -> Verdict:
    with written(case) as logs:
        return diagnose([logs])


# ---- the properties --------------------------------------------------------------------------------------------------
def order_of_input(seed: int, kind: str, random: object) -> None:
    """Files may come in any order."""
    case = scenario(seed, 8, kind)
    with written(case) as logs:
        whole = diagnose([logs])
        files = sorted(p for p in logs.rglob("*") if p.is_file())
        assume(len(files) > 1)
        random.shuffle(files)  # type: ignore[attr-defined]
        shuffled = diagnose(files)
    assert shuffled.answer() == whole.answer(), case.describe()
    assert (shuffled.primary or {}).get("confidence") == (whole.primary or {}).get("confidence"), case.describe()


def small_skew(seed: int, kind: str, ms: int) -> None:
    """A skew inside what clocks are known to be wrong by changes nothing."""
    case = scenario(seed, 16, kind)
    assume(len(case.job.hosts) > 1)
    assert run(scenario(seed, 16, kind, shift={1: ms / 1000})).answer() == run(case).answer(), case.describe()


def wrong_clock(seed: int, kind: str, seconds: int) -> None:
    """A clock that is minutes wrong changes nothing that rests on collectives, steps or the order in a process, and never makes a wrong name."""
    case = scenario(seed, 16, kind, loss="")
    assume(len(case.job.hosts) > 1)
    before, after = run(case), run(scenario(seed, 16, kind, loss="", shift={1: float(seconds)}))
    if not any(basis == "clock" for v in (before, after) for (basis,) in v.tables["bases"]):
        assert after.answer() == before.answer(), case.describe()
    named = set(after.primary["initiating_ranks"]) if after.primary else set()
    assert named <= set(case.label["initiating_ranks"]) | set(case.label.get("acceptable_ranks", [])), case.describe()


def irrelevant_file(seed: int, kind: str, pick: int) -> None:
    """The log of one collateral rank more or less does not move a verdict that rests on the initiator's words or exit."""
    case = scenario(seed, 16, kind, loss="")
    own = [p for p in sorted(case.files) if any(p.endswith((f"rank_{r}.log", f"rank{r}.log", f"-{r}.out")) for r in range(16) if r not in case.truth.ranks)]
    assume(len(own) > 2 and case.label["rank_answerable"])
    before = run(case)
    del case.files[own[pick % len(own)]]
    after = run(case)
    assert after.answer()[:2] == before.answer()[:2], case.describe()


def healthy_rank(seed: int, kind: str) -> None:
    """A further rank that only made progress changes nothing."""
    case = scenario(seed, 8, kind, loss="")
    assume(case.layout == "per-rank" and case.style in ("asctime", "logger", "iso") and case.label["rank_answerable"])
    before = run(case)
    model = next(r for r in range(8) if r not in case.truth.ranks and r != 0)
    text = case.files[f"rank_{model}.log"].decode()
    lines = [line.replace(f"[Rank {model}]", "[Rank 8]").replace(f"rank={model}", "rank=8") for line in text.split("\n") if " step " in line]
    assume(len(lines) > 2)
    case.files["rank_8.log"] = ("\n".join(lines) + "\n").encode()
    assert run(case).answer() == before.answer(), case.describe()


def less_evidence(seed: int, kind: str, pick: int) -> None:
    """Without some of the evidence the same answer is never given with more confidence."""
    case = scenario(seed, 8, kind, loss="")
    assume(len(case.files) > 2)
    before = run(case)
    del case.files[sorted(case.files)[pick % len(case.files)]]
    assume(any(data.strip() for data in case.files.values()))
    after = run(case)
    if before.primary and after.primary and after.primary["initiating_ranks"] and after.answer()[:2] == before.answer()[:2]:
        assert after.primary["confidence"] <= before.primary["confidence"] + 1e-9, case.describe()


def effects_never_initiate(seed: int, kind: str) -> None:
    """What can only be an effect is in no verdict the beginning; and every fact of a rank that stands has a place in the verdict."""
    case = scenario(seed, 8, kind)
    verdict = run(case)
    for predicate, _, _ in verdict.tables["initiating"]:
        assert PREDICATES[predicate]["can_initiate"] != "no", (predicate, case.describe())


def every_failed_rank_is_placed(seed: int, kind: str) -> None:
    """Each rank with a standing effect is collateral of the verdict, named, suspected, or listed as unexplained."""
    case = scenario(seed, 8, kind)
    verdict = run(case)
    attempts = {i["attempt"] for i in verdict.document["incidents"]}
    left = [row for row in verdict.tables["effects"] if row[3] in attempts and PREDICATES[row[1]]["ends_subject"]]
    assert left == [], case.describe()


@given(seeds, any_kind, st.randoms(use_true_random=False))
@quick
def test_order_of_input(seed: int, kind: str, random: object) -> None:
    order_of_input(seed, kind, random)


@given(seeds, any_kind, st.integers(-200, 200))
@quick
def test_small_skew(seed: int, kind: str, ms: int) -> None:
    small_skew(seed, kind, ms)


@given(seeds, any_kind, st.sampled_from((-3600, -420, 95, 900, 19800)))
@quick
def test_wrong_clock(seed: int, kind: str, seconds: int) -> None:
    wrong_clock(seed, kind, seconds)


@given(seeds, st.sampled_from(SPOKEN), st.integers(0, 100))
@quick
def test_irrelevant_file(seed: int, kind: str, pick: int) -> None:
    irrelevant_file(seed, kind, pick)


@given(seeds, st.sampled_from(SPOKEN))
@quick
def test_healthy_rank(seed: int, kind: str) -> None:
    healthy_rank(seed, kind)


@given(seeds, any_kind, st.integers(0, 100))
@quick
def test_less_evidence(seed: int, kind: str, pick: int) -> None:
    less_evidence(seed, kind, pick)


@given(seeds, any_kind)
@quick
def test_effects_never_initiate(seed: int, kind: str) -> None:
    effects_never_initiate(seed, kind)


@given(seeds, any_kind)
@quick
def test_every_failed_rank_is_placed(seed: int, kind: str) -> None:
    every_failed_rank_is_placed(seed, kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "arguments"),
    [
        (order_of_input, (seeds, any_kind, st.randoms(use_true_random=False))),
        (small_skew, (seeds, any_kind, st.integers(-200, 200))),
        (wrong_clock, (seeds, any_kind, st.sampled_from((-3600, -420, 95, 900, 19800)))),
        (irrelevant_file, (seeds, st.sampled_from(SPOKEN), st.integers(0, 100))),
        (healthy_rank, (seeds, st.sampled_from(SPOKEN))),
        (less_evidence, (seeds, any_kind, st.integers(0, 100))),
        (effects_never_initiate, (seeds, any_kind)),
        (every_failed_rank_is_placed, (seeds, any_kind)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_many_times(check: object, arguments: tuple) -> None:
    many(given(*arguments)(check))()  # type: ignore[arg-type]
