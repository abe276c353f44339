"""Checks that every statement of a document resolves: quoted lines stand where they are cited, queries return rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from correlator.api import Job
from correlator.parsers.lines import strip_ansi
from correlator.parsers.opening import read_all

RECORD_LINES = 250  # lines that a record (an exit table with its tracebacks) may take


def unresolved(job: Job, logs: Path) -> list[str]:
    """What a job's document says without support in its files; empty when all of it resolves."""
    out: list[str] = []
    files: dict[str, list[str]] = {}

    def lines(path: str) -> list[str]:
        if path not in files:
            ref = SimpleNamespace(path=path, real_path=str(logs / path), member=None, span=None, size=0)
            data = read_all(ref, limit=1 << 30, problem=lambda *_: None)
            files[path] = [_plain(t) for t in data.decode("utf-8", "replace").split("\n")]
        return files[path]

    def cited(what: str, item: dict[str, Any]) -> None:
        path, line = item.get("path"), item.get("line")
        if path is None:
            return
        if not (logs / path).is_file() or line is None or not 1 <= line <= max(1, len(lines(path))):
            out.append(f"{what}: no line {path}:{line}")

    for incident in job.incidents:
        quotes = [*incident["evidence"], *(e for s in incident["suspects"] for e in s["evidence"])]
        for item in quotes:
            cited("evidence", item)
            if item["path"] is None:
                query = item["text"].split("  -- ")[0]
                if item["kind"] != "absence" or job.sql(query).num_rows == 0:
                    out.append(f"evidence without a line or rows: {item}")
            elif not _stands(item, lines(item["path"])):
                out.append(f"not at {item['path']}:{item['line']}: {item['text'][:120]!r}")
        for key in ("collateral", "why_graph"):
            for item in incident[key]:
                cited(key, item)
        for answer in incident["why_not"].values():
            for item in answer["reasons"]:
                cited("why_not", item)
        if incident["resume"]:
            cited("resume", incident["resume"])
        shown = {item["rank"] for item in quotes}
        if 0 < len(incident["initiating_ranks"]) <= 4 and incident["scope"] in ("rank", "ranks") and not set(incident["initiating_ranks"]) <= shown:
            out.append(f"named without evidence: {incident['initiating_ranks']}")
    lost = job.sql("SELECT count(*) FROM findings d LEFT JOIN facts f USING (fact_id) WHERE f.fact_id IS NULL").to_pylist()[0]
    lost |= {
        "events": job.sql(
            "SELECT count(*) n FROM facts f LEFT JOIN events e ON e.event_id = f.first_event_id WHERE f.first_event_id IS NOT NULL AND e.event_id IS NULL"
        ).to_pylist()[0]["n"]
    }
    out += [f"rows that point nowhere: {k}" for k, n in lost.items() if n]
    return out


def _stands(item: dict[str, Any], text: list[str]) -> bool:
    """A quotation is on its line (and, where it goes on, on the lines behind it); a record's figures are in the record."""
    at = item["line"] - 1
    words = item["text"]
    if item["kind"] == "absence":
        words = words.split(": ", 1)[1]
    block = " ".join(text[at : at + RECORD_LINES])
    if item["kind"] == "record":
        whole = words if len(words) < 400 else words.rsplit(None, 1)[0]  # a quotation is cut at 400 characters
        return all(n in block for n in re.findall(r"\d{2,}", whole))
    first, *rest = [_plain(t) for t in words.split("\n") if t.strip()] or [""]
    return first in text[at] and all(t in block for t in rest)


def _plain(text: str) -> str:
    """Without escapes of terminals and JSON collectors, and with single spaces."""
    text = strip_ansi(text)
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if value is not None:
            text = " ".join(_strings(value))
    return " ".join(text.split())


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [t for v in value.values() for t in _strings(v)]
    return [str(value)]
