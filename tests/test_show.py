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
