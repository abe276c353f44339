"""Ray Train: which actor is which rank (ray/train/_internal/backend_executor.py)."""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "ray"
ORDER = 9
TOKENS = ("world_rank=",)
SAMPLES = (Sample("- (node_id=ab12, ip=10.0.0.7, pid=4411) world_rank=3, local_rank=1, node_rank=0", "mapping", {"global_rank": 3, "pid": 4411}, "ray/train"),)

_WORKER = re.compile(r"\((?:node_id=\w+, )?ip=(?P<ip>[\w.:]+), pid=(?P<pid>\d+)\) world_rank=(?P<r>\d+), local_rank=(?P<l>\d+), node_rank=(?P<n>\d+)")


def parse(line: Line, out: Sink) -> bool:
    """One line of the table of workers."""
    if m := _WORKER.search(line.text):
        out.mapping(line, NAME, global_rank=int(m["r"]), local_rank=int(m["l"]), node_rank=int(m["n"]), pid=int(m["pid"]), host=m["ip"])
        return True
    return False
