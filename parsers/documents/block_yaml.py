"""Reads the block YAML that ``kubectl -o yaml`` writes (Go's sigs.k8s.io/yaml): nothing more of the language.

Maps and sequences by indentation (a sequence may stand at its key's own indentation), plain and quoted scalars, block
scalars, ``{}`` and ``[]``. Anchors, tags, flow collections with content and several keys a line do not occur there.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH_LIMIT = 64
_KEY = re.compile(r"(?P<key>\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'#\-][^:]*?|-[^\s:][^:]*?):(?:\s+(?P<value>.*))?$")
_Row = tuple[int, str]  # indentation, text


def load_all(text: str) -> list[Any]:
    """Documents of a stream, separated by ``---``.

    Raises:
        ValueError: for a line that is none of the above, with its text.
    """
    documents: list[Any] = []
    rows: list[_Row] = []
    for raw in [*text.split("\n"), "---"]:
        if raw.rstrip() == "---":
            if any(row[1] and not row[1].startswith("#") for row in rows):
                value, rest = _value(rows, 0, 0, 0)
                if rest < len(rows):
                    raise ValueError(f"unexpected line: {rows[rest][1][:80]}")
                documents.append(value)
            rows = []
        else:
            rows.append((len(raw) - len(raw.lstrip(" ")), raw.strip()))
    return documents


def _skip(rows: list[_Row], at: int) -> int:
    while at < len(rows) and (not rows[at][1] or rows[at][1].startswith("#")):
        at += 1
    return at


def _value(rows: list[_Row], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """The map, sequence or scalar that starts at row ``at`` and is indented by at least ``indent``."""
    at = _skip(rows, at)
    if depth > DEPTH_LIMIT:
        raise ValueError("nested too deeply")
    if at >= len(rows) or rows[at][0] < indent:
        return None, at
    own, text = rows[at]
    if text == "-" or text.startswith("- "):
        return _sequence(rows, at, own, depth)
    if _KEY.match(text):
        return _map(rows, at, own, depth)
    raise ValueError(f"unexpected line: {text[:80]}")


def _sequence(rows: list[_Row], at: int, own: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while (at := _skip(rows, at)) < len(rows) and rows[at][0] == own and (rows[at][1] == "-" or rows[at][1].startswith("- ")):
        inner = rows[at][1][1:].lstrip()
        if inner and (_KEY.match(inner) or inner.startswith("- ")):  # the item's first key stands behind the dash
            rows[at] = (own + len(rows[at][1]) - len(inner), inner)
            item, at = _value(rows, at, own + 1, depth + 1)
        elif inner:
            item, at = _scalar(rows, at, own, inner)
        else:
            item, at = _value(rows, at + 1, own + 1, depth + 1)
        items.append(item)
    return items, at


def _map(rows: list[_Row], at: int, own: int, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while (at := _skip(rows, at)) < len(rows) and rows[at][0] == own and (m := _KEY.match(rows[at][1])):
        key, value = str(_plain(m["key"])), (m["value"] or "").strip()
        if value:
            found[key], at = _scalar(rows, at, own, value)
            continue
        below = _skip(rows, at + 1)
        dash = below < len(rows) and rows[below][0] == own and (rows[below][1] == "-" or rows[below][1].startswith("- "))
        found[key], at = _value(rows, at + 1, own if dash else own + 1, depth + 1)
    return found, at


def _scalar(rows: list[_Row], at: int, own: int, text: str) -> tuple[Any, int]:
    """A scalar and the rows that continue it: block scalars keep their lines, folded ones become one line."""
    end = at + 1
    while end < len(rows) and (not rows[end][1] or rows[end][0] > own):
        end += 1
    below = [row[1] for row in rows[at + 1 : end]]
    if re.fullmatch(r"[|>][+-]?\d?", text):
        return ("\n" if text[0] == "|" else " ").join(below).strip(), end
    return _plain(" ".join([text, *(row for row in below if row)])), end


def _plain(text: str) -> Any:
    """The value of a scalar; a time stays a text."""
    if text[:1] == '"':
        try:
            return json.loads(text, strict=False)
        except json.JSONDecodeError:
            return text.strip('"')
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if text in ("null", "~"):
        return None
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
