"""The document keeps its schema and its invariants for every sample; the text report stays on one screen."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from correlator.api import open_job
from correlator.show import json as as_json
from correlator.show import markdown, text

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "correlator" / "show" / "schema.json").read_text(encoding="utf-8"))
SAMPLES = sorted(p.parent for p in (ROOT / "sample_logs").glob("*/expected.toml"))


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda p: p.name)
def document(request: pytest.FixtureRequest) -> dict:  # type: ignore[type-arg]
    with open_job(str(request.param / "logs")) as job:
        return json.loads(as_json.render(job.document))


def test_schema(document: dict) -> None:  # type: ignore[type-arg]
    jsonschema.validate(document, SCHEMA)


def test_a_fact_that_cannot_initiate_never_does(document: dict) -> None:  # type: ignore[type-arg]
    for incident in document["incidents"]:
        named = set(incident["initiating_ranks"])
        assert not named & {c["rank"] for c in incident["collateral"]}
        for rank, entry in incident["why_not"].items():
            assert (entry["role"] == "initiating") == (int(rank) in named)


def test_text_is_one_plain_screen(document: dict) -> None:  # type: ignore[type-arg]
    out = text.render(document, why_not=0)
    # only commands and paths, which must stay whole, may be longer than the screen
    assert all(len(line) <= 80 or " " not in line.strip() or "/" in line for line in out.splitlines())
    assert out.isprintable() or "\x1b" not in out


def test_markdown_quotes_cannot_break_out(document: dict) -> None:  # type: ignore[type-arg]
    out = markdown.render(document)
    assert out.count("```") % 2 == 0


def test_without_incident_one_line() -> None:
    with open_job(str(ROOT / "sample_logs" / "healthy-warnings" / "logs")) as job:
        out = text.render(job.document)
    assert out.startswith("No incident: the job completed")
    assert len(out.splitlines()) <= 4


@pytest.mark.parametrize(("numbers", "says"), [([3], "rank 3"), ([1, 0, 7, 3, 4, 5, 5], "ranks 0-1, 3-5, 7"), (range(16384), "ranks 0-16383")])
def test_ranks_are_compressed(numbers: list[int], says: str) -> None:
    assert text.ranks(numbers) == says


def test_collateral_is_grouped_with_the_longest_wait() -> None:
    rows = [{"rank": r, "via": "timed-out-waiting", "waited_ms": 600_000 + r, "path": f"r{r}.log", "line": 9} for r in range(6)]
    rows.append({"rank": 6, "via": "terminated", "waited_ms": None, "path": None, "line": None})
    assert text.collateral({"collateral": rows}) == ["ranks 0-5: timed-out-waiting, waited 600 s (r0.log:9)", "rank 6: terminated"]


def test_the_collective_shows_only_what_tells_ranks_apart() -> None:
    table = {
        "pg": "7",
        "description": "tp",
        "seq": 12,
        "op": "ALLREDUCE",
        "present": [0, 1, 2, 5],
        "absent": [3],
        "different": [{"ranks": [4], "what": "BROADCAST 1 Float"}],
        "unknown": [6, 7],
    }
    assert text.collective(table) == [
        "COLLECTIVE 12 of group 7 (tp): ALLREDUCE", "called it: ranks 0-2, 5", "never called it: rank 3", "called something else: rank 4 (BROADCAST 1 Float)", "not known: ranks 6-7",
    ]  # fmt: skip
    assert text.collective({**table, "absent": [], "different": []}) == text.collective(None) == []
    assert text.collective({**table, "seq": None, "op": None, "description": None})[0] == "COLLECTIVE of group 7"


def test_onset_shows_what_is_known() -> None:
    assert text.onset({"time": "2026-05-03T10:41:07.120345Z", "uncertainty_ms": 40, "step": 812}) == "2026-05-03T10:41:07.120Z +-40 ms at step 812"
    assert text.onset({"time": None, "uncertainty_ms": None, "step": None}) == ""


def test_hostile_lines_stay_quotations(document: dict) -> None:  # type: ignore[type-arg]
    """A log line can hold fences and markup of its own."""
    if not document["incidents"]:
        pytest.skip("no incident to quote")
    hostile = json.loads(json.dumps(document))
    incident = hostile["incidents"][hostile["primary"]]
    incident["evidence"] = [{"role": "initiating", "kind": "line", "rank": 0, "path": "a.log", "line": 1, "text": "x\n```\n# owned <b>\n````"}]
    incident["summary"] = "Rank 0 said [click](http://x) <script>"
    out = markdown.render(hostile)
    assert "`````text\nx\n```\n# owned <b>\n````\n`````" in out
    assert out.splitlines()[0] == r"## Rank 0 said \[click\](http://x) \<script\>"
