"""Ray: which worker process is which rank, and what the raylet says of workers that ended.

Texts: ray/train/_internal/backend_executor.py and torch/config.py (mapping), src/ray/raylet (ends). The driver's echo of
workers is deduplicated, so it proves nothing about who did not say a thing.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "ray"
ORDER = 9
TOKENS = ("world_rank=", "Setting up process group for", "Worker exit type", "due to memory pressure", "' succeeded")

_WORKER = re.compile(r"\((?:node_id=\w+, )?ip=(?P<ip>[\w.:]+), pid=(?P<pid>\d+)\) world_rank=(?P<r>\d+), local_rank=(?P<l>\d+), node_rank=(?P<n>\d+)")
_SETUP = re.compile(r"Setting up process group for: \S+ \[rank=(\d+), world_size=(\d+)\]")
_ENDED = re.compile(r"Worker IP address: (?P<ip>[\w.:]+).*?Worker PID: (?P<pid>\d+).*?Worker exit type: (?P<type>\w+)(?: Worker exit detail: (?P<detail>.*))?")
_SUCCEEDED = re.compile(r"\bSUCC cli\.py:\d+ -- Job '[\w-]+' succeeded")
_MEMORY = re.compile(r"(?:\d+ )?Workers? \(tasks / actors\) killed due to memory pressure \(OOM\)(?:.*?\(ID: \w+, IP: (?P<ip>[\w.:]+)\))?")

SAMPLES = (
    Sample("- (node_id=ab12, ip=10.0.0.7, pid=4411) world_rank=3, local_rank=1, node_rank=0", "mapping",
           {"global_rank": 3, "pid": 4411, "host": "10.0.0.7"}, "ray/train/_internal/backend_executor.py"),
    Sample("Setting up process group for: env:// [rank=0, world_size=16]", "identity", {"global_rank": 0, "world_size": 16}, "ray/train/torch/config.py"),
    Sample("2026-03-02 10:01:30\tSUCC cli.py:63 -- Job 'raysubmit_4Fb' succeeded", "finished", {}, "ray/dashboard/modules/job/cli.py"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One line of the table of workers, a worker's own set-up line, or the raylet's word on an end."""
    text = line.text
    if m := _WORKER.search(text):
        out.mapping(line, NAME, global_rank=int(m["r"]), local_rank=int(m["l"]), node_rank=int(m["n"]), pid=int(m["pid"]), host=m["ip"])
    elif m := _SETUP.search(text):
        out.identity(line, NAME, rank=int(m[1]), global_rank=int(m[1]), world_size=int(m[2]), how="ray train set-up")
    elif m := _ENDED.search(text):
        out.event("exit_record", line, source=NAME, by="ray", pid=int(m["pid"]), node=m["ip"], reason=m["type"], detail=(m["detail"] or "")[:200] or None)
    elif _SUCCEEDED.search(text):
        out.event("finished", line, source=NAME)
    elif m := _MEMORY.search(text):
        out.event("host_memory", line, source=NAME, scope="host", host=m["ip"], fault="killed by Ray's memory monitor")
    else:
        return False
    return True
