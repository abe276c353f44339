"""Where a key stands in a rule file: tomllib keeps no positions, and an error without a line helps nobody."""

from __future__ import annotations

import re

_TABLE = re.compile(r"^\s*(?P<brackets>\[\[?)\s*(?P<name>[\w.-]+)\s*\]")
_KEY = re.compile(r"""^\s*["']?(?P<key>[\w.-]+)["']?\s*=""")
_QUOTES = ("'''", '"""')


def line_of(text: str, key: str = "", table: str = "", index: int = 0) -> int:
    """1-based line of a key, else of its table, else 1.

    ``table`` is the name in brackets (empty: the top of the file), ``index`` which of several ``[[table]]`` is meant.
    Lines inside multi-line strings are not keys.
    """
    current, seen, found, closing = "", {}, 1, ""
    for number, line in enumerate(text.splitlines(), 1):
        if closing:
            closing = "" if closing in line else closing
            continue
        if header := _TABLE.match(line):
            current = header["name"]
            seen[current] = seen.get(current, -1) + 1
            if current == table and seen[current] == index:
                found = number
        elif (hit := _KEY.match(line)) and current == table and seen.get(current, 0) == index and hit["key"].split(".")[0] == key:
            return number
        closing = next((q for q in _QUOTES if line.count(q) % 2 == 1), "")
    return found
