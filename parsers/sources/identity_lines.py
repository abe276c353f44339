"""Lines in which a process says who it is. They are evidence only: ``parse`` returns False so that others may own them."""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "identity_lines"
ORDER = 1
TOKENS = ("rank", "RANK", "Rank", "PROCID", "Process index", "MEMBER")

_OWN = (
    re.compile(r"\brank=(?P<r>\d+)(?:/|[ ,]+world_size=)(?P<w>\d+)"),
    re.compile(r"\brank (?P<r>\d+) of (?P<w>\d+)\b"),
    re.compile(r"GLOBAL_RANK: (?P<r>\d+), MEMBER: \d+/(?P<w>\d+)"),
    re.compile(r"^\s*Process rank: (?P<r>\d+), device"),
    re.compile(r"\| distributed init \(rank (?P<r>\d+)\)"),
    re.compile(r"^\[rank: (?P<r>\d+)\] "),
    re.compile(r"^Rank (?P<r>\d+) has \w[\w ]* group"),
    re.compile(r"\[rank (?P<r>\d+), pid (?P<p>\d+)\]"),
    re.compile(r"Setting up process group for: \S+ \[rank=(?P<r>\d+), world_size=(?P<w>\d+)\]"),
    re.compile(r"^(?:export )?(?:RANK|SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMI_RANK)=(?P<r>\d+)\s*$"),
)
_WORLD = re.compile(r"^(?:export )?WORLD_SIZE=(\d+)\s*$")
_PID = re.compile(r"\bpid (\d+) is rank (\d+)\b")
_SUFFIX = re.compile(r"\(rank (\d+)\)\s*$")

SAMPLES = (Sample("initializing process group: rank=1 world_size=4 backend=gloo", "identity", {"global_rank": 1, "world_size": 4}),)


def parse(line: Line, out: Sink) -> bool:
    """Emits identity or mapping; never owns the line."""
    text = line.text
    state = out.state(NAME, line.stream)
    if m := _PID.search(text):
        out.mapping(line, NAME, pid=int(m[1]), global_rank=int(m[2]))
        return False
    if state.get("said", 0) < 6:
        for pattern in _OWN:
            if m := pattern.search(text if pattern.pattern.startswith(r"\brank=") else line.msg):
                groups = m.groupdict()
                out.identity(line, NAME, global_rank=int(groups["r"]), world_size=int(groups["w"]) if groups.get("w") else None, pid=int(groups["p"]) if groups.get("p") else None, how="own words")
                state["said"] = state.get("said", 0) + 1
                return False
        if m := _SUFFIX.search(line.msg):
            out.identity(line, NAME, global_rank=int(m[1]), how="suffix")
            state["said"] = state.get("said", 0) + 1
        elif m := _WORLD.match(line.msg):
            out.identity(line, NAME, world_size=int(m[1]))
    return False
