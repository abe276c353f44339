"""Ranks that count inside one process group only, and when they may be read as global ones.

Gloo, the store and the fingerprint check number ranks within their group (ProcessGroup::getRank). In the default
group both numbers agree. A speaker whose number in the group differs from the global rank on its own line proves
that the group is another one; then a number that it names says nothing about a global rank.
"""

from __future__ import annotations

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
