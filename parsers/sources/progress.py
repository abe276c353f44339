"""Progress bars (tqdm and its relatives): reading one, cutting it off what is glued behind it, naming its work.

A bar has no newline of its own, so the next writing of the process lands on its line. Layout:
tqdm's ``{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]`` (tqdm/std.py).
This module is shared by `steps` and by the pipeline; it is no log source (it has no ``parse``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from correlator.parsers.schema import Event, Line, Sink

_BAR = re.compile(
    r"(?P<n>\d+(?:\.\d+)?)(?P<nk>[kMG]?)/(?P<t>\d+(?:\.\d+)?|\?)(?P<tk>[kMG]?) "
    r"\[(?P<elapsed>\d[\d:]*)<(?P<left>[^,\]\[]*)(?:,\s*(?P<rate>[^,\]]*))?[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]"
)
_POSTFIX = re.compile(r"(?:,? ?[A-Za-z][\w./]*=[-+\w.]+)+(?=\s|$)")
_DICT = re.compile(r"\s*\{['\"]\w+['\"]: [^{}]*\}")
_TITLE = re.compile(r"([^\r\n|]*?):?\s*\d{1,3}%")
_RATE = re.compile(r"(?P<v>[\d.]+)(?P<u>it/s|s/it|\w*s?/s|s/\w+)")
_K = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_WORK = (
    ("evaluation", re.compile(r"(?i)\b(?:eval|valid|predict|test|sanity check|generat)")),
    ("preparing data", re.compile(r"(?i)token|^map\b|filter|convert|preprocess|group|packing|grouping|split|dataset|examples")),
    ("downloading", re.compile(r"(?i)download|fetch|upload")),
    ("loading a model", re.compile(r"(?i)load|shard|checkpoint|pipeline comp|weights|resolving")),
    ("compiling", re.compile(r"(?i)compil|captur|graph|warm")),
)  # fmt: skip


@dataclass(slots=True, frozen=True)
class Bar:
    """One state of a progress bar. ms_each: smoothed milliseconds per step; work: None for a training bar."""

    title: str
    n: int
    total: int | None
    elapsed_s: float
    ms_each: float | None
    work: str | None
    end: int  # index behind the bar in the text


def find_bar(text: str) -> Bar | None:
    """First progress bar of a text."""
    m = _BAR.search(text)
    if m is None:
        return None
    head = text[: m.start()]
    t = _TITLE.match(head)
    title = (t[1] if t else head.split("|")[0]).strip()
    rate = m["rate"] or ""
    total = None if m["t"] == "?" else int(float(m["t"]) * _K[m["tk"]])
    return Bar(
        title, int(float(m["n"]) * _K[m["nk"]]), total, _seconds(m["elapsed"]), _ms_each(rate),
        _work(title, rate, head), m.end(),
    )  # fmt: skip


def split_progress(text: str) -> tuple[str, str]:
    """(progress, rest): the bar with its postfix and values, and what another writing glued behind it.

    Without a bar the progress is empty and the rest is the text.
    """
    if "<" not in text or "/" not in text:
        return "", text
    m = _BAR.search(text)
    if m is None:
        return "", text
    end = m.end()
    while more := _POSTFIX.match(text, end) or _DICT.match(text, end) or _next_bar(text, end):
        end = more.end()
    return text[:end], text[end:]


def report_work(line: Line, bar: Bar, out: Sink) -> None:
    """Tells of named work, with two events per bar: its start and its newest state (``elapsed_s`` so far)."""
    state = out.state("progress", line.stream)
    key = re.sub(r"\d+", "#", bar.title)
    events: list[Event] = state.setdefault(key, [])
    if events and bar.elapsed_s < float(events[-1].attrs["elapsed_s"]):
        events.clear()  # the bar began anew
    if len(events) < 2:
        events.append(
            out.event("activity", line, source="progress", message=line.msg[: bar.end], activity=bar.work, elapsed_s=bar.elapsed_s, done=bar.n, total=bar.total)
        )  # fmt: skip
        return
    last = events[1]
    last.line = last.line_end = line.no
    last.byte_offset, last.message = line.offset, line.msg[: bar.end]
    last.attrs.update(elapsed_s=bar.elapsed_s, done=bar.n)
    if line.stamp is not None:
        last.stamp, last.ts_origin = line.stamp, "own"


def _next_bar(text: str, pos: int) -> re.Match[str] | None:
    """Another bar directly behind: only its title and percentage may stand between."""
    m = _BAR.search(text, pos)
    if m is None:
        return None
    between = text[pos : m.start()]
    return m if re.fullmatch(r"[^\[\]|]{0,60}\d%\|[^|]*\|\s*", between) else None


def _seconds(clock: str) -> float:
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + (float(part) if part else 0.0)
    return seconds


def _ms_each(rate: str) -> float | None:
    m = _RATE.search(rate)
    if m is None or m["u"] not in ("it/s", "s/it"):
        return None
    value = float(m["v"])
    if m["u"] == "s/it":
        return value * 1000
    return 1000 / value if value else None


def _work(title: str, rate: str, head: str) -> str | None:
    if "ompleted |" in head:  # vLLM's shard bar
        return "loading a model"
    m = _RATE.search(rate)
    unit = m["u"] if m else rate.strip()
    for name, pattern in _WORK:
        if title and pattern.search(title):
            # "Train step of epoch 0", "Training dataset": the word train wins
            return None if re.match(r"(?i)train", title) else name
    if "examples" in unit:
        return "preparing data"
    return "downloading" if unit.endswith("B/s") else None
