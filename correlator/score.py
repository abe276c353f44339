"""Scores the engine on labelled incidents: ranks, classes, wrong names, false alarms, calibration, baselines."""

from __future__ import annotations

import re
import tempfile
import time
import tomllib
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from correlator.errors import CorrelatorError
from correlator.views import files_of
from correlator.views import views as make_views


@dataclass(slots=True)
class Result:
    """Outcome of one case, by the rules of the label format."""

    case: str
    answerable: bool
    incident: bool
    rank_right: bool
    class_right: bool
    wrong_name: bool
    false_alarm: bool
    undetected: bool
    crash: bool
    named: list[int]
    expected: list[int]
    scope: str
    failure_class: str
    expected_class: str
    confidence: float
    origin: str
    summary: str
    seconds: float


@dataclass(slots=True)
class Change:
    """A verdict that another view of the same logs changed."""

    case: str
    view: str
    was: str
    now: str


def cases(corpus: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """(name, logs directory, label) of every case below a folder."""
    for label in sorted(corpus.rglob("expected.toml")):
        with label.open("rb") as f:
            yield label.parent.name, label.parent / "logs", tomllib.load(f)


def judge_case(document: dict[str, Any] | None, label: dict[str, Any], name: str, seconds: float) -> Result:
    """Compares one document with its label."""
    incidents = document["incidents"] if document else []
    primary = incidents[document["primary"]] if document and incidents else None
    named = list(primary["initiating_ranks"]) if primary else []
    expected = list(label.get("initiating_ranks", []))
    acceptable = label.get("acceptable_ranks")
    answerable = bool(label.get("rank_answerable", True))
    is_incident = bool(label.get("incident", True))
    classes = list(label.get("acceptable_classes") or [label.get("failure_class")])
    got_class = primary["failure_class"] if primary else "none"
    allowed = set(expected) | set(acceptable or [])
    node_wide = len(expected) > 1
    if not is_incident:
        rank_right = class_right = primary is None
        wrong = False
    else:
        if not answerable:
            rank_right = not named or (acceptable is not None and set(named) <= set(acceptable) and set(expected) <= set(named))
        else:
            exact = set(named) == set(expected) or (node_wide and bool(named) and set(named) <= set(expected))
            rank_right = (
                exact
                or (acceptable is not None and set(named) == set(acceptable))
                or (acceptable is not None and bool(named) and node_wide and set(named) <= set(acceptable))
            )
        wrong = bool(set(named) - allowed)
        class_right = got_class in classes
        if not label.get("class_answerable", True) and primary:
            class_right = class_right or got_class.startswith("unknown") or primary["class_confidence"] < 0.5
        if primary is None:
            rank_right = class_right = False
    return Result(
        case=name, answerable=answerable and is_incident, incident=is_incident, rank_right=rank_right, class_right=class_right, wrong_name=wrong and is_incident,
        false_alarm=not is_incident and primary is not None, undetected=is_incident and primary is None, crash=document is None, named=named,
        expected=expected, scope=primary["scope"] if primary else "-", failure_class=got_class, expected_class=str(label.get("failure_class")),
        confidence=primary["confidence"] if primary else 0.0, origin=str(label.get("fault") or label.get("parent") or label.get("id")),
        summary=primary["summary"] if primary else "", seconds=seconds,
    )  # fmt: skip


def run(corpus: str, *, only: str | None = None, verbose: bool = False, rules: Any = None, views: bool = False) -> dict[str, Any]:
    """Scores every case below ``corpus``; with ``views`` also each of its views that loses nothing.

    Returns:
        ``results`` (list of Result), ``changes`` (list of Change), ``summary`` (figures), ``text`` (the printed table).

    Raises:
        CorrelatorError: the folder holds no labelled incident.
    """
    root = Path(corpus)
    found = [c for c in cases(root) if only is None or only in c[0]] if root.is_dir() else []
    if not found:
        raise CorrelatorError("no labelled incidents found", where=corpus, why="there is no expected.toml below it", help="see the label format in docs/architecture.md")
    results: list[Result] = []
    changes: list[Change] = []
    viewed = 0
    baseline: dict[str, list[bool]] = defaultdict(list)
    for name, logs, label in found:
        started = time.perf_counter()
        with _diagnosed([str(logs)], rules, verbose) as (document, store_path):
            result = judge_case(document, label, name, time.perf_counter() - started)
            results.append(result)
            if views and document is not None and store_path is not None:
                for view, now in _views(logs, store_path, rules, verbose):
                    viewed += 1
                    if now != verdict_of(document):
                        changes.append(Change(name, view, verdict_of(document), now))
        if result.answerable:
            for key, rank in baselines(logs).items():
                baseline[key].append(rank is not None and rank in set(result.expected))
    summary = summarise(results, baseline)
    if views:
        summary |= {"views": viewed, "views_agree": round(1 - len(changes) / viewed, 4) if viewed else None}
    return {"results": results, "changes": changes, "summary": summary, "text": render(results, summary, verbose) + _render_changes(changes, viewed)}


@contextmanager
def _diagnosed(paths: list[str], rules: Any, verbose: bool) -> Iterator[tuple[dict[str, Any] | None, str | None]]:
    """The document and job file of a run; None for a crash."""
    from correlator import engine

    store_path: str | None = None
    try:
        try:
            store_path, diagnosis = engine.run(paths, rules=rules)
            document: dict[str, Any] | None = diagnosis.document
        except Exception:
            document = None
            if verbose:
                traceback.print_exc()
        yield document, store_path
    finally:
        if store_path:
            Path(store_path).unlink(missing_ok=True)


def _views(logs: Path, store_path: str, rules: Any, verbose: bool) -> Iterator[tuple[str, str]]:
    """(view, its verdict) of every view of a case."""
    for view, write in make_views(files_of(logs, store_path)).items():
        with tempfile.TemporaryDirectory(prefix="correlator-view-") as folder, _diagnosed(write(Path(folder)), rules, verbose) as (document, _):
            yield view, verdict_of(document)


def verdict_of(document: dict[str, Any] | None) -> str:
    """What must not depend on how the logs were handed over: scope, ranks and class of the primary incident."""
    if document is None:
        return "crash"
    if not document["incidents"]:
        return "no incident"
    primary = document["incidents"][document["primary"]]
    return f"{primary['scope']} {primary['initiating_ranks']} {primary['failure_class']}"


def _render_changes(changes: list[Change], viewed: int) -> str:
    if not viewed:
        return ""
    lines = [f"\nviews that lose nothing   {viewed}, same verdict {_pct(1 - len(changes) / viewed)}"]
    lines += [f"  {c.case:<34} {c.view:<13} {c.was}  ->  {c.now}" for c in changes]
    return "\n".join(lines)


def baselines(logs: Path) -> dict[str, int | None]:
    """What simpler readings would name: torchelastic's root cause, the earliest error line, the loudest rank."""
    root_cause: list[tuple[str, int]] = []
    errors: list[tuple[str, str, int]] = []
    counts: dict[int, int] = defaultdict(int)
    stamp = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d+)?")
    for path in sorted(p for p in logs.rglob("*") if p.is_file()):
        try:
            text = path.read_bytes()[: 4 << 20].decode("utf-8", "replace")
        except OSError:
            continue
        m = re.search(r"Root Cause \(first observed failure\):\s*\n.*?time\s*:\s*(\S+).*?rank\s*:\s*(\d+)", text, re.DOTALL)
        if m:
            root_cause.append((m[1], int(m[2])))
        part = re.search(r"attempt_\d+/(\d+)/|rank_?(\d+)|log_(\d+)", str(path))
        own = next((int(g) for g in part.groups() if g), None) if part else None
        last = ""
        for line in text.splitlines():
            t = stamp.search(line)
            last = t.group() if t else last
            if re.search(r"Error|ERROR|\[E", line):
                tag = re.search(r"\[rank(\d+)\]|\[default(\d+)\]|^\s*(\d+): ", line)
                rank = next((int(g) for g in tag.groups() if g), own) if tag else own
                if rank is not None:
                    errors.append((last or "99", str(path), rank))
                    counts[rank] += 1
    return {
        "torchelastic root cause": min(root_cause)[1] if root_cause else None,
        "earliest error line": min(errors)[2] if errors else None,
        "most error lines": max(counts, key=lambda r: counts[r]) if counts else None,
    }


def summarise(results: list[Result], baseline: dict[str, list[bool]]) -> dict[str, Any]:
    """The figures of a run; shares are of the cases they speak of."""
    answerable = [r for r in results if r.answerable]
    silent = [r for r in results if r.incident and not r.answerable]
    incidents = [r for r in results if r.incident]
    healthy = [r for r in results if not r.incident]

    def share(rows: list[Result], field: str) -> float | None:
        return round(sum(getattr(r, field) for r in rows) / len(rows), 4) if rows else None

    bins = []
    for low, high in ((0.0, 0.5), (0.5, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.01)):
        rows = [r for r in incidents if low <= r.confidence < high and r.scope != "undetermined"]
        if rows:
            bins.append(
                {"from": low, "to": min(1.0, high), "cases": len(rows), "mean": round(sum(r.confidence for r in rows) / len(rows), 3), "right": share(rows, "rank_right")}
            )
    return {
        "cases": len(results), "answerable": len(answerable), "answerable_right": share(answerable, "rank_right"),
        "unanswerable": len(silent), "unanswerable_right": share(silent, "rank_right"), "class_right": share(incidents, "class_right"),
        "wrong_names": sum(r.wrong_name for r in results), "wrong_name_share": share(incidents, "wrong_name"), "healthy": len(healthy),
        "false_alarms": sum(r.false_alarm for r in results), "undetected": sum(r.undetected for r in results), "crashes": sum(r.crash for r in results),
        "baselines": {k: round(sum(v) / len(v), 4) for k, v in baseline.items() if v}, "calibration": bins,
        "seconds": round(sum(r.seconds for r in results), 1),
    }  # fmt: skip


def render(results: list[Result], summary: dict[str, Any], verbose: bool) -> str:
    """The printed report: figures, classes, calibration, and every case that is wrong."""
    lines = [
        f"{summary['cases']} cases, {summary['seconds']} s",
        f"answerable ranks right   {_pct(summary['answerable_right'])} of {summary['answerable']}",
        f"unanswerable not named   {_pct(summary['unanswerable_right'])} of {summary['unanswerable']}",
        f"class right              {_pct(summary['class_right'])}",
        f"wrong names              {summary['wrong_names']} ({_pct(summary['wrong_name_share'])})",
        f"false alarms             {summary['false_alarms']} of {summary['healthy']} healthy",
        f"undetected, crashes      {summary['undetected']}, {summary['crashes']}",
        "baselines on the answerable cases:",
        *(f"  {k:<24} {_pct(v)}" for k, v in summary["baselines"].items()),
        "confidence (scope and ranks right):",
        *(f"  {b['from']:.2f}-{b['to']:.2f}  {b['cases']:>4} cases  mean {b['mean']:.2f}  right {_pct(b['right'])}" for b in summary["calibration"]),
    ]
    by_class: dict[str, list[Result]] = defaultdict(list)
    for r in results:
        if r.incident:
            by_class[r.expected_class].append(r)
    lines.append("by class (cases, ranks right, class right):")
    for name, rows in sorted(by_class.items()):
        lines.append(f"  {name:<26} {len(rows):>4}  {sum(r.rank_right for r in rows):>4}  {sum(r.class_right for r in rows):>4}")
    wrong = [r for r in results if not (r.rank_right and r.class_right)]
    if wrong:
        lines.append("not right:")
        for r in wrong:
            marks = "".join(
                c for c, on in (("R", not r.rank_right), ("C", not r.class_right), ("W", r.wrong_name), ("F", r.false_alarm), ("U", r.undetected), ("X", r.crash)) if on
            )
            lines.append(f"  {marks:<4} {r.case:<34} {r.origin:<20} named {r.named} expected {r.expected} {'' if r.answerable else '(unanswerable) '}"
                         f"{r.scope}/{r.failure_class} wanted {r.expected_class} {r.confidence:.2f}")  # fmt: skip
            if verbose:
                lines.append(f"       {r.summary}")
    return "\n".join(lines)


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
