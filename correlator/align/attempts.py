"""Where one attempt ends and the next begins inside a file, and which attempt a file begins with: restarts without
attempt directories.

Two kinds of evidence. A launcher's mark (``failed (exitcode ..)``, ``will restart worker group``, a requeue) ends an
attempt if workers that had been at work before it start again behind it. Without a launcher a writer that introduces
itself a second time has begun anew, if what follows proves it: it resumes from a checkpoint, its steps go back, or its
process had ended before.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from correlator.parsers.pipeline import Part
from correlator.parsers.schema import Event

# A "training complete" is no such end: a trainer introduces itself again before it tests what it trained.
_ENDS = frozenset({"crashed", "exit_record", "external_signal", "preempted"})
_WAITS = frozenset({"timed_out_waiting", "lost_connection", "store_wait"})


def group_of(unit: str) -> str:
    """The launcher that a writer belongs to: its task label, host or pod, empty where a file has one launcher."""
    return "|".join(t for t in unit.split("|") if t.startswith(("label:", "host:", "pod:", "replica:")))


def attempt_bounds(part: Part) -> dict[str, list[int]]:
    """Lines after which a later attempt begins, by launcher inside one source."""
    marked = _marked_bounds(part)
    moments: dict[str, list[_Moment]] = defaultdict(list)
    for moment in _moments(part):
        moments[moment.group].append(moment)
    out = dict(marked)
    for group, seen in moments.items():
        out[group] = _Scan(marked.get(group, [])).run(sorted(seen, key=lambda m: m.line))
    return _follow(out, {group for group, seen in moments.items() if any(m.what in ("begin", "step") for m in seen)})


def _follow(bounds: dict[str, list[int]], working: set[str]) -> dict[str, list[int]]:
    """A launcher's unlabelled lines among its labelled workers belong to the attempt that the first of them begins."""
    workers = [b for group, b in bounds.items() if group in working and b]
    if workers and not bounds.get("") and "" not in working:
        n = min(len(b) for b in workers)
        bounds[""] = [min(b[i] for b in workers) for i in range(n)]
    return bounds


def first_attempts(parts: list[Part], bounds: dict[tuple[int, str], list[int]], told: set[int]) -> dict[int, int]:
    """Number of the first attempt in each source whose path does not tell it (``told``: those whose path does).

    A process or its agent may say how often it was restarted (``TORCHELASTIC_RESTART_COUNT``, ``restart_count``): what
    the least of them says holds for all. A rank's file that was written anew at each start holds only what came after
    the last restarts in its launcher's log.
    """
    stated = [n for part in parts if part.source_id not in told and (n := _stated(part, bounds)) is not None]
    base = min(stated, default=0)
    out = dict.fromkeys((p.source_id for p in parts if p.source_id not in told), base)
    launcher = max((p for p in parts if p.source_id in out and not p.steps), key=lambda p: len(bounds.get((p.source_id, ""), ())), default=None)
    begins = _begin_times(launcher, bounds.get((launcher.source_id, ""), [])) if launcher is not None else []
    for part in parts:
        if part.source_id not in out or not begins or part is launcher or part.first is None or not part.first.has_date:
            continue
        before = len(begins) - max((len(b) for (source, _), b in bounds.items() if source == part.source_id), default=0)
        if before > 0 and part.first.utc_us >= begins[before - 1]:
            out[part.source_id] = base + before
    return out


def _stated(part: Part, bounds: dict[tuple[int, str], list[int]]) -> int | None:
    """How many attempts went before this source, by its first word on restarts."""
    for ev in part.events:
        if ev.kind in ("identity", "mapping") and ev.attrs.get("restart") is not None:
            passed = sum(1 for b in bounds.get((part.source_id, group_of(part.streams[ev.stream].unit)), ()) if ev.line > b)
            return max(0, int(ev.attrs["restart"]) - passed)
    return None


def _begin_times(part: Part, bounds: list[int]) -> list[int]:
    """Microseconds at which the attempts behind a launcher's bounds began at the earliest; empty if it prints no times."""
    out = []
    for bound in bounds:
        times = [ev.stamp.utc_us for ev in part.events if ev.line <= bound and ev.ts_origin == "own" and ev.stamp is not None and ev.stamp.has_date]
        if not times:
            return []
        out.append(max(times))
    return out


# ---- a launcher's marks ----------------------------------------------------------------------------


def _is_mark(event: Event) -> bool:
    """A launcher's line that may separate two attempts."""
    if event.kind == "exit_record":
        return event.attrs.get("by") == "elastic" and bool(event.attrs.get("agent_line"))
    return event.kind == "restart" or (event.kind in ("preempted", "external_signal") and bool(event.attrs.get("agent")))


def _marked_bounds(part: Part) -> dict[str, list[int]]:
    """An agent prints ``failed (exitcode ..)`` once per attempt, after its workers are gone. It ends an attempt only if
    workers that had been at work before start again behind it: steps, an own-rank statement or a start marker.
    (Another agent's workers that start later are no restart.)
    """
    work: dict[str, list[tuple[int, str]]] = defaultdict(list)
    marks: dict[str, set[int]] = defaultdict(set)
    for st in part.steps:
        unit = part.streams[st.stream].unit
        work[group_of(unit)].append((st.line, unit))
    for ev in part.events:
        unit = part.streams[ev.stream].unit
        group = group_of(unit)
        if _is_mark(ev):
            marks[group].add(ev.line)
        elif ev.kind in ("identity", "started") or (ev.kind in _WAITS and not ev.attrs.get("second_hand")):
            work[group].append((ev.line, unit))
    if not any(work.values()):  # an agent's own log: its stops and records are all the work there is
        for ev in part.events:
            if ev.kind == "signalled":
                unit = part.streams[ev.stream].unit
                work[group_of(unit)].append((ev.line, unit))
    out: dict[str, list[int]] = {}
    for group, lines in marks.items():
        ordered = sorted(lines)
        bounds: list[int] = []
        for i, line in enumerate(ordered):
            upto = ordered[i + 1] if i + 1 < len(ordered) else 1 << 60
            before = {u for at, u in work[group] if at < line}
            again = [at for at, u in work[group] if line < at < upto and u in before]
            if again:
                bounds.append(line)
        out[group] = bounds
    return out


# ---- writers that begin anew -----------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class _Moment:
    """What one line says of its writer's life. ``what``: begin, resumed, step or end; ``step`` only of a step."""

    line: int
    group: str
    writer: tuple[str, int | None]  # unit and, where the line tells it, rank
    what: str
    step: int = 0


def _moments(part: Part) -> list[_Moment]:
    out = []
    for st in part.steps:
        info = part.streams[st.stream]
        out.append(_Moment(st.line, group_of(info.unit), (info.unit, _rank_of(info.tags, st.rank)), "step", st.step))
    for ev in part.events:
        info = part.streams[ev.stream]
        what = _what(ev)
        if what is not None:
            rank = ev.attrs.get("global_rank") if ev.kind == "identity" else ev.rank
            out.append(_Moment(ev.line, group_of(info.unit), (info.unit, _rank_of(info.tags, rank)), what))
    return out


def _what(event: Event) -> str | None:
    if event.kind == "identity":
        # a statement of the process; what a log header claims is said once and proves no beginning
        spoken = event.attrs.get("how") == "own words" and event.attrs.get("global_rank") is not None and event.attrs.get("world_size") is not None
        return "begin" if spoken else None
    if event.kind in ("resumed", "started"):
        return event.kind
    if event.attrs.get("by") == "shell":
        return None  # a shell tells of any child, copies and downloads too
    return "end" if event.attrs.get("uncaught") is True or event.kind in _ENDS else None


def _rank_of(tags: tuple, rank: int | None) -> int | None:  # type: ignore[type-arg]
    return rank if rank is not None else next((t.value for t in tags if t.kind == "ranktag"), None)


@dataclass(slots=True)
class _Scan:
    """Walks the moments of one launcher's lines in order and collects the bounds, a launcher's marks among them."""

    marks: list[int]
    bounds: list[int] = field(default_factory=list)
    begun: set[tuple[str, int | None]] = field(default_factory=set)
    furthest: dict[tuple[str, int | None], int] = field(default_factory=dict)
    shared: dict[str, set[int | None]] = field(default_factory=lambda: defaultdict(set))
    ended: bool = False
    pending: int | None = None  # line of an introduction that may be a new beginning
    since: set[tuple[str, int | None]] = field(default_factory=set)  # who introduced himself since then
    sure: bool = False

    def run(self, moments: list[_Moment]) -> list[int]:
        """Bounds in line order."""
        left = list(self.marks)
        for m in moments:
            while left and m.line > left[0]:
                self._split(left.pop(0))
            getattr(self, f"_{m.what}")(m)
        return sorted({*self.bounds, *self.marks})

    def _split(self, line: int) -> None:
        self.bounds.append(line)
        self.begun = self.since
        self.since, self.furthest = set(), {}
        self.ended, self.pending, self.sure = False, None, False

    def _suspect(self, line: int, sure: bool) -> None:
        if self.pending is None:
            self.pending, self.since = line, set()
        self.sure = self.sure or sure

    def _begin(self, m: _Moment) -> None:
        self.shared[m.writer[0]].add(m.writer[1])
        if m.writer in self.begun and (self.furthest or self.ended):
            self._suspect(m.line, self.ended)
        self.begun.add(m.writer)
        self.since.add(m.writer)

    def _started(self, m: _Moment) -> None:
        key = (m.writer[0], None)
        # says no rank: in a shared file another rank's first start looks the same
        if key in self.begun and self.furthest and len(self.shared[m.writer[0]]) <= 1:
            self._suspect(m.line, False)
        self.begun.add(key)
        self.since.add(key)

    def _resumed(self, m: _Moment) -> None:
        if self.pending is not None or (self.ended and self.furthest):
            self._suspect(m.line, True)

    def _step(self, m: _Moment) -> None:
        before = self.furthest.get(m.writer)
        if self.pending is not None:
            # in a file that ranks share without prefixes, a slower rank's line may come a step late
            slack = 1 if m.writer[1] is None and len(self.shared[m.writer[0]]) > 1 else -1
            back = before is not None and m.step < before - slack
            if self.sure or back:
                self._split(self.pending - 1)
                before = None
            elif before is not None and m.step > before:
                self.pending = None  # it only said again who it is
        self.furthest[m.writer] = max(m.step, before if before is not None else m.step)

    def _end(self, m: _Moment) -> None:
        if self.pending is not None and self.sure and m.line > self.pending:
            self._split(self.pending - 1)  # the new attempt died before its first step
        self.ended = True
