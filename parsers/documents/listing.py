"""``ls -l`` of a folder of flight recorder dumps: which ranks wrote one, and which file is empty.

A rank that wrote no dump while its peers did had no watchdog left to write it; only the complete listing can show that.
"""

from __future__ import annotations

import re
from collections import defaultdict

from correlator.parsers.schema import Sink, document_line

NAME = "listing"
RANKS_KEPT = 65_536

# mode links owner group size date file; the default names of TORCH_NCCL_DEBUG_INFO_TEMP_FILE and older ones
_ENTRY = re.compile(
    r"^[-l][rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+(?P<size>\d+)\s+.*?(?P<path>\S*?)(?P<stem>(?:nccl|comm_lib|gloo)_trace(?:_rank)?_?)(?P<rank>\d+)(?:\.(?:json|pkl|pickle))?\s*$"
)
_HEAD = re.compile(rb"(?m)^[-l][rwxsStT-]{9}[.+@]?\s+\d+\s.*(?:nccl|comm_lib|gloo)_trace(?:_rank)?_?\d+")


def claims(path: str, head: bytes) -> bool:
    """By a line in long format that names a dump, at the front of a file that is a listing (not a log that quotes one)."""
    lines = [row for row in head.split(b"\n") if row.strip()][:6]
    listed = [row for row in lines if re.match(rb"^[-ld][rwxsStT-]{9}|^total \d+|^\$ ls |^# ls |^\S+:\s*$", row)]
    return bool(lines) and len(listed) >= (len(lines) + 1) // 2 and _HEAD.search(head) is not None


def parse(path: str, data: bytes, out: Sink) -> None:
    """``fr_dump_present`` once a kind of dump: attrs ``ranks`` (sorted), ``empty`` (ranks whose file holds nothing)."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    first: dict[str, tuple[int, str]] = {}
    for no, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if (m := _ENTRY.match(text)) and len(found[m["stem"]]) < RANKS_KEPT:
            found[m["stem"]][int(m["rank"])] = int(m["size"])
            first.setdefault(m["stem"], (no, text.strip()))
    for stem, sizes in found.items():
        ranks = sorted(sizes)
        out.event("fr_dump_present", document_line(*first[stem]), source=NAME, ranks=ranks, count=len(ranks),
                  empty=[r for r in ranks if sizes[r] == 0] or None)  # fmt: skip
