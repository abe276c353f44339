"""Flight recorder dumps: what a rank enqueued, and how far its groups got (torch FlightRecorder.hpp, NCCLUtils.cpp).

Pickle or JSON, one file a rank. The schema grew: 2.2 wrote a bare list of entries, 2.3 a dict with ``seq_id``,
2.4 added ``process_group`` and ``collective_seq_id``, 2.5 ``pg_status``; JSON writes numbers of ``pg_status`` as
strings and 0 where the pickle has None. ``time_created_ns`` is the wall clock at enqueue; the ``discovered`` times
are when the watchdog looked. Point-to-point calls count apart from collectives, so they carry no ``seq`` here. A dump of
active calls only holds nothing that completed; then ``pg_status`` alone says how far the rank got.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from correlator.parsers.documents import safe_pickle
from correlator.parsers.schema import Line, Sink, Stamp, document_line
from correlator.parsers.sources.group_ranks import compact

NAME = "flight_recorder"
ENTRIES_KEPT = 64  # newest entries of a group that become events
PENDING_KEPT = 8  # and its oldest unfinished ones: the host may have run far ahead of the call that hangs
BYTES_LIMIT = 256 << 20
RANKS_LIMIT = 1 << 20  # members of a group
TEXT_LIMIT = 300  # characters of a name

_NAMED = re.compile(r"(?:nccl|comm_lib|gloo)_trace(?:_rank)?_?\d+$")
_RANK = re.compile(r"rank[-_]?(\d+)(?!\d)")
_BARE_RANK = re.compile(r"(?<!\d)(\d{1,6})$")  # a prefix of the user's choice and the rank
_SUFFIX = re.compile(r"\.(?:pickle|pkl|json|dump|trace|bin|txt)$")
_DATE = re.compile(r"(?<!\d)20\d{6}(?!\d)")  # a time in the name: the number at its end is no rank
_KEYS = (b"profiling_name", b"pg_config", b"pg_status", b"comm_lib_version", b"collective_seq_id")
_LITERAL_RANKS = re.compile(r"^\[(?:\d+(?:, ?\d+)*)?\]$")
# c10d::OpType names where the profiling name differs by more than case and underscore
_OPS = {
    "all_reduce_barrier": "BARRIER",
    "barrier": "BARRIER",
    "all_to_all": "ALLTOALL",
    "all_to_all_single": "ALLTOALL_BASE",
    "reduce_scatter": "REDUCE_SCATTER",
    "_reduce_scatter_base": "_REDUCE_SCATTER_BASE",
    "_all_gather_base": "_ALLGATHER_BASE",
    "all_gather": "ALLGATHER",
    "all_reduce": "ALLREDUCE",
}


@dataclass(slots=True, frozen=True)
class Entry:
    """One recorded call. ``created`` and ``completed`` are microseconds since 1970, None where not recorded."""

    no: int
    pg: str
    desc: str | None
    seq: int | None
    p2p_seq: int | None
    name: str
    state: str
    retired: bool
    created: int | None
    started: int | None
    completed: int | None
    sizes_in: list[list[int]]
    sizes_out: list[list[int]]
    dtypes: list[str]
    timeout_ms: float | None
    frames: list[str]


def claims(path: str, head: bytes) -> bool:
    """By the default file name (unless it holds text), or by a pickle or JSON start with the recorder's keys."""
    pickled = head[:1] == b"\x80"
    start = head.lstrip()[:1]
    if _NAMED.search(path.rsplit("/", 1)[-1]):
        return not head or pickled or start in (b"{", b"[") or b"\x00" in head
    return (pickled or start in (b"{", b"[")) and sum(key in head for key in _KEYS) >= (1 if pickled else 2)


def parse(path: str, data: bytes, out: Sink) -> None:
    """Events ``enqueued``, ``completed`` and ``pg_status``, one mapping a group, and the rank of the file's name."""
    rank = rank_of(path)
    document = _load(data, out)
    if isinstance(document, list):
        document = {"entries": document, "version": "2.2"}
    if rank is None and document is not None:
        rank = _int(document.get("rank"))  # custom writers; upstream tells the rank in the file name alone
    first = document_line(1, f"flight recorder dump of rank {rank}" if rank is not None else "flight recorder dump")
    if rank is not None:
        out.identity(first, NAME, rank=rank, global_rank=rank, how="file name of the dump")
    if document is None:
        return
    listed = {str(k) for k in config} if isinstance(config := document.get("pg_config"), dict) else set[str]()
    entries = [e for i, raw in enumerate(_list(document.get("entries")), 1) if (e := _entry(i, raw, listed)) is not None]
    status = _status(document, entries)
    if entries or status:
        _present(document, entries, first, out, rank)
    _groups(document, entries, first, out, rank)
    for pg, fields in status.items():
        line = document_line(1, f"pg {pg}: last enqueued {fields['last_enqueued']}, last completed {fields['last_completed']}")
        out.event("pg_status", line, source=NAME, rank=rank, pg=pg, **fields)
    _calls(entries, status, out, rank)
    if not entries:
        out.problem(None, "empty", "the dump holds no entries (the recorder was switched off, see TORCH_FR_BUFFER_SIZE)")


def rank_of(path: str) -> int | None:
    """Global rank in a dump's file name (a prefix and the rank, by default), None if there is no number."""
    name = _SUFFIX.sub("", path.rsplit("/", 1)[-1])
    m = _RANK.search(name) or (None if _DATE.search(name) else _BARE_RANK.search(name))
    return int(m[1]) if m else None


def _present(document: dict[str, Any], entries: list[Entry], line: Line, out: Sink, rank: int | None) -> None:
    """One ``fr_dump`` a file: that this rank dumped, over which time, and whether the ring had lost its oldest calls."""
    times = [e.created for e in entries if e.created is not None]
    first_record = _int(_list(document.get("entries"))[entries[0].no - 1].get("record_id")) if entries else None
    out.event("fr_dump", line, source=NAME, rank=rank, stamp=_stamp(max(times)) if times else None, version=_text(document.get("version")),
              entries=len(entries), oldest_us=min(times) if times else None, newest_us=max(times) if times else None,
              whole=True if first_record == 0 else None)  # fmt: skip


def op_type(profiling_name: str) -> str:
    """``ALLREDUCE`` for ``nccl:all_reduce``: the name that watchdog lines print (c10d::opTypeToString)."""
    name = profiling_name.split(":", 1)[-1].split(" ", 1)[0]
    return _OPS.get(name, name.upper())


def _load(data: bytes, out: Sink) -> dict[str, Any] | list[Any] | None:
    if not data.strip(b"\x00 \t\r\n"):  # zeros: the file system had the size but not yet the content
        out.problem(None, "empty", f"flight recorder dump of {len(data)} bytes without content")
        return None
    if len(data) > BYTES_LIMIT:
        out.problem(None, "too_large", f"flight recorder dump of {len(data)} bytes is larger than {BYTES_LIMIT}")
        return None
    try:
        value = json.loads(data) if data.lstrip()[:1] in (b"{", b"[") else safe_pickle.loads(data)
    except safe_pickle.UnsafePickle as exc:
        out.problem(None, "refused", f"flight recorder dump would run code: {exc}")
        return None
    except (ValueError, RecursionError) as exc:
        out.problem(None, "truncated", f"flight recorder dump is not complete: {exc}")
        return None
    if not isinstance(value, dict | list):
        out.problem(None, "unreadable", f"flight recorder dump holds {type(value).__name__}")
        return None
    return value


def _entry(no: int, raw: Any, listed: set[str]) -> Entry | None:
    """One entry; ``listed`` are the groups whose members the dump tells. Up to 2.3 a group is its place in the order of
    creation inside this process: beyond the default group that is no key between ranks (``?``) unless members are listed."""
    if not isinstance(raw, dict):
        return None
    group = _list(raw.get("process_group"))
    local = _text(raw.get("pg_id", "0"))
    p2p = bool(raw.get("is_p2p"))
    seq = _int(raw.get("collective_seq_id", raw.get("seq_id")))
    created = _int(raw.get("time_created_us"))
    return Entry(
        no=no,
        pg=_text(group[0]) if group else local if local == "0" or local in listed else f"{local}?",
        desc=_text(group[1]) if len(group) > 1 else None,
        seq=None if p2p else seq,
        p2p_seq=_int(raw.get("p2p_seq_id")) if p2p else None,
        name=_text(raw.get("profiling_name")),
        state=_text(raw.get("state")),
        retired=bool(raw.get("retired")),
        created=created if created is not None else _micros(raw.get("time_created_ns")),
        started=_micros(raw.get("time_discovered_started_ns")),
        completed=_micros(raw.get("time_discovered_completed_ns")),
        sizes_in=_sizes(raw.get("input_sizes")),
        sizes_out=_sizes(raw.get("output_sizes")),
        dtypes=[_text(d) for d in _list(raw.get("input_dtypes"))[:16]],
        timeout_ms=float(raw["timeout_ms"]) if isinstance(raw.get("timeout_ms"), int | float) else None,
        frames=[_frame(f) for f in _list(raw.get("frames"))[:8] if isinstance(f, dict)],
    )


def _status(document: dict[str, Any], entries: list[Entry]) -> dict[str, dict[str, Any]]:
    """Per group name: ``last_enqueued`` and ``last_completed``.

    The recorder keys this table by ``pg_id``, the creation order inside one process, which differs between
    processes; the entries tell which name an id has. Without an entry only id 0, the default group, is certain. The
    numbers count point-to-point calls as well, so in a group that has such calls they say nothing about collectives.
    """
    raw = document.get("pg_status")
    names = {"0": "0"} | {_text(r.get("pg_id")): e.pg for e, r in _with_raw(document, entries)}
    mixed = {e.pg for e in entries if e.p2p_seq is not None}
    result: dict[str, dict[str, Any]] = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        pg = names.get(str(key))
        if not isinstance(value, dict) or pg is None or pg in mixed:
            continue
        numbers = {
            "last_enqueued": _int(value.get("last_enqueued_collective")),
            "last_started": _int(value.get("last_started_collective")),
            "last_completed": _int(value.get("last_completed_collective")),
        }
        if numbers["last_enqueued"] is not None and numbers["last_completed"] is not None:
            result[pg] = {k: n for k, n in numbers.items() if n is not None}
    return result


def _with_raw(document: dict[str, Any], entries: list[Entry]) -> list[tuple[Entry, dict[str, Any]]]:
    raws = _list(document.get("entries"))
    return [(e, raws[e.no - 1]) for e in entries]


def _groups(document: dict[str, Any], entries: list[Entry], line: Line, out: Sink, rank: int | None) -> None:
    """One mapping a process group that states its members. ``ranks`` is text in the pickle: parsed, never evaluated."""
    config = document.get("pg_config")
    described = {e.pg: e.desc for e in entries if e.desc}
    for key, value in config.items() if isinstance(config, dict) else ():
        name = _text(value.get("name", key)) if isinstance(value, dict) else str(key)
        members = value.get("ranks") if isinstance(value, dict) else value
        if isinstance(members, str):
            members = [int(n) for n in re.findall(r"\d+", members)] if _LITERAL_RANKS.match(members.strip()) else []
        ranks = [n for n in _list(members)[:RANKS_LIMIT] if isinstance(n, int)]
        if ranks:
            desc = (_text(value.get("desc")) or None) if isinstance(value, dict) else described.get(name)
            out.event("mapping", line, source=NAME, message=f"process group {name or '(unnamed)'}: {len(ranks)} ranks",
                      rank=rank, pg=name, desc=desc, group_ranks=compact(ranks), world_size=len(ranks) if name == "0" else None)  # fmt: skip


def _calls(entries: list[Entry], status: dict[str, dict[str, Any]], out: Sink, rank: int | None) -> None:
    by_group: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_group[entry.pg].append(entry)
    kept: dict[int, Entry] = {}
    for pg, calls in by_group.items():
        pending = [e for e in calls if not _done(e, status.get(pg))]
        kept.update((e.no, e) for e in [*pending[:PENDING_KEPT], *calls[-ENTRIES_KEPT:]])
    for _, entry in sorted(kept.items()):
        text = f"{entry.name} pg {entry.pg} seq {entry.seq} {entry.state} in {entry.sizes_in} out {entry.sizes_out}"
        line = document_line(entry.no, text, stamp=_stamp(entry.created))
        attrs: dict[str, Any] = {
            "desc": entry.desc,
            "numel_in": _numel(entry.sizes_in),
            "numel_out": _numel(entry.sizes_out),
            "sizes": entry.sizes_in or None,
            "dtype": entry.dtypes[0] if entry.dtypes else None,
            "state": entry.state or None,
            "retired": entry.retired,
            "timeout_ms": entry.timeout_ms,
            "p2p_seq": entry.p2p_seq,
            "frames": entry.frames or None,
            "started_us": entry.started,
            "timed_out": True if _gave_up(entry, status.get(entry.pg)) else None,
        }
        common: dict[str, Any] = {"source": NAME, "rank": rank, "pg": entry.pg, "seq": entry.seq, "op": op_type(entry.name)}
        out.event("enqueued", line, **common, **attrs)
        if _done(entry, status.get(entry.pg)):
            done = document_line(entry.no, text, stamp=_stamp(entry.completed))
            out.event("completed", done, **common, numel_in=attrs["numel_in"], numel_out=attrs["numel_out"])


def _done(entry: Entry, status: dict[str, Any] | None) -> bool:
    """Completed by its own state, or at or below the group's last completed call.

    gloo leaves ``state`` at ``scheduled`` for ever, so the group's status decides there; without one, ``retired``
    does. For NCCL ``retired`` without ``completed`` means timed out.
    """
    if entry.state == "completed" or entry.completed is not None:
        return True
    if not entry.name.startswith("gloo:"):
        return False
    if status is not None and entry.seq is not None:
        return entry.seq <= status["last_completed"]
    return entry.retired


def _gave_up(entry: Entry, status: dict[str, Any] | None) -> bool:
    """Taken off the watchdog's list without having completed: it timed out (FlightRecorder.hpp, ``retired_``)."""
    return entry.retired and not entry.name.startswith("gloo:") and not _done(entry, status)


def _frame(frame: dict[str, Any]) -> str:
    return f"{_text(frame.get('filename', '?')).rsplit('/', 1)[-1]}:{_text(frame.get('name', '?'))}"


def _stamp(us: int | None) -> Stamp | None:
    """A Stamp of a point in time; None for a time that no calendar holds."""
    if us is None:
        return None
    try:
        text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()
    except OverflowError:
        return None
    return Stamp(us, 0, 1, True, True, text)


def _micros(ns: Any) -> int | None:
    """Microseconds of a nanosecond reading; None for None and for the 0 that JSON writes instead."""
    value = _int(ns)
    return value // 1000 if value else None


def _int(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _text(value: Any) -> str:
    """A scalar as text; empty for anything else, for a shared structure of a few bytes can print without end."""
    return str(value)[:TEXT_LIMIT] if isinstance(value, str | int | float) else ""


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _sizes(value: Any) -> list[list[int]]:
    """Tensor sizes, bounded: a memo of a pickle can fold a huge structure into a few bytes."""
    return [[n for n in _list(t)[:16] if isinstance(n, int)] for t in _list(value)[:16]]


def _numel(sizes: list[list[int]]) -> int | None:
    """Elements of all tensors together, None if no size was recorded."""
    if not sizes:
        return None
    total = 0
    for shape in sizes:
        count = 1
        for n in shape:
            count *= n
        total += count
    return total
