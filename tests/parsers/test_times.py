"""Printed times: every format read right, nothing raised, year and day order inferred."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.parsers.times import DAY_US, DateOrder, find_stamp, parse_stamp, slash_order


def us(*parts: int) -> int:
    """Microseconds since 1970 of a reading taken as UTC; the seventh part is microseconds."""
    delta = datetime(*parts, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return delta // timedelta(microseconds=1)


REF = us(2026, 12, 2)
MARCH = us(2025, 3, 2, 11, 0, 5)

# text, naive reading, offset in minutes, resolution, has_year, what is left
DATED = [
    ("2025-03-02 11:00:05,123 INFO", MARCH + 123_000, None, 1000, True, " INFO"),
    ("[2025-03-02 11:00:05,123] [INFO]", MARCH + 123_000, None, 1000, True, " [INFO]"),
    ("2025-03-02T11:00:05.123456789Z x", MARCH + 123_456, 0, 1, True, " x"),
    ("2025-03-02T11:00:05.1Z x", MARCH + 100_000, 0, 100_000, True, " x"),
    ("2025-03-02T11:00:05+05:30 x", MARCH, 330, 1_000_000, True, " x"),
    ("2025-03-02T11:00:05+0000 x", MARCH, 0, 1_000_000, True, " x"),
    ("2025-03-02 11:00:05 -0500\tx", MARCH, -300, 1_000_000, True, "\tx"),
    ("2025-03-02T11:00:05,285060+00:00 x", MARCH + 285_060, 0, 1, True, " x"),
    ("2025-03-02 11:00:05: x", MARCH, None, 1_000_000, True, ": x"),
    ("03/02/2025 11:00:05 - INFO", MARCH, None, 1_000_000, True, " - INFO"),
    ("12/19 11:10:23 - x", us(2025, 12, 19, 11, 10, 23), None, 1_000_000, False, " - x"),
    ("25/03/02 11:00:05 INFO", MARCH, None, 1_000_000, True, " INFO"),
    ("1740913205 x", MARCH, 0, 1_000_000, True, " x"),
    ("1740913205.123456 x", MARCH + 123_456, 0, 1, True, " x"),
    ("1740913205123 x", MARCH + 123_000, 0, 1000, True, " x"),
    ("1740913205123456 x", MARCH + 123_456, 0, 1, True, " x"),
    ("1740913205123456789 x", MARCH + 123_456, 0, 1, True, " x"),
    ("Mar  2 11:00:05 node-3 kernel: x", us(2026, 3, 2, 11, 0, 5), None, 1_000_000, False, " node-3 kernel: x"),
    ("Sun Mar  2 11:00:05 2025[1,3]<stderr>:x", MARCH, None, 1_000_000, True, "[1,3]<stderr>:x"),
    ("[Sun Mar  2 11:00:05 2025] x", MARCH, None, 1_000_000, True, " x"),
    ("[So Mär  2 11:00:05 2025] x", MARCH, None, 1_000_000, True, " x"),
    ("[Jan 4 00:31] x", us(2026, 1, 4, 0, 31), None, 60_000_000, False, " x"),
    ("[Mar 02 2025 11:00:05] [ERROR]", MARCH, None, 1_000_000, True, " [ERROR]"),
    ("2025-03-02_11:00:05.123+0000: [E]", MARCH + 123_000, 0, 1000, True, ": [E]"),
    ("2025-03-02_11:00:05", MARCH, None, 1_000_000, True, ""),
    ("Mar 2, 2025 @ 11:00:05.123", MARCH + 123_000, None, 1000, True, ""),
    ("03/02/2025 11:00:05 AM x", MARCH, None, 1_000_000, True, " x"),
    ("03/02/2025 11:00:05 PM x", MARCH + 12 * 3_600_000_000, None, 1_000_000, True, " x"),
    (" [2025-03-02 11:00:05] iteration", MARCH, None, 1_000_000, True, " iteration"),
    (" [2025-03-02 11:00:05.123456] iteration", MARCH + 123_456, None, 1, True, " iteration"),
    ("2026-06-05 02:14:9.452 x", us(2026, 6, 5, 2, 14, 9, 452_000), None, 1000, True, " x"),
    ("- 2025-03-02 11:00:05 - x", MARCH, None, 1_000_000, True, " - x"),
    ("Sun 2025-03-02 11:00:05 UTC x", MARCH, 0, 1_000_000, True, " x"),
    ("07-01 12:34:56 [x.py:1]", us(2026, 7, 1, 12, 34, 56), None, 1_000_000, False, " [x.py:1]"),
]


@pytest.mark.parametrize(("text", "naive", "offset", "step", "has_year", "rest"), DATED)
def test_dated_formats(text: str, naive: int, offset: int | None, step: int, has_year: bool, rest: str) -> None:
    found = parse_stamp(text, ref_us=REF)
    assert found is not None
    stamp, end = found
    assert (stamp.naive_us, stamp.offset_min, stamp.resolution_us) == (naive, offset, step)
    assert (stamp.has_year, stamp.has_date, text[end:]) == (has_year, True, rest)
    assert stamp.text in text


@pytest.mark.parametrize(
    ("text", "micros", "rest"),
    [
        ("[12345.678901] NVRM", 12_345_678_901, " NVRM"),
        ("[   12.000300][ T123] x", 12_000_300, "[ T123] x"),
        ("[  +0.000004] pcieport", 4, " pcieport"),
        ("11:00:05.123 x", 39_605_123_000, " x"),
    ],
)
def test_times_without_date(text: str, micros: int, rest: str) -> None:
    found = parse_stamp(text, ref_us=REF)
    assert found is not None
    assert (found[0].naive_us, found[0].has_date, found[0].has_year) == (micros, False, False)
    assert text[found[1] :] == rest


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "step 10 loss 2.1", '  File "x.py", line 3', "1740913205 bytes written", "9999999999 x", "3/4 12:05 left",
        "2025-13-02 11:00:05", "2025-02-30 11:00:05", "2025-03-02 25:00:05", "[rank3]: x", "[0.25]", "Marking 2 11:00:05",
        "03/02/2025 13:00:05 PM",
    ],
)  # fmt: skip
def test_no_time(text: str) -> None:
    assert parse_stamp(text, ref_us=REF) is None


def test_zone_is_applied() -> None:
    found = parse_stamp("2025-03-02T11:00:05+05:30", ref_us=REF)
    assert found is not None
    assert found[0].utc_us == MARCH - 330 * 60_000_000


@pytest.mark.parametrize(
    ("text", "ref", "year"),
    [
        ("Dec 31 23:59:58", us(2026, 1, 1, 0, 0, 3), 2025),
        ("Jan  1 12:00:00", us(2025, 12, 31, 20), 2026),  # the host's zone may be ahead by up to a day
        ("Jan  3 12:00:00", us(2025, 12, 31, 20), 2025),
        ("Feb 29 10:00:00", us(2026, 6, 1), 2024),
        ("Feb 29 10:00:00", us(2103, 6, 1), 2096),  # 2100 is no leap year
    ],
)
def test_missing_year_is_the_latest_possible(text: str, ref: int, year: int) -> None:
    found = parse_stamp(text, ref_us=ref)
    assert found is not None
    assert (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=found[0].naive_us)).year == year


def test_slash_order_is_decided_by_a_day_over_twelve() -> None:
    assert slash_order(["03/02/2025 11:00:05 a", "23/02/2025 11:00:05 b"]) is DateOrder.EU
    assert slash_order(["03/02/2025 11:00:05 a", "02/23/2025 11:00:05 b"]) is DateOrder.US
    assert slash_order(["03/02/2025 11:00:05 a", "25/03/02 11:00:05 log4j"]) is DateOrder.US
    eu = parse_stamp("03/02/2025 11:00:05", ref_us=REF, order=DateOrder.EU)
    assert eu is not None
    assert eu[0].naive_us == us(2025, 2, 3, 11, 0, 5)


@pytest.mark.parametrize(
    "text",
    [
        "INFO:2025-03-02 11:00:05,000 x", "INFO  2025-03-02 11:00:05 x", "rank3 2025-03-02 11:00:05 x", " 2025-03-02 11:00:05",
        "[after dataloaders are built] datetime: 2025-03-02 11:00:05 ", "node-1: 2025-03-02 11:00:05 x", "[rank 3] 2025-03-02 11:00:05",
    ],
)  # fmt: skip
def test_find_stamp_after_a_prefix(text: str) -> None:
    found = find_stamp(text, REF)
    assert found is not None
    assert found[0].naive_us == MARCH


@pytest.mark.parametrize("text", ["saved at 2025-03-02 11:00:05", "  time      : 2025-03-02_11:00:05", "x" * 80 + " 2025-03-02 11:00:05"])
def test_a_date_inside_a_sentence_is_not_the_lines_time(text: str) -> None:
    assert find_stamp(text, REF) is None


FORMATS = [
    "%Y-%m-%d %H:%M:%S,{ms}", "[%Y-%m-%d %H:%M:%S,{ms}]", "%Y-%m-%dT%H:%M:%S.{us}Z", "%m/%d/%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S",
    "%y/%m/%d %H:%M:%S", "%a %b %d %H:%M:%S %Y", "[%b %d %Y %H:%M:%S]", "%Y-%m-%d_%H:%M:%S.{ms}", "%b %d, %Y @ %H:%M:%S.{ms}",
    "%m/%d/%Y %I:%M:%S %p", "%b %d %H:%M:%S", "%Y%m%dT%H%M%SZ", "{epoch}.{us}", "{epoch}{ms}",
]  # fmt: skip


@given(
    st.datetimes(datetime(2021, 1, 1), datetime(2026, 11, 30)),
    st.sampled_from(FORMATS),
)
def test_round_trip(when: datetime, fmt: str) -> None:
    if "%Y" not in fmt and "%y" not in fmt and "epoch" not in fmt:
        # REF is 2 December 2026: dates from the 3rd on are last year's
        leap = (when.month, when.day) == (2, 29)
        late = (when.month, when.day, when.hour, when.minute, when.second) > (12, 3, 0, 0, 0)
        when = when.replace(year=2024 if leap else 2025 if late else 2026)
    seconds = us(when.year, when.month, when.day, when.hour, when.minute, when.second)
    text = when.strftime(fmt).format(ms=f"{when.microsecond // 1000:03}", us=f"{when.microsecond:06}", epoch=seconds // 1_000_000)
    found = parse_stamp(text + " message", ref_us=REF)
    assert found is not None, text
    stamp, end = found
    expected = seconds + (when.microsecond if "{us}" in fmt else when.microsecond // 1000 * 1000 if "{ms}" in fmt else 0)
    if fmt != "%y/%m/%d %H:%M:%S":
        assert stamp.naive_us == expected
    else:  # 24/11/12 has three readings; the newest past one counts
        assert expected <= stamp.naive_us <= REF + DAY_US
    assert (text + " message")[end:] == " message"


JUNK = st.one_of(
    st.text(),
    st.text(alphabet="0123456789-/:.,+ TZ[]JanFebSun²٣", max_size=40),
    st.sampled_from([t[0] for t in DATED]).flatmap(lambda t: st.integers(0, len(t)).map(lambda n: t[:n] + "9" + t[n:])),
)


@given(JUNK, st.integers(-(10**18), 10**18))
def test_never_raises(text: str, ref: int) -> None:
    for found in (parse_stamp(text, ref_us=ref), find_stamp(text, ref)):
        assert found is None or 0 < found[1] <= len(text)
