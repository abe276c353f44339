from __future__ import annotations

import pickle
import struct
from collections import OrderedDict

import pytest

from correlator.parsers.documents import safe_pickle

PLAIN = {"a": [1, -70000, 2**40, 1.5, None, True, False], "t": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "": [], "s": "ü" * 300, "one": [0]}


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("ran",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_back(protocol: int) -> None:
    assert safe_pickle.loads(pickle.dumps(PLAIN, protocol)) == PLAIN


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("value", [Evil(), print, OrderedDict(a=1), {"entries": [Evil()]}])
def test_anything_that_needs_a_class_is_refused(value: object, protocol: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(safe_pickle.UnsafePickle, match="opcode"):
        safe_pickle.loads(pickle.dumps(value, protocol))
    assert capsys.readouterr().out == ""


def test_memo_slots_beyond_the_stream_are_refused() -> None:
    bomb = b"\x80\x02]r" + struct.pack("<I", 3_000_000_000) + b"."
    with pytest.raises(safe_pickle.UnsafePickle, match="memo slot 3000000000"):
        safe_pickle.loads(bomb)


def test_huge_integers_are_refused() -> None:
    with pytest.raises(safe_pickle.UnsafePickle, match="integer"):
        safe_pickle.loads(pickle.dumps(1 << 1000, 2))


@pytest.mark.parametrize("cut", [1, 2, 10, -1])
def test_a_cut_pickle_is_a_value_error(cut: int) -> None:
    with pytest.raises(ValueError):
        safe_pickle.loads(pickle.dumps(PLAIN, 2)[:cut])


def test_a_stream_that_breaks_the_unpickler_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        safe_pickle.loads(b"\x80\x02h\x05.")  # asks for a memo slot that was never filled
