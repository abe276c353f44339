"""The vocabulary that every parser speaks: lines, tags, stamps and the sink that takes rows.

A parser never decides who is guilty. It says what one line means (an *event*), what a line proves
about the process that wrote it (*identity*), what it says about how identifiers belong together
(*mapping*), how far the writer got (*step*), and what is configured (*config*).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MESSAGE_LIMIT = 2000  # characters of a quoted line that are kept


@dataclass(slots=True, frozen=True)
class Stamp:
    """A time printed on a line, before any clock correction.

    Attributes:
        naive_us: the printed wall-clock reading in microseconds since 1970, read as if it were UTC.
        offset_min: printed zone offset in minutes (0 for ``Z``), None when no zone is printed.
        resolution_us: step of the printed time, 1 for microseconds, 1_000_000 for whole seconds.
            A C++ (c10) fraction is not wall clock and counts as a whole second.
        has_year: False where the year had to be inferred from the reference time.
        has_date: False where only a time of day (or a monotonic time) was printed.
        text: the characters as printed.
    """

    naive_us: int
    offset_min: int | None
    resolution_us: int
    has_year: bool
    has_date: bool
    text: str

    @property
    def utc_us(self) -> int:
        """Microseconds since 1970 UTC; a stamp without zone is read as UTC (the clock model corrects it)."""
        return self.naive_us - (self.offset_min or 0) * 60_000_000


@dataclass(slots=True, frozen=True)
class Tag:
    """One wrapper layer peeled off the front of a line.

    kind is one of: ``tee`` (torchrun ``[default3]:``, value = LOCAL rank, name = role), ``ranktag``
    (``[rank3]:`` of c10d and the excepthook, or a tee template), ``label`` (``srun --label``),
    ``mpi`` (``[1,3]<stderr>:``), ``host`` (pdsh ``node-1: ``), ``pod`` (kubectl ``[pod/x/y]``),
    ``ray`` (``(Actor pid=1, ip=..)``), ``sky``, ``determined``, ``replica`` (torchx / nemo-run),
    ``std`` (stdout/stderr of CRI or docker), ``hostrank`` (``node-2:11: ``, host and GLOBAL rank).
    """

    kind: str
    value: int | None = None  # the number in the tag, if any
    name: str | None = None  # host, pod, actor, role ...
    spaced: bool = False  # ``[rank3]: `` (excepthook) as opposed to ``[rank3]:``
    extra: dict[str, Any] | None = None  # pid, ip, container ...


@dataclass(slots=True)
class Line:
    """One physical line, peeled.

    Attributes:
        no: 1-based number, counted by ``\\n`` alone. offset: byte offset of its start.
        raw: the line as it stands (ANSI and trailing ``\\r`` removed).
        tags: wrapper layers, outermost first.
        text: what is left after the wrappers (indentation kept).
        msg: ``text`` without its log header (time, level, file:line); equals ``text`` if it has none.
        stamp: innermost dated time on the line, None if none. outer: the collector's time, if any.
        level: DEBUG, INFO, WARNING, ERROR, FATAL or None. origin: logger or file in the header.
        header_rank / header_pid: rank or pid printed inside the header (torch glog prints the pid,
            DeepSpeed ``[Rank 2]``), None if none. A rank in a header is the *printer's* claim.
    """

    no: int
    offset: int
    raw: str
    text: str
    msg: str
    tags: tuple[Tag, ...] = ()
    stamp: Stamp | None = None
    outer: Stamp | None = None
    level: str | None = None
    origin: str | None = None
    header_pid: int | None = None
    stream: str = ""  # key of the stream inside its source, set by the pipeline
    torn: bool = False  # two writers share this line, or it is cut

    def tag(self, kind: str) -> Tag | None:
        """Innermost tag of a kind."""
        for t in reversed(self.tags):
            if t.kind == kind:
                return t
        return None

    @property
    def rank(self) -> int | None:
        """Global rank that c10d itself printed on this line (``[rank3]:``), None if there is none."""
        t = self.tag("ranktag")
        return t.value if t is not None else None


# Column order of the part tables. Types: see correlator/sql/tables.sql.
EVENT_FIELDS = (
    "source_id", "stream_id", "line", "line_end", "byte_offset", "ts_raw", "ts_utc", "ts_resolution_us",
    "ts_origin", "rank", "step", "pg", "seq", "op", "level", "source", "kind", "peer_rank", "peer_host",
    "duration_ms", "attrs", "message",
)  # fmt: skip


@dataclass(slots=True)
class Event:
    """One parsed event. ``kind`` is a predicate of rules/predicates.toml or one of the structural kinds.

    Structural kinds: ``identity`` (about the writer), ``mapping`` (how identifiers belong together),
    ``enqueued`` / ``completed`` / ``pg_status`` / ``fr_dump`` (collectives), ``init_start`` / ``init_done``
    (communicators), ``exit_record`` (a launcher states how a process ended), ``started``,
    ``finished`` (training said it is complete), ``checkpoint_saved``, ``resumed``, ``restart``,
    ``activity`` (legitimate long work), ``env`` (an environment variable's value).
    """

    line: int
    line_end: int
    byte_offset: int
    stream: str
    kind: str
    message: str
    source: str
    level: str | None = None
    stamp: Stamp | None = None
    ts_origin: str = "none"  # own, inherited, derived, none
    rank: int | None = None  # GLOBAL rank of the writer if this very line proves it
    step: int | None = None
    pg: str | None = None
    seq: int | None = None
    op: str | None = None
    peer_rank: int | None = None  # rank that the line speaks of
    peer_host: str | None = None
    duration_ms: float | None = None
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """Ordinary progress of the writer. loss and grad_norm may be nan or inf: those matter most."""

    line: int
    byte_offset: int
    stream: str
    step: int
    stamp: Stamp | None
    rank: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    loss_scale: float | None = None
    skipped: bool | None = None
    duration_ms: float | None = None
    total: int | None = None


@dataclass(slots=True)
class Problem:
    """Something that could not be read. Nothing is lost silently."""

    path: str
    line: int | None
    kind: str
    detail: str


Refine = Callable[[str, str], "tuple[str, dict[str, Any]] | None"]


class Sink:
    """Takes what parsers find in one source. One Sink per source; ``line.stream`` separates writers.

    ``refine(source, text)`` asks the rulebook's signatures for a better reading of a message, for
    example an exception whose text is a lost connection. It returns (predicate, attrs) or None.
    """

    def __init__(self, path: str, refine: Refine | None = None) -> None:
        self.path = path
        self.events: list[Event] = []
        self.steps: list[Step] = []
        self.configs: list[tuple[int, str, str, str, str]] = []  # line, stream, key, value, origin
        self.problems: list[Problem] = []
        self._state: dict[tuple[str, str], dict[str, Any]] = {}
        self._refine = refine

    def state(self, parser: str, stream: str) -> dict[str, Any]:
        """A parser's own memory for one stream (multi-line constructs, last step, open tables)."""
        return self._state.setdefault((parser, stream), {})

    def event(
        self,
        kind: str,
        line: Line,
        /,
        *,
        source: str,
        message: str | None = None,
        line_end: int | None = None,
        level: str | None = None,
        rank: int | None = None,
        step: int | None = None,
        pg: str | None = None,
        seq: int | None = None,
        op: str | None = None,
        peer_rank: int | None = None,
        peer_host: str | None = None,
        duration_ms: float | None = None,
        refine: bool = False,
        stamp: Stamp | None = None,
        quote_line: int | None = None,
        **attrs: Any,
    ) -> Event:
        """Adds an event. ``rank`` defaults to the c10d rank printed on the line.

        ``quote_line``: where the words of ``message`` stand, if not on ``line`` (the end of a traceback). A message that
        stands on neither is our reading of a record, and attrs then hold ``reading``: it is never shown as a quotation.
        With ``refine=True`` the rulebook's signatures may turn ``kind`` into a more specific
        predicate on the ground of ``message``; attrs then hold ``rule`` and ``signature``.
        """
        whole = message if message is not None else line.msg
        text = whole[:MESSAGE_LIMIT]
        if quote_line is not None and quote_line != line.no:
            attrs["quote_line"] = quote_line
        elif message is not None and message.split("\n", 1)[0].strip() not in line.raw:
            attrs["reading"] = True
        if refine and self._refine is not None:
            better = self._refine(source, whole)
            if better is not None:
                kind, more = better
                more = dict(more)
                if "rank" in more:  # the rank that the message is about, not its writer
                    more["subject_rank"] = int(more.pop("rank"))
                if "peer" in more and peer_rank is None:
                    peer_rank = int(more.pop("peer"))
                if "step" in more and step is None:
                    step = int(more.pop("step"))
                attrs = {**attrs, **more}
        ev = Event(
            line=line.no, line_end=line_end or line.no, byte_offset=line.offset, stream=line.stream,
            kind=kind, message=text, source=source, level=level or line.level,
            stamp=stamp or line.stamp, ts_origin="own" if (stamp or line.stamp) else "none",
            rank=rank if rank is not None else line.rank, step=step, pg=pg, seq=seq, op=op,
            peer_rank=peer_rank, peer_host=peer_host, duration_ms=duration_ms,
            attrs={k: v for k, v in attrs.items() if v is not None},
        )  # fmt: skip
        self.events.append(ev)
        return ev

    def identity(self, line: Line, source: str, **evidence: Any) -> None:
        """What this line proves about its own writer.

        Keys: global_rank, local_rank, node_rank, host, pid, device, pci_bus, world_size,
        local_world_size, attempt. ``how`` says why (short text).
        """
        self.event("identity", line, source=source, **evidence)

    def mapping(self, line: Line, source: str, **evidence: Any) -> None:
        """Identifiers that belong together, said by anyone (agent, launcher, other rank).

        Keys: global_rank, local_rank, node_rank, host, ip, pid, pci_bus, device, world_size,
        error_file, path, worker_pid (child of pid).
        """
        self.event("mapping", line, source=source, **evidence)

    def step(self, line: Line, step: int, **values: Any) -> None:
        """Progress of the writer at a training step."""
        rank = values.pop("rank", None)
        self.steps.append(Step(line.no, line.offset, line.stream, step, line.stamp, rank if rank is not None else line.rank, **values))

    def config(self, line: Line, key: str, value: Any, origin: str) -> None:
        """A setting, for example ``zero_optimization.stage`` = 3, origin ``ds_config.json``."""
        self.configs.append((line.no, line.stream, key, str(value), origin))

    def problem(self, line: int | None, kind: str, detail: str) -> None:
        """Something in this source that could not be read."""
        self.problems.append(Problem(self.path, line, kind, detail))


@dataclass(slots=True, frozen=True)
class Sample:
    """A line as the software writes it, with what the parser must make of it (tests run every sample).

    ``text`` may hold several lines (a block). ``expect`` are fields of the event or of its attrs.
    ``source`` names where the format was read: upstream file or document.
    """

    text: str
    kind: str
    expect: dict[str, Any] = field(default_factory=dict)
    source: str = ""


def document_line(no: int, text: str, offset: int = 0, stamp: Stamp | None = None) -> Line:
    """A Line for a document that has no line structure of its own, so that its events can be quoted."""
    return Line(no=no, offset=offset, raw=text, text=text, msg=text, stamp=stamp, stream="")
