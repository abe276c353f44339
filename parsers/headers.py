"""Log headers: time, level, origin and the printer's own claims at the front of a peeled line.

Shapes come from c10's and glog's loggers, `torch._logging`, Python's `logging` in the layouts of DeepSpeed, Hugging
Face, Lightning, NeMo, Composer, hydra, vLLM and NVRx, from Ray's C++ logger, from syslog and from NCCL (only its
leading time: the rest of an NCCL line belongs to the NCCL parser).

A header is read in two ways. Compact glog shapes have a pattern of their own. Everything else is a run of fields
(time, level, file:line, rank, logger), which is walked until something is met that is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from correlator.parsers.schema import Stamp
from correlator.parsers.times import DateOrder, find_stamp, parse_stamp, stamp_of

_LEVELS = {
    "TRACE": "DEBUG", "DEBUG": "DEBUG", "VERBOSE": "DEBUG", "INFO": "INFO", "NOTICE": "INFO", "WARN": "WARNING",
    "WARNING": "WARNING", "ERR": "ERROR", "ERROR": "ERROR", "CRIT": "FATAL", "CRITICAL": "FATAL", "FATAL": "FATAL",
    "V": "DEBUG", "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "C": "FATAL", "F": "FATAL", "N": "INFO", "X": "FATAL",
}  # fmt: skip
_PID_MAX = 4_194_304  # Linux' largest pid; torch 2.3 and 2.4 print a thread ident in the place of the pid
_MAX_FIELDS = 12


@dataclass(slots=True)
class Header:
    """What stands before a message.

    Attributes:
        stamp: dated time, None if none is printed. clock: time without a date (dmesg uptime, time of day).
        level: DEBUG, INFO, WARNING, ERROR or FATAL. origin: logger, or file as ``file:line``.
        rank: rank that the *printer* claims (``[Rank 2]``, ``rank=2/4``); never proof by itself.
        pid: pid printed in the header. msg_start: index of the message in the text.
    """

    stamp: Stamp | None = None
    level: str | None = None
    origin: str | None = None
    rank: int | None = None
    pid: int | None = None
    msg_start: int = 0
    clock: Stamp | None = None


_A = re.ASCII
# c10: [E1104 12:34:56.123456789 file.cpp:607] msg; the month is not zero padded (5 January = E105)
_C10 = re.compile(r"\[([VIWEF])(\d{1,2}?)(\d\d) (\d\d):(\d\d):(\d\d)\.\d{6,9} ([^\s:\]]+:\d+)\] ?", _A)
_C10_OLD = re.compile(r"\[([VIWEF]) ([^\s:\]]+:\d+)\] ?", _A)
# torch._logging and real glog: W1130 21:01:14.146000 1616 torch/distributed/run.py:1028] msg; glog 0.6 prints the year
_GLOG = re.compile(
    r"([VIWECF])(\d{4})?(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{3,9})\s+(?:(\d{1,20})\s+)?([^\s\]]+?:\d+)\]"
    r"((?: \[\d+/\d+\w*\]| \[__\w+\])*) ?",
    _A,
)
_NEMO = re.compile(r"\[NeMo ([A-Z]) (?=\d{4}-)", _A)
_NEMO_TAIL = re.compile(r" ([\w.]+:\d+)(?: rank:(\d{1,6}))?\] ?", _A)
# transformers: [INFO|trainer.py:123] 2025-09-03 21:44:52,123 >> msg, and [INFO|2025-09-03 21:44:52] mod:143 >> msg
_PIPED = re.compile(r"\[(DEBUG|INFO|WARNING|ERROR|CRITICAL)\|", _A)
_PIPED_FILE = re.compile(r"([\w./-]+:\d+)\] ?", _A)
_PIPED_TAIL = re.compile(r"\]? ?(?:([\w./-]+:\d+) )?>> ?", _A)
_BASIC = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):([A-Za-z_][\w.\-]*):", _A)
# 2.1 and 2.2: [2023-11-04 12:34:56,123] torch.distributed.run: [WARNING] text
_TORCH21 = re.compile(r"(?: \[[^\]]*\])? ([\w.]+): \[([A-Z]+)\] ?", _A)
# SGLang: [2025-04-26 11:32:00 DP0 TP3] msg; numbers of parallel groups, no ranks
_GROUPS = re.compile(r" ((?:[DTPE]P\d+ ?)+)\] ?", _A)
_RAY_CPP = re.compile(r" ([DIWEFC]) (\d{1,10}) \d+\](?: \(([\w-]+)\))?(?: ([\w./-]+:\d+):)? ?", _A)
_SYSLOG = re.compile(r" (?!\[)([\w.-]+) ([\w./@-]+)(?:\[(\d{1,10})\])?: ?", _A)
_KERNEL_TIME = re.compile(r"\[ *\d+\.\d{6}\] ?", _A)
_DMESG_CALLER = re.compile(r"(?:\[ *[TC]\d+\])? ?", _A)

_WORDS = "TRACE|DEBUG|VERBOSE|INFO|NOTICE|WARN|WARNING|ERR|ERROR|CRIT|CRITICAL|FATAL"
_FIELD = re.compile(
    r"[\s|]*(?:-\s+|:\s+)?(?:"
    rf"(?P<level>\[\s*(?:{_WORDS}|[A-Z](?=\]))\s*\]:?|\((?:{_WORDS})\)|(?:{_WORDS})(?=[\s|\]:]|$):?)"
    r"|\[(?P<loc>[\w./<>-]+\.(?:py|cpp|cc|cu|h|hpp):\d+(?::[\w<>.]+)?)\]:?"
    r"|(?P<rank>[\[(][Rr]ank[ =:]?(?P<n>\d{1,10})(?:/\d+)?[\])](?!:)|[Rr]ank[ =]?(?P<bare>\d{1,10})(?:/\d+)?(?=\s*(?:\||-\s|:\s)))"
    r"|[Rr]ank(?P<composer>\d{1,10})\[(?P<pid>\d{1,10})\](?:\[[\w-]+\])?:"
    r"|\[[\w.-]+\] \[workload:(?P<nvrx>\d{1,10})\(\d+\) infra:\d+\(\d+\)\] (?P<nvrx_loc>[\w.]+:\d+)"
    r"|\[(?:tid|pid|TID|PID)[ :=]?(?P<tid>\d+)\]"
    rf"|\[(?P<name>[A-Za-z_][\w.]*)\](?=\s*-?\s*\[(?:{_WORDS})\])"
    r")",
    _A,
)
# Where a logger's name may stand once a level or a time has been read
_LOGGER_DASH = re.compile(r"\s*-\s+([A-Za-z_][\w./]*(?::\d+)?)(?=\s+-\s)", _A)
_LOGGER_FILE = re.compile(r"[\s:|]*([\w./-]+\.py:\d+)(?::\w+)?(?: in \S+)?(?= -- |:(?:\s|$)|\]| >> |\s+-\s)", _A)
_LOGGER_COLON = re.compile(r"[\s|]*([a-z_][a-z0-9_]*(?:\.[A-Za-z_]\w*)*)(?=: (?!\s*\d))", _A)
_NOT_LOGGER = frozenset(
    {"step", "epoch", "iter", "iteration", "loss", "error", "warning", "warn", "note", "info", "rank", "host", "traceback", "exception", "failed", "failure", "status", "state", "cause", "reason", "signal", "exit", "exitcode", "node", "worker", "task", "what", "message", "args", "config", "world_size", "nfs", "kernel"}
)  # fmt: skip
_MARK = re.compile(r"\s*(?:>>|--)\s?|\s*[|]\s?|\s+-\s|\]?:\s|\] ?", _A)


# First characters of lines that may open with a time or a field: most lines of a log are done after this test
_TIME_STARTS = frozenset("0123456789[(<|-*>+JFMASONDTWVINECRr")


def read_header(text: str, ref_us: int, order: DateOrder = DateOrder.US) -> Header:
    """Reads the log header at the front of a line whose wrappers are peeled.

    Args:
        text: the peeled line. ref_us: newest time it can have, as in `parsers.times.parse_stamp`.
        order: meaning of slash dates in this file.
    """
    first = text[:1]
    if first == "[":
        second = text[1:2]
        if second in ("V", "I", "W", "E", "F"):
            if m := _C10.match(text):
                stamp = stamp_of(None, int(m[2]), int(m[3]), m.group(4, 5, 6), ref_us, m[0][1 : m.start(7) - 1])
                return Header(stamp, _LEVELS[m[1]], m[7], msg_start=m.end())
            if m := _C10_OLD.match(text):
                return Header(None, _LEVELS[m[1]], m[2], msg_start=m.end())
            if m := _PIPED.match(text):
                return _piped(text, m, ref_us, order)
        elif second == "N" and (m := _NEMO.match(text)):
            return _nemo(text, m, ref_us, order)
        elif second in ("D", "C") and (m := _PIPED.match(text)):
            return _piped(text, m, ref_us, order)
    elif first in "VIWECF" and first:
        if m := _GLOG.match(text):
            return _glog(m, ref_us)
        if m := _BASIC.match(text):
            return _fields(text, m.end(), Header(None, _LEVELS[m[1]], m[2], msg_start=m.end()), ref_us, order, named=True)
    elif first == "D" and (m := _BASIC.match(text)):
        return Header(None, "DEBUG", m[2], msg_start=m.end())
    return _general(text, ref_us, order)


def _glog(m: re.Match[str], ref_us: int) -> Header:
    """torch._logging prints six digits of which three are real; real glog has microseconds."""
    python = m[10].rpartition(":")[0].endswith(".py")
    stamp = stamp_of(
        int(m[2]) if m[2] else None, int(m[3]), int(m[4]), m.group(5, 6, 7, 8), ref_us, m[0][: m.end(8)],
        resolution_us=1000 if python else None,
    )  # fmt: skip
    number = int(m[9]) if m[9] else None
    pid = number if python and number is not None and number <= _PID_MAX else None
    return Header(stamp, _LEVELS[m[1]], m[10], pid=pid, msg_start=m.end())


def _nemo(text: str, m: re.Match[str], ref_us: int, order: DateOrder) -> Header:
    found = parse_stamp(text, ref_us=ref_us, order=order, pos=m.end())
    if found is None:
        return Header()
    head = Header(found[0], _LEVELS.get(m[1]), msg_start=found[1])
    if tail := _NEMO_TAIL.match(text, found[1]):
        head.origin, head.msg_start = tail[1], tail.end()
        head.rank = int(tail[2]) if tail[2] else None
    return head


def _piped(text: str, m: re.Match[str], ref_us: int, order: DateOrder) -> Header:
    head = Header(None, _LEVELS[m[1]], msg_start=m.end())
    if where := _PIPED_FILE.match(text, m.end()):
        head.origin, head.msg_start = where[1], where.end()
    if found := parse_stamp(text, ref_us=ref_us, order=order, pos=head.msg_start):
        head.stamp, head.msg_start = found
    if tail := _PIPED_TAIL.match(text, head.msg_start):
        head.origin, head.msg_start = head.origin or tail[1], tail.end()
    return head


def _general(text: str, ref_us: int, order: DateOrder) -> Header:
    first = text.lstrip(" \t")[:1]
    if first not in _TIME_STARTS or (first.isalpha() and text[:2] == "  "):  # an indented word is no header
        return Header()
    found = parse_stamp(text, ref_us=ref_us, order=order)
    if found is None:
        head = _fields(text, 0, Header(), ref_us, order)
        if head.stamp is None and (near := find_stamp(text, ref_us, order)) and near[0].has_date:
            head.stamp = near[0]  # the words before the time belong to the message: msg_start stays
        return head
    stamp, end = found
    head = Header(stamp if stamp.has_date else None, msg_start=end, clock=None if stamp.has_date else stamp)
    if m := _RAY_CPP.match(text, end):
        head.level, head.pid, head.msg_start = _LEVELS[m[1]], int(m[2]), m.end()
        head.origin = m[4] or m[3]
        return head
    if m := _GROUPS.match(text, end):
        head.origin, head.msg_start = m[1], m.end()
        return head
    bracketed = text[end - 1] == "]"
    if bracketed and (m := _TORCH21.match(text, end)) and m[2] in _LEVELS:
        head.origin, head.level, head.msg_start = m[1], _LEVELS[m[2]], m.end()
        return head
    named = stamp.text[:1].isalpha()
    if bracketed and (named or not stamp.has_date) and not _FIELD.match(text, end):  # dmesg
        m = _DMESG_CALLER.match(text, end)
        head.msg_start = m.end() if m else end
        return head
    m = None if bracketed else _SYSLOG.match(text, end)
    # applications print ISO times too: after those only a pid or the kernel proves a syslog line
    if m and m[1].upper() not in _LEVELS and (named or m[3] or m[2] == "kernel"):
        head.origin, head.pid, head.msg_start = m[2], int(m[3]) if m[3] else None, m.end()
        if m[2] == "kernel" and (t := _KERNEL_TIME.match(text, m.end())):
            head.msg_start = t.end()
        return head
    return _fields(text, end, head, ref_us, order)


def _fields(text: str, pos: int, head: Header, ref_us: int, order: DateOrder, *, named: bool = False) -> Header:
    """Walks over header fields from `pos`; `msg_start` ends after the last one. `named`: a logger is known."""
    start, padded = pos, False
    for _ in range(_MAX_FIELDS):
        m = _FIELD.match(text, pos)
        if m is not None:
            kind = m.lastgroup
            if m["level"]:
                level = _LEVELS.get(m["level"].strip("[]():- "))
                if level is None or head.level is not None:
                    break
                head.level = level
            elif m["loc"]:
                head.origin = m["loc"]
            elif m["rank"]:
                head.rank = int(m["n"] or m["bare"])
            elif m["composer"]:
                head.rank, head.pid = int(m["composer"]), int(m["pid"])
            elif m["nvrx"]:
                head.rank, head.origin = int(m["nvrx"]), m["nvrx_loc"]
            elif m["name"]:
                head.origin = head.origin or m["name"]
            padded = kind == "level"
            pos = m.end()
        elif head.stamp is None and head.level and (found := parse_stamp(text, ref_us=ref_us, order=order, pos=pos)):
            if not found[0].has_date:
                head.clock = found[0]
            else:
                head.stamp = found[0]
            pos = found[1]
        else:
            logger = _logger(text, pos, head) if not named and (head.level or head.stamp) else None
            if logger is None:
                break
            head.origin, pos, named, padded = logger[0], logger[1], True, False
    if start == 0 and not (head.level or head.stamp):
        return head  # a rank alone, as in ``[Rank 3] Watchdog caught``, belongs to the message
    if pos > start or head.stamp or head.clock:
        head.msg_start = _after(text, pos, padded)
    return head


def _logger(text: str, pos: int, head: Header) -> tuple[str, int] | None:
    """A logger's name: between dashes, as ``file.py:12``, or before a colon when a level came before it."""
    if head.origin is not None:
        return None
    if m := _LOGGER_DASH.match(text, pos):
        return m[1], m.end()
    if m := _LOGGER_FILE.match(text, pos):
        return m[1], m.end()
    if head.level and (m := _LOGGER_COLON.match(text, pos)):
        name = m[1]
        if name not in _NOT_LOGGER and not name.lower().endswith(("error", "exception", "warning")):
            return name, m.end()
    return None


def _after(text: str, pos: int, padded: bool) -> int:
    """Index of the message: past one separator. Indentation is kept unless the last field is padded to a width."""
    if m := _MARK.match(text, pos):
        return m.end()
    if text[pos : pos + 1] in (" ", "\t"):
        pos += 1
    if padded:
        while pos < len(text) and text[pos] in " \t":
            pos += 1
    return pos
