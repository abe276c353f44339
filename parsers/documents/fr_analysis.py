"""Text of the stock flight recorder analyser (torchfrtrace, torch.distributed.flight_recorder).

It takes the first dump it loads as right, so its "Culprit rank N" means "differs from that dump": that calls of the
group differ is known, who is wrong is not. Its "missing ranks" recorded no such call, which is a sound accusation. A difference
of state is the normal picture of a rank that is late, and no mismatch.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Sink, document_line

NAME = "fr_analysis"
TEXT_LIMIT = 500

_CULPRIT = re.compile(r"Culprit rank (\d+)")
_ERROR = re.compile(r"Error type: (\w+)")
_MISSING = re.compile(r"[Mm]issing ranks: ?[{\[]([\d, ]+)[}\]]")
_NO_DUMP = re.compile(r"missed FR dumps from ranks [({\[]([\d, ]+)[)}\]]")
_SEQ = re.compile(r"sequence number: (\d+)|^\s*Collective (\d+) at entry \d+ errors")
_GROUP = re.compile(r"group info: (\S+?):")


def claims(path: str, head: bytes) -> bool:
    """By its own words."""
    return b"built groups, memberships" in head or b"Culprit rank" in head or b"Not all ranks joining collective" in head


def parse(path: str, data: bytes, out: Sink) -> None:
    """mismatch of the group; the named ranks only as unreliable accusations; missing ranks as accusations."""
    seq: int | None = None
    group: str | None = None
    for no, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        line = document_line(no, text.strip()[:TEXT_LIMIT])
        if m := _SEQ.search(text):
            seq, group = int(m[1] or m[2]), None
        if m := _GROUP.search(text):
            group = m[1]
        if ranks := sorted({int(r) for r in _CULPRIT.findall(text)}):
            kind = _ERROR.search(text)
            if kind is None or kind[1] != "COLLECTIVE_STATE_MISMATCH":  # states differ wherever one rank is late
                out.event("mismatch", line, source=NAME, why="fr_analysis", error=kind[1] if kind else None, scope="job")
            out.event("accused", line, source=NAME, ranks=ranks, why="fr_analysis", reliable=False, group=group, at_seq=seq)
        if m := _MISSING.search(text):
            out.event("accused", line, source=NAME, ranks=_numbers(m[1]), why="fr_missing", group=group, at_seq=seq)
        if m := _NO_DUMP.search(text):  # a process that was gone, or whose file was not collected
            out.event("accused", line, source=NAME, ranks=_numbers(m[1]), why="fr_dump_missing", reliable=False)


def _numbers(text: str) -> list[int]:
    return sorted({int(n) for n in re.findall(r"\d+", text)})
