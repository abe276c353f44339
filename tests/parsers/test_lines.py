"""Lines from bytes: counted by newline alone, offsets exact, nothing lost, whatever the bytes are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from correlator.parsers.lines import LINE_LIMIT, Chunk, iter_chunks, prefilter, segments, strip_ansi


def _chunks(data: bytes, piece: int, size: int) -> list[Chunk]:
    return list(iter_chunks((data[i : i + piece] for i in range(0, len(data), piece)), size=size))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400).map(lambda b: b.replace(b"\r", b"\n")), st.integers(1, 50), st.integers(1, 100))
def test_lines_are_the_bytes_between_newlines(data: bytes, piece: int, size: int) -> None:
    chunks = _chunks(data, piece, size)
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()

    lines = [(c.first_line + i, c.offset(i), c.text(i)) for c in chunks for i in range(len(c))]

    assert [n for n, _, _ in lines] == list(range(1, len(expected) + 1))
    at = 0
    for (_, offset, text), raw in zip(lines, expected, strict=True):
        assert offset == at
        assert len(text.encode()) == len(raw)  # every bad byte is one question mark
        at += len(raw) + 1


def test_last_line_without_newline_is_torn() -> None:
    assert [c.torn for c in _chunks(b"a\nb", 10, 10)] == [True]
    assert [c.torn for c in _chunks(b"a\nb\n", 10, 10)] == [False]


def test_unicode_line_separators_do_not_split() -> None:
    data = "a\u2028b\x85c\nd\n".encode()
    (chunk,) = _chunks(data, 100, 100)
    assert len(chunk) == 2


def test_long_line_is_cut_and_reported() -> None:
    problems: list[tuple[int | None, str, str]] = []
    data = b"x" * (10 << 20) + b"\nshort\n"
    (chunk,) = list(iter_chunks(iter([data]), problem=lambda *p: problems.append(p)))
    assert len(chunk.text(0)) == LINE_LIMIT
    assert chunk.text(1) == "short"
    assert [p[:2] for p in problems] == [(1, "long_line")]


def test_prefilter_finds_literals_with_regex_characters() -> None:
    (chunk,) = _chunks(b"ordinary\n[rank3]: Traceback\n(exitcode: -9)\n", 100, 100)
    assert prefilter(chunk, ("[rank", "(exitcode")) == [1, 2]


def test_progress_bars_keep_their_last_state_and_every_word_of_failure() -> None:
    bar = "\r".join(f" {i}%|##| {i}/100 [00:01<00:02]" for i in range(100)) + "\rTraceback (most recent call last):"
    assert segments(bar)[-1] == "Traceback (most recent call last):"
    assert segments("plain") == ("plain",)


def test_ansi_and_nul_are_removed() -> None:
    assert strip_ansi("\x1b[31mred\x1b[0m\x00") == "red"
