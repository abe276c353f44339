"""Ranks that count inside one process group only, and when they may be read as global ones.

Gloo, the store and the fingerprint check number ranks within their group (ProcessGroup::getRank). In the default
group both numbers agree. A speaker whose number in the group differs from the global rank on its own line proves
that the group is another one; then a number that it names says nothing about a global rank.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line


def settle(fields: dict[str, Any], line: Line) -> dict[str, Any]:
    """The same fields, with numbers that cannot be global moved to where no law takes them for global ranks."""
    speaker = fields.get("group_rank", fields.get("self_rank"))
    if not fields.get("group_local") or line.rank is None or speaker is None or speaker == line.rank:
        return fields
    out = dict(fields)
    if "peer_rank" in out:
        out["peer_group_rank"] = out.pop("peer_rank")
    if "ranks" in out:
        out["reliable"] = False
    for name in ("self_rank", "other_rank"):
        if name in out:
            out[f"group_{name}"] = out.pop(name)
    return out


LISTED = 1024  # members up to which a list stays a list


def compact(ranks: list[int]) -> list[int] | str:
    """Members of a group for an event: a list, or ``0-4095,8192-12287:8`` (first-last:stride) where it would be long.

    Every dump of a large job lists all members of its groups; ranks of a group nearly always stand at one distance.
    """
    if len(ranks) <= LISTED:
        return ranks
    runs: list[str] = []
    at = 0
    while at < len(ranks):
        step = ranks[at + 1] - ranks[at] if at + 1 < len(ranks) else 1
        end = at
        while end + 1 < len(ranks) and ranks[end + 1] - ranks[end] == step:
            end += 1
        if step < 1:
            end = at
        runs.append(str(ranks[at]) if end == at else f"{ranks[at]}-{ranks[end]}" + ("" if step == 1 else f":{step}"))
        at = end + 1
    return ",".join(runs)


def expand(value: list[int] | str) -> list[int]:
    """The members that ``compact`` wrote, in the order of the group."""
    if not isinstance(value, str):
        return [int(r) for r in value]
    out: list[int] = []
    for m in re.finditer(r"(\d+)(?:-(\d+)(?::(\d+))?)?", value):
        out.extend(range(int(m[1]), int(m[2] or m[1]) + 1, int(m[3] or 1)))
    return out
