"""Reads pickles that hold plain values only, without ever running anything from them.

A flight recorder dump is written by another program on another machine, so it is not trusted. The dumps of
ProcessGroupNCCL and of gloo hold dicts, lists, tuples, strings, numbers, booleans and None, and need no class at
all (torch/csrc/distributed/c10d/FlightRecorder.hpp writes ``IValue`` containers of these). Hence two fences:
every opcode is checked against a list before anything is built, and the unpickler that follows refuses each
look-up of a class or a persistent object.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any, NoReturn

OPCODES_ALLOWED = frozenset(
    (
        "PROTO", "FRAME", "STOP", "MARK",
        "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
        "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
        "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND", "APPENDS",
        "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
        "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET",
    )
)  # fmt: skip
LONG_LIMIT = 16  # bytes of an integer; a dump's largest are 64-bit


class UnsafePickle(ValueError):
    """The pickle asks for something that a dump of plain values never needs."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickle(f"asks for the class {module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickle("asks for a persistent object")


def check(data: bytes) -> None:
    """Walks over the opcodes without building anything.

    Raises:
        UnsafePickle: an opcode outside ``OPCODES_ALLOWED``, or a memo slot far beyond what the stream can have
            filled (the unpickler would reserve memory for all slots below it).
        ValueError: the stream ends early or is no pickle.
    """
    for count, (opcode, arg, at) in enumerate(pickletools.genops(data)):
        if opcode.name not in OPCODES_ALLOWED:
            raise UnsafePickle(f"opcode {opcode.name} at byte {at}")
        if opcode.name in ("BINPUT", "LONG_BINPUT") and isinstance(arg, int) and arg > count:
            raise UnsafePickle(f"memo slot {arg} at byte {at}")
        if opcode.name == "LONG1" and isinstance(arg, int) and arg.bit_length() > 8 * LONG_LIMIT:
            raise UnsafePickle(f"an integer of {arg.bit_length()} bits at byte {at}")


def loads(data: bytes) -> Any:
    """The value of a pickle of plain values.

    Raises:
        UnsafePickle: see ``check``.
        ValueError: the stream is damaged, cut or no pickle.
    """
    check(data)
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except UnsafePickle:
        raise
    except Exception as exc:  # the unpickler raises whatever the damaged bytes lead it to
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc
