"""Reads pickles that hold plain values only, without ever running anything from them.

A flight recorder dump is written by another program on another machine, so it is not trusted. The dumps of
ProcessGroupNCCL and of gloo hold dicts, lists, tuples, strings, numbers, booleans and None, and need no class at
all (torch/csrc/distributed/c10d/FlightRecorder.hpp writes ``IValue`` containers of these). So the standard unpickler
is not used: this is a small stack machine for the opcodes of plain values, which knows no way to a class, a call or a
persistent object. It also refuses what would only waste time or memory: keys that are no plain scalars (the hash of
nested tuples grows exponentially with sharing), huge integers, memo slots that the stream cannot have filled.
"""

from __future__ import annotations

import pickletools
from typing import Any

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

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_ARGUMENTS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_MAKERS: dict[str, type] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_FIXED = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_SCALARS = (str, int, float, bool, type(None))


class UnsafePickle(ValueError):
    """The pickle asks for something that a dump of plain values never needs."""


def loads(data: bytes) -> Any:
    """The value of a pickle of plain values.

    Raises:
        UnsafePickle: an opcode outside ``OPCODES_ALLOWED``, or one of the wastes named above.
        ValueError: the stream is damaged, cut or no pickle.
    """
    try:
        return _run(data)
    except UnsafePickle:
        raise
    except Exception as exc:  # damaged bytes lead to whatever they lead to: an empty stack, a missing memo slot
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc


def _run(data: bytes) -> Any:
    stack: list[Any] = []
    outer: list[list[Any]] = []  # stacks below the open marks
    memo: dict[int, Any] = {}
    for count, (opcode, arg, at) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if name not in OPCODES_ALLOWED:
            raise UnsafePickle(f"opcode {name} at byte {at}")
        if name in _ARGUMENTS:
            if name == "LONG1" and arg.bit_length() > 8 * LONG_LIMIT:
                raise UnsafePickle(f"an integer of {arg.bit_length()} bits at byte {at}")
            stack.append(arg)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _MAKERS:
            stack.append(_MAKERS[name]())
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[arg])
        elif name in ("BINPUT", "LONG_BINPUT"):
            if arg > count:
                raise UnsafePickle(f"memo slot {arg} at byte {at}")
            memo[arg] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name == "MARK":
            outer.append(stack)
            stack = []
        elif name in _FIXED:
            stack[-_FIXED[name] :] = [tuple(_top(stack, _FIXED[name]))]
        elif name in ("APPEND", "SETITEM"):
            items = [stack.pop()] if name == "APPEND" else [stack.pop(-2), stack.pop()]
            _fill(stack[-1], items, at)
        elif name in ("APPENDS", "SETITEMS", "TUPLE"):
            items, stack = stack, outer.pop()
            if name == "TUPLE":
                stack.append(tuple(items))
            else:
                _fill(stack[-1], items, at)
        elif name == "STOP":
            return stack.pop()
    raise ValueError("no end")


def _top(stack: list[Any], n: int) -> list[Any]:
    if len(stack) < n:
        raise IndexError("stack underflow")
    return stack[-n:]


def _fill(target: Any, items: list[Any], at: int) -> None:
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, dict):
        if len(items) % 2:
            raise ValueError(f"odd number of items at byte {at}")
        for key in items[::2]:
            if not isinstance(key, _SCALARS):
                raise UnsafePickle(f"a {type(key).__name__} as key at byte {at}")
        target.update(zip(items[::2], items[1::2], strict=True))
    else:
        raise ValueError(f"items for a {type(target).__name__} at byte {at}")
