"""Printed times: from the characters at the start of a line to a `Stamp`.

Formats and traps are those of log headers in the wild: Python logging, DeepSpeed, ISO 8601 / RFC 3339, Hugging Face
(``11/30/2026 21:40:19``), log4j (``25/03/02``), epoch numbers, syslog, ctime (Open MPI), dmesg in its four styles,
fabricmanager, GPFS, torchelastic blocks, Kibana and NCCL. Times of c10 and glog live in `parsers.headers`, because
their date is part of a severity token.

Dispatch is by the first character and the shape that follows, so a line without time costs about a microsecond.
Nothing here raises on bad input: what is not a valid time is no time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from enum import Enum
from functools import lru_cache

from correlator.parsers.schema import Stamp

DAY_US = 86_400_000_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH_FLOOR_S, _EPOCH_CEIL_S = 1_262_304_000, 2_208_988_800  # 2010 .. 2040: other ten-digit numbers are counters
FIND_LIMIT = 60  # characters in which `find_stamp` looks for the start of a time


class DateOrder(Enum):
    """What ``03/02/2025`` means in one file."""

    US = "month/day"
    EU = "day/month"


# Three letters are enough to tell months apart; the other spellings come from localized ``dmesg -T`` and ``ctime``.
_ENGLISH = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_ENGLISH, 1)}
_MONTHS |= {"mär": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12}
_MONTHS |= {"ene": 1, "abr": 4, "ago": 8, "dic": 12, "fév": 2, "avr": 4}
_WEEKDAYS = frozenset({"mon", "tue", "wed", "thu", "fri", "sat", "sun", "mo", "di", "mi", "do", "fr", "sa", "so"})

_TIME = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d{1,9}))?)?(?!\d|:\d)(?: ?([AaPp])\.?[Mm]\b)?"
_ZONE = r"(?: ?(Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d)(?!\d))?"
_A = re.ASCII

_LEAD = re.compile(r"(?:<\d{1,3}>(?:1 )?)?[ \t\-(|>*]*(\[?)[ \t]*", _A)
_ISO = re.compile(rf"(\d{{4}})[-/](\d\d?)[-/](\d\d?)(?:[T_ \t]|  | @ |, |-(?=\d\d:)){_TIME}{_ZONE}", _A)
_COMPACT = re.compile(rf"(\d{{4}})(\d\d)(\d\d)(?:[T_ -](\d\d):?(\d\d):?(\d\d)(?:[.,](\d{{1,9}}))?)(?![\d:])(){_ZONE}", _A)
_SLASH = re.compile(rf"(\d{{1,2}})/(\d{{1,2}})(?:/(\d{{4}}|\d\d))?(?:[T ,_]|, ){_TIME}{_ZONE}", _A)
_DASHED = re.compile(rf"(\d\d)-(\d\d) {_TIME}()", _A)  # vLLM: 07-01 12:34:56
_DAY_FIRST = re.compile(rf"(\d{{1,2}})[ /-]([A-Za-z]{{3}})[a-z]*[ /-](\d{{4}})[ :]{_TIME}{_ZONE}", _A)
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?=[\s\]|,)]|$)", _A)
_EPOCH = re.compile(r"(\d{10}|\d{13}|\d{16}|\d{19})(?:\.(\d{1,9}))?(?=[\s\]|,:;)]|$)", _A)
_NOT_EPOCH = re.compile(r"\s*(?:[KMGT]?i?B\b|bytes|tokens|samples|param|elem|rows)", re.IGNORECASE)
_NAMED = re.compile(
    r"(?:[^\W\d]{2,9}\.?,? +)?"  # weekday
    r"(?:([^\W\d]{3})(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\.? +(\d{1,2})(?:,? +(\d{4}))?|(\d{1,2}) ([^\W\d]{3}) (\d{4}))"
    rf"(?: @)? +{_TIME}(?: +(UTC|GMT|[A-Z]{{3,4}}(?= \d{{4}})|[+-]\d\d:?\d\d))?(?: +(\d{{4}})(?![\d:.]))?"
)
_DOW_ISO = re.compile(r"[A-Za-z]{3},? (?=\d{4}-)")  # journalctl short-full: Sun 2025-03-02 11:00:05 UTC
_UPTIME = re.compile(r"(\d{1,9})\.(\d{6})(?=\])", _A)
_DELTA = re.compile(r"\+(\d{1,9})\.(\d{6})(?=\])", _A)

_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL)"
_PREFIX = re.compile(
    rf"(?:\s*(?:{_LEVEL}\b(?::[\w.]+:)?|[\[(]?[Rr]ank[ =_:#-]?\d+(?:/\d+)?[\])]?|\[[^\[\]]{{1,34}}\]|datetime:"
    rf"|[A-Za-z][\w.-]*\d[\w.-]*:(?=\s))[\s:|,-]*){{1,3}}"
)
_TIME_NEAR = re.compile(r"\d:\d\d", _A)


def parse_stamp(text: str, *, ref_us: int, order: DateOrder = DateOrder.US, pos: int = 0) -> tuple[Stamp, int] | None:
    """Reads the time that `text` starts with.

    A bracket, blanks and short decoration (``- ``, ``<6>``) before it are allowed; a closing bracket is consumed.

    Args:
        text: one line. pos: where to start in it.
        ref_us: newest time the text can have been written, microseconds since 1970 (file modification time);
            a missing year is the latest one that puts the date at most a day after it.
        order: meaning of ``a/b`` dates that could be either.

    Returns:
        The stamp and the index after it, or None when the text does not start with a time.
    """
    lead = _LEAD.match(text, pos)
    assert lead is not None  # every part of the pattern is optional
    at = lead.end()
    first = text[at : at + 1]
    if first.isdigit():
        found = _digits(text, at, ref_us, order, bool(lead[1]))
    elif first.isalpha():
        found = _names(text, at, ref_us, order)
    elif first == "+" and lead[1] and (m := _DELTA.match(text, at)):
        found = _undated(int(m[1]) * 1_000_000 + int(m[2]), 1, m), m.end()
    else:
        return None
    if found is None:
        return None
    stamp, end = found
    if lead[1] and text[end : end + 1] == "]":
        end += 1
    return stamp, end


def find_stamp(text: str, ref_us: int, order: DateOrder = DateOrder.US) -> tuple[Stamp, int] | None:
    """Like `parse_stamp`, but a short prefix that is no time may come first.

    Allowed are up to three of: a level, ``rank3``, a bracket, ``datetime:``, a host name with colon; the time must
    start within the first 60 characters. A date inside a sentence is not the line's time.
    """
    if not _TIME_NEAR.search(text, 0, FIND_LIMIT + 20):
        return None
    found = parse_stamp(text, ref_us=ref_us, order=order)
    if found is not None:
        return found
    m = _PREFIX.match(text, 0, FIND_LIMIT)
    if m is None:
        return None
    return parse_stamp(text, ref_us=ref_us, order=order, pos=m.end())


def slash_order(samples: Iterable[str]) -> DateOrder:
    """Decides the order of ``a/b`` dates from lines of one file: a first number over 12 can only be a day."""
    for text in samples:
        m = _SLASH.search(text, 0, FIND_LIMIT + 20)
        if m is None or (m[3] is not None and len(m[3]) == 2):  # yy/mm/dd says nothing about it
            continue
        if int(m[1]) > 12 >= int(m[2]):
            return DateOrder.EU
        if int(m[2]) > 12 >= int(m[1]):
            return DateOrder.US
    return DateOrder.US


def stamp_of(
    year: int | None, month: int, day: int, clock: tuple[str | None, ...], ref_us: int, text: str, *,
    offset_min: int | None = None, resolution_us: int | None = None,
) -> Stamp | None:  # fmt: skip
    """Builds a stamp from printed parts, None when they are no valid date and time.

    Args:
        year: None when it is not printed; then it is inferred from `ref_us`.
        clock: hour, minute, second, fraction digits, ``A``/``P`` of AM and PM, as printed; later ones may be missing.
        resolution_us: overrides the step that the printed digits suggest.
    """
    hour, minute, second, fraction, half = (*clock, None, None, None)[:5]
    h, mi, s = int(hour or 0), int(minute or 0), int(second or 0)
    if half:
        if not 1 <= h <= 12:
            return None
        h = h % 12 + (12 if half in "pP" else 0)
    if h > 23 or mi > 59 or s > 60:
        return None
    micros = ((h * 60 + mi) * 60 + s) * 1_000_000 + (int(fraction[:6].ljust(6, "0")) if fraction else 0)
    day_no = _day_number(year, month, day, micros, ref_us)
    if day_no is None:
        return None
    if resolution_us is None:
        resolution_us = 60_000_000 if second is None else _step(fraction)
    return Stamp(day_no * DAY_US + micros, offset_min, resolution_us, year is not None, True, text)


def _step(fraction: str | None) -> int:
    """Microseconds between two times that can be told apart with these fraction digits."""
    return (1_000_000, 100_000, 10_000, 1000, 100, 10, 1)[min(6, len(fraction or ""))]


# ---- dates ---------------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def _ordinal(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _latest_year(ref_us: int) -> int:
    """Year of the newest plausible time, in the range that `date` can hold."""
    try:
        return datetime.fromtimestamp((ref_us + DAY_US) / 1_000_000, UTC).year
    except (ValueError, OverflowError, OSError):
        return 9999 if ref_us > 0 else 1


def _day_number(year: int | None, month: int, day: int, micros: int, ref_us: int) -> int | None:
    if year is not None:
        return _ordinal(year, month, day)
    newest = _latest_year(ref_us)
    for candidate in range(newest, max(0, newest - 9), -1):  # 29 February may be eight years back (1896, 1904)
        number = _ordinal(candidate, month, day)
        if number is not None and number * DAY_US + micros <= ref_us + DAY_US:
            return number
    return None


def _offset(zone: str | None) -> int | None:
    """Minutes east of UTC of ``Z``, ``UTC``, ``+05:30`` or ``-0500``; None for none or an unknown abbreviation."""
    if not zone:
        return None
    if zone in ("Z", "UTC", "GMT"):
        return 0
    if zone[0] not in "+-":
        return None
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    if minutes > 15 * 60:
        return None
    return -minutes if zone[0] == "-" else minutes


def _undated(micros: int, resolution_us: int, m: re.Match[str]) -> Stamp:
    return Stamp(micros, None, resolution_us, False, False, m[0])


def _end(stamp: Stamp | None, m: re.Match[str]) -> tuple[Stamp, int] | None:
    return None if stamp is None else (stamp, m.end())


# ---- shapes --------------------------------------------------------------------------------------
def _digits(text: str, at: int, ref_us: int, order: DateOrder, bracket: bool) -> tuple[Stamp, int] | None:
    if text[at + 4 : at + 5] in ("-", "/"):
        if m := _ISO.match(text, at):
            zone = _offset(m[9])
            return _end(stamp_of(int(m[1]), int(m[2]), int(m[3]), m.group(4, 5, 6, 7, 8), ref_us, m[0], offset_min=zone), m)
        return None
    mark = text[at + 2 : at + 3]
    if mark == "/" or text[at + 1 : at + 2] == "/":
        m = _SLASH.match(text, at)
        if m and (m[3] or m[6]):  # ``3/4 12:05`` is a counter
            return _end(_slashed(m, ref_us, order), m)
    elif mark == "-" and (m := _DASHED.match(text, at)):
        return _end(stamp_of(None, int(m[1]), int(m[2]), m.group(3, 4, 5, 6, 7), ref_us, m[0]), m)
    elif mark == ":" and (m := _CLOCK.match(text, at)):
        day = stamp_of(1970, 1, 1, m.group(1, 2, 3, 4), ref_us, m[0])
        return None if day is None else (_undated(day.naive_us, day.resolution_us, m), m.end())
    if bracket and (m := _UPTIME.match(text, at)):
        return _undated(int(m[1]) * 1_000_000 + int(m[2]), 1, m), m.end()
    if m := _EPOCH.match(text, at):
        return _epoch(text, m)
    if m := _COMPACT.match(text, at):
        zone = _offset(m[9])
        return _end(stamp_of(int(m[1]), int(m[2]), int(m[3]), m.group(4, 5, 6, 7, 8), ref_us, m[0], offset_min=zone), m)
    if m := _DAY_FIRST.match(text, at):
        month = _MONTHS.get(m[2].lower())
        if month is not None:
            zone = _offset(m[9])
            return _end(stamp_of(int(m[3]), month, int(m[1]), m.group(4, 5, 6, 7, 8), ref_us, m[0], offset_min=zone), m)
    return None


def _slashed(m: re.Match[str], ref_us: int, order: DateOrder) -> Stamp | None:
    """``11/30/2026``, ``30/11/2026``, ``12/19`` and log4j's ``25/03/02``: the first reading that is a past date."""
    a, b, year = int(m[1]), int(m[2]), m[3]
    readings: list[tuple[int | None, int, int]]
    if year is not None and len(year) == 2:
        readings = [(2000 + a, b, int(year)), (2000 + int(year), a, b), (2000 + int(year), b, a)]
    else:
        full = int(year) if year else None
        readings = [(full, a, b), (full, b, a)]
        if order is DateOrder.EU:
            readings.reverse()
    clock, zone = m.group(4, 5, 6, 7, 8), _offset(m[9])
    made = [s for y, mo, d in readings if (s := stamp_of(y, mo, d, clock, ref_us, m[0], offset_min=zone))]
    past = [s for s in made if s.naive_us <= ref_us + DAY_US]
    if year is not None and len(year) == 2 and past:
        return max(past, key=lambda s: s.naive_us)
    return past[0] if past else made[0] if made else None


def _epoch(text: str, m: re.Match[str]) -> tuple[Stamp, int] | None:
    """Seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by the number of digits."""
    digits, fraction = m[1], m[2]
    scale = len(digits) - 10
    whole, rest = digits[:10], digits[10:] + (fraction or "")
    if not _EPOCH_FLOOR_S <= int(whole) <= _EPOCH_CEIL_S or (scale == 0 and not fraction and _NOT_EPOCH.match(text, m.end())):
        return None
    micros = int(whole) * 1_000_000 + int(rest[:6].ljust(6, "0"))
    return Stamp(micros, 0, _step(rest), True, True, m[0]), m.end()


def _names(text: str, at: int, ref_us: int, order: DateOrder) -> tuple[Stamp, int] | None:
    key = text[at : at + 3].lower()
    if key not in _MONTHS:
        if key not in _WEEKDAYS and key.rstrip(" .,") not in _WEEKDAYS:
            return None
        if m := _DOW_ISO.match(text, at):
            return _digits(text, m.end(), ref_us, order, False)
    m = _NAMED.match(text, at)
    if m is None:
        return None
    month = _MONTHS.get((m[1] or m[5]).lower())
    if month is None:
        return None
    year = m[3] or m[6] or m[13]
    end = m.end()
    printed = m[0]
    if m[13] and (m[3] or m[6]):  # a second number is text
        end = m.start(13) - 1
        printed = text[at:end]
    clock = m.group(7, 8, 9, 10, 11)
    stamp = stamp_of(int(year) if year else None, month, int(m[2] or m[4]), clock, ref_us, printed, offset_min=_offset(m[12]))
    return None if stamp is None else (stamp, end)
