"""DeepSpeed's launcher (`deepspeed`, runner.py and launch.py) and pdsh: who ran where, and how a node's processes ended.

The printed command of ``exits with return code`` belongs to the process that was spawned *last* on that node, whichever
one died, so its ``--local_rank`` names nobody (kept as ``last_spawned``). ``Killing subprocess`` comes once for each
local rank in spawn order, the dead one included: it pairs pids with local ranks and says nothing about who died.
Source: deepspeed/launcher/launch.py, runner.py, multinode_runner.py; pdsh's own messages.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import re
import signal
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "launch_deepspeed"
ORDER = 20
TOKENS = (
    "WORLD INFO DICT", "--world_info=", "global_rank_mapping", "spawned with command", "Killing subprocess", "exits with return code",
    "Main process received", "ssh exited with", "num_local_procs", "dist_world_size=", "exits successfully", "runner.py",
)  # fmt: skip

_WORLD_INFO = re.compile(r"WORLD INFO DICT: (\{.*\})")
_ENCODED = re.compile(r"--world_info=([\w=-]+)")
_RANK_MAP = re.compile(r"global_rank_mapping=.*?(\{.*\})\)?")
_NODES = re.compile(r"nnodes=(\d+), num_local_procs=(\d+), node_rank=(\d+)")
_WORLD_SIZE = re.compile(r"dist_world_size=(\d+)")
_SPAWNED = re.compile(r"process (\d+) spawned with command: ")
_LOCAL_RANK = re.compile(r"--local_rank[=\s'\",]+(\d+)")
_KILLING = re.compile(r"Killing subprocess (\d+)")
_EXITS = re.compile(r"exits with return code = (-?\d+)")
_SUCCESS = re.compile(r"Process (\d+) exits successfully")
_TOLD = re.compile(r"Main process received (SIG[A-Z]+)")
_PDSH = re.compile(r"(?:pdsh@(?P<head>[\w.-]+): )?(?P<node>[\w.-]+): ssh exited with exit code (?P<code>\d+)")

SAMPLES = (
    Sample(
        "[2024-05-01 12:34:56,789] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=3'] exits with return code = -9",
        "exit_record", {"exitcode": -9, "signal": "SIGKILL", "by": "deepspeed", "last_spawned": 3, "local_rank": None}, "deepspeed/launcher/launch.py",
    ),
    Sample(
        "[2024-05-01 12:34:56,789] [INFO] [launch.py:256:main] global_rank_mapping=defaultdict(<class 'list'>, {'a': [0, 1], 'b': [2, 3]})",
        "mapping", {"rank_map": {"a": [0, 1], "b": [2, 3]}, "world_size": 4}, "deepspeed/launcher/launch.py",
    ),
    Sample("[2024-05-01 12:34:56,789] [INFO] [launch.py:142:main] WORLD INFO DICT: {'localhost': [0, 1, 2, 3]}", "mapping", {"world_size": 4}),
    Sample(
        "[2024-05-01 12:34:56,789] [INFO] [launch.py:256:main] process 12345 spawned with command: ['python', '-u', 'train.py', '--local_rank=1']",
        "mapping", {"pid": 12345, "local_rank": 1}, "deepspeed/launcher/launch.py",
    ),
    Sample("[2024-05-01 12:34:56,789] [INFO] [launch.py:315:sigkill_handler] Main process received SIGTERM, exiting", "external_signal", {"signal": "SIGTERM"}),
    Sample("pdsh@g001: g002: ssh exited with exit code 1", "exit_record", {"by": "pdsh", "node": "g002", "exitcode": 1}),
    Sample("[2024-05-01 12:34:56,789] [INFO] [launch.py:245:main] nnodes=2, num_local_procs=8, node_rank=1", "mapping", {"nnodes": 2, "local_world_size": 8, "node_rank": 1}),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One launcher line."""
    text = line.msg
    if m := _PDSH.search(line.text):
        out.event("exit_record", line, source=NAME, by="pdsh", node=m["node"], exitcode=int(m["code"]))
        return True
    if m := _EXITS.search(text):
        return _exits(line, text, int(m[1]), out)
    if m := _KILLING.search(text):
        return _killing(line, int(m[1]), out)
    if m := _SPAWNED.search(text):
        pid, local = int(m[1]), _LOCAL_RANK.search(text, m.end())
        state = out.state(NAME, line.stream)
        out.mapping(
            line,
            NAME,
            pid=pid,
            local_rank=int(local[1]) if local else None,
            host=_host(line),
            how="spawned",
            **_rank_of(state, line, local),
        )
        return True
    if m := _TOLD.search(text):
        out.event("external_signal", line, source=NAME, signal=m[1])
        return True
    return _layout(line, text, out)


def _layout(line: Line, text: str, out: Sink) -> bool:
    """Hosts, slots and ranks at start-up."""
    state = out.state(NAME, line.stream)
    if m := _RANK_MAP.search(text):
        table = _table(m[1])
        if table:
            state["rank_map"] = table
            out.mapping(line, NAME, rank_map=table, world_size=sum(map(len, table.values())), how="global_rank_mapping")
        return bool(table)
    if m := _WORLD_INFO.search(text):
        return _world_info(line, _table(m[1]), out)
    if m := _ENCODED.search(text):
        return _world_info(line, decode_world_info(m[1]), out)
    if m := _NODES.search(text):
        out.mapping(line, NAME, nnodes=int(m[1]), local_world_size=int(m[2]), node_rank=int(m[3]), host=_host(line))
        return True
    if m := _WORLD_SIZE.search(text):
        out.mapping(line, NAME, world_size=int(m[1]))
        return True
    if m := _SUCCESS.search(text):
        out.event("exit_record", line, source=NAME, by="deepspeed", pid=int(m[1]), exitcode=0, node=_host(line))
        return True
    return False


def decode_world_info(text: str) -> dict[str, list[int]]:
    """``{host: [slots]}`` of the url-safe base64 in ``--world_info``; empty if it cannot be read."""
    try:
        value = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return _clean(value)


def _world_info(line: Line, slots: dict[str, list[int]], out: Sink) -> bool:
    """Global ranks count up over hosts and slots in the order of the table (launch.py)."""
    if not slots:
        return False
    table: dict[str, list[int]] = {}
    first = 0
    for host, devices in slots.items():
        table[host] = list(range(first, first + len(devices)))
        first += len(devices)
    out.state(NAME, line.stream)["rank_map"] = table
    out.mapping(line, NAME, rank_map=table, slots=slots, world_size=first, how="world info")
    return True


def _exits(line: Line, text: str, code: int, out: Sink) -> bool:
    command = _LOCAL_RANK.search(text)
    name = None
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
    out.event(
        "exit_record", line, source=NAME, by="deepspeed", exitcode=code, signal=name, node=_host(line),
        last_spawned=int(command[1]) if command else None, attribution="any process of this node",
    )  # fmt: skip
    return True


def _killing(line: Line, pid: int, out: Sink) -> bool:
    """Pids come in spawn order, so the k-th line of one round is local rank k (launch.py iterates over ``processes``)."""
    state = out.state(NAME, line.stream)
    killed: list[int] = state.setdefault("killed", [])
    if pid in killed:
        killed.clear()  # a second round
    killed.append(pid)
    out.event(
        "signalled",
        line,
        source=NAME,
        pid=pid,
        signal="SIGTERM",
        order=len(killed) - 1,
        node=_host(line),
        also_the_dead=True,
    )
    return True


def _rank_of(state: dict[str, Any], line: Line, local: re.Match[str] | None) -> dict[str, int]:
    """Global rank of a local rank, where the table and the host are known."""
    table, host = state.get("rank_map"), _host(line)
    if not table or local is None:
        return {}
    ranks = table.get(host) if host else next(iter(table.values())) if len(table) == 1 else None
    index = int(local[1])
    return {"global_rank": ranks[index]} if ranks and index < len(ranks) else {}


def _host(line: Line) -> str | None:
    """Host in front of the line: pdsh's prefix is the only one that a launcher's line carries."""
    tag = line.tag("host")
    return tag.name if tag is not None else None


def _table(text: str) -> dict[str, list[int]]:
    try:
        return _clean(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}


def _clean(value: Any) -> dict[str, list[int]]:
    if not isinstance(value, dict):
        return {}
    return {str(k): [int(i) for i in v] for k, v in value.items() if isinstance(v, list) and all(isinstance(i, int) for i in v)}
