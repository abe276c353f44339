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


PROTO2 = b"\x80\x02"


@pytest.mark.parametrize(
    "stream",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # GLOBAL, REDUCE
        PROTO2 + b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.",  # STACK_GLOBAL
        b"(ios\nsystem\n.",  # INST
        b"(cos\nsystem\no.",  # OBJ
        PROTO2 + b"cos\nsystem\n)\x81.",  # NEWOBJ
        PROTO2 + b"}}b.",  # BUILD
        PROTO2 + b"\x82\x01.",  # EXT1
        PROTO2 + b"\x83\x01\x00.",  # EXT2
        PROTO2 + b"\x84\x01\x00\x00\x00.",  # EXT4
        b"Pid\n.",  # PERSID
        PROTO2 + b"Nq\x00Q.",  # BINPERSID
        PROTO2 + b"\x8b\xff\xff\xff\x00.",  # LONG4 of 16 MiB
        b"I1" + b"0" * 50 + b"\n.",  # text numbers are not written by any dump
        b"\x80\x05\x97.",  # NEXT_BUFFER
    ],
)
def test_every_opcode_that_could_do_more_is_refused(stream: bytes) -> None:
    with pytest.raises(ValueError):  # UnsafePickle, or a stream cut short of what it announces
        safe_pickle.loads(stream)


@pytest.mark.parametrize(
    "stream",
    [PROTO2 + b"X\xff\xff\xff\x7fabc.", PROTO2 + b"\x8d" + struct.pack("<Q", 1 << 62) + b"abc.", b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N."],
    ids=["text", "text8", "frame"],
)
def test_announced_sizes_are_not_believed(stream: bytes) -> None:
    try:
        safe_pickle.loads(stream)
    except ValueError:
        return


def test_deep_nesting_needs_no_recursion() -> None:
    deep = PROTO2 + b"]" * 200_000 + b"a" * 199_999 + b"."
    value, levels = safe_pickle.loads(deep), 0
    while value:
        value, levels = value[0], levels + 1
    assert levels == 199_999


def test_a_key_whose_hash_explodes_is_refused() -> None:
    doubling = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))  # t = (t, t), sixty times
    with pytest.raises(safe_pickle.UnsafePickle, match="tuple as key"):
        safe_pickle.loads(PROTO2 + b"}" + b"N" + doubling + b"Ns.")


@pytest.mark.parametrize("stream", [PROTO2 + b"a.", PROTO2 + b"Na.", PROTO2 + b"u.", PROTO2 + b"}(Nu.", PROTO2 + b"\x87.", PROTO2 + b"N"])
def test_streams_out_of_order_are_value_errors(stream: bytes) -> None:
    with pytest.raises(ValueError):
        safe_pickle.loads(stream)
