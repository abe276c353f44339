"""Text of the stock flight-recorder analyser: a mismatch it saw; its "culprit" only differs from the first dump."""

from __future__ import annotations

import re

from correlator.parsers.schema import Sink, document_line

NAME = "fr_analysis"


def claims(path: str, head: bytes) -> bool:
    """By its own words."""
    return b"built groups, memberships" in head or b"Culprit rank" in head or b"Not all ranks joining collective" in head


def parse(path: str, data: bytes, out: Sink) -> None:
    """mismatch of the group; the named ranks only as unreliable accusations."""
    for no, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        line = document_line(no, text.strip()[:500])
        ranks = [int(r) for r in re.findall(r"Culprit rank (\d+)", text)]
        if ranks:
            kind = re.search(r"Error type: (\w+)", text)
            out.event("mismatch", line, source=NAME, why="fr_analysis", error=kind[1] if kind else None, scope="job")
            out.event("accused", line, source=NAME, ranks=ranks, why="fr_analysis", reliable=False)
        if m := re.search(r"[Mm]issing ranks: \{([\d, ]+)\}", text):
            out.event("accused", line, source=NAME, ranks=[int(r) for r in re.findall(r"\d+", m[1])], why="fr_missing")
