"""NCCL and RCCL log lines: communicators, addresses, settings, calls and warnings (NCCL ``src/debug.cc`` and ``init.cc``).

``[stamp] host:pid:tid [cudaDev] file:line (func) NCCL WARN message``. The number in brackets is the CUDA device of the
calling thread, never a rank. A rank in an Init line counts inside that communicator: only the largest one's is global,
which the identity step decides.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from correlator.parsers.schema import Event, Line, Sample, Sink
from correlator.parsers.sources.nccl_warnings import read_warning, short_host

NAME = "nccl"
ORDER = 4
TOKENS = ("NCCL ", "RCCL version", " Pid ", "ERROR]")

_LINE = re.compile(
    r"(?:^|\s)(?P<host>[A-Za-z0-9][\w.\-]*):(?P<pid>\d+):(?P<tid>\d+)\s(?:\[(?P<dev>-?\d+)\]\s)?(?:(?P<mono>\d+\.\d+)\s)?"
    r"(?:(?P<loc>\S.*?):(?P<line>\d+)\s(?:\((?P<func>[^()]*)\)\s)?)?NCCL\s(?P<level>WARN|INFO|TRACE|CALL|ABORT)(?:\s(?P<msg>.*))?$"
)
# RCCL 7: host:pid:tid [dev] [FATAL ERROR]: text. A host has a letter: 11:00:05 [ERROR] is a time of day.
_RCCL = re.compile(
    r"(?:^|\s)(?P<host>(?=[\w.\-]*[A-Za-z])[A-Za-z0-9][\w.\-]*):(?P<pid>\d+):\d+\s(?:\[(?P<dev>-?\d+)\]\s)?(?:\S+:\d+\s)?"
    r"\[(?:FATAL )?ERROR\]:?\s(?P<msg>.*)$"
)
_VERSION = re.compile(r"(?P<what>NCCL|RCCL) version[ :]+(?P<version>\d+\.\d+\.\d+\S*)")
_INIT = re.compile(
    r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) nranks (?P<n>\d+) cudaDev (?P<dev>-?\d+)(?: nvmlDev (?P<nvml>-?\d+))?"
    r"(?: busId (?P<bus>[0-9a-f]+))?(?P<rest>.*?)- Init (?P<what>START|COMPLETE)"
)
_COMM_ID = re.compile(r"\bcommId (0x[0-9a-f]+)")
_SPLIT = re.compile(r"\bparent (?P<parent>0x[0-9a-f]+)(?: (?:splitCount|childCount) (?P<count>\d+))?(?: color (?P<color>-?\d+))?")
_END = re.compile(r"comm (?P<comm>0x[0-9a-f]+) rank \d+ n[rR]anks \d+ .*- (?P<what>Abort|Destroy|Revoke) (?P<when>START|COMPLETE)")
_NODES = re.compile(r"comm \S+ rank \d+ nRanks (?P<n>\d+) nNodes (?P<nodes>\d+) localRanks (?P<local>\d+) localRank (?P<l>\d+)")
_BOOT = re.compile(r"Bootstrap ?: Using (?P<interface>[\w.\-]+):(?P<ip>\S+?)<\d+>")
_NET_IB = re.compile(r"NET/IB ?: Using (?P<list>\[\d+\]\S.*?) ?; OOB (?P<interface>[\w.\-]+):(?P<ip>\S+?)<\d+>")
_NET_SOCKET = re.compile(r"NET/Socket ?: Using \[0\](?P<interface>[\w.\-]+):(?P<ip>\S+?)<\d+>")
_LISTEN = re.compile(r"proxy listening socket at (?P<ip>\S+?)<(?P<port>\d+)>")
_ENV = re.compile(r"(?P<key>(?:NCCL|RCCL)_\w+) set (?:by environment )?to (?P<value>\S+)")
_COLL = re.compile(
    r"(?P<op>[A-Z]\w+): opCount (?P<count_hex>[0-9a-f]+) .*?\bcount (?P<count>\d+) datatype (?P<dtype>\d+) op (?P<reduce>\d+) "
    r"root (?P<root>\d+) comm (?P<comm>0x[0-9a-f]+) \[nranks=(?P<n>\d+)\]"
)
_BACKTRACE = re.compile(r"\S+:\d+ (?:\([^)]*\) )?-> (?P<code>\d+)(?: |$)")
_CONNECT_RETRY = re.compile(r"connect to (?P<peer>\S+)<\d+> returned (?P<errno>[^,]+), retrying \((?P<i>\d+)/")
_RAS_DEAD = re.compile(r"RAS declaring peer (?P<peer>[^\s;]+) as DEAD")
_RAS_LATE = re.compile(r"RAS (?P<what>keep-alive timeout \w+|connect timeout warning|connect retry timeout|send stuck timeout \w+|init timeout \w+) "
                       r"\((?P<s>\d+)s\) on (?:incoming )?socket connection with (?P<peer>\S+)")  # fmt: skip
_TABLE = re.compile(
    r"#\s+Rank\s+(?P<rank>\d+)(?:\s+Group\s+\d+)?\s+Pid\s+(?P<pid>\d+)\s+on\s+(?P<host>\S+)\s+device\s+(?P<dev>\d+)"
    r"\s+\[(?:0x)?(?P<bus>[0-9a-f:.]+)\]"
)
CALLS_KEPT = 64  # calls of one communicator in one process
_DATATYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "fp8_e4m3", "fp8_e5m2")
_REDUCTIONS = ("sum", "prod", "max", "min", "avg")

SAMPLES = (
    Sample("node-a02:3977:4064 [3] include/socket.h:421 NCCL WARN Net : Connection closed by remote peer node-b01<41122>",
           "lost_connection", {"peer_host": "node-b01", "how": "closed", "peer_port": 41122}, "include/socket.h"),
    Sample("cn-31:4410:4470 [0] NCCL INFO comm 0x68f4a295 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 5e000 commId 0xa1b6c7e10d55f202 - Init COMPLETE",
           "init_done", {"comm_rank": 0, "nranks": 4, "pci_bus": "0000:5e:00.0", "pg": "0xa1b6c7e10d55f202"}, "src/init.cc"),
    Sample("[2026-02-11 03:15:02] hx-0411:2207:2531 [0] transport/net_ib.cc:139 NCCL WARN NET/IB : mlx5_2:1 Got async error event: port error",
           "link_down", {"hca": "mlx5_2", "fault": "port error"}, "transport/net_ib.cc"),
    Sample("mi-r2-07:5512:5640 [0] [FATAL ERROR]: Cuda failure 'out of memory'", "out_of_memory", {}, "RCCL 7, src/debug.cc"),
    Sample("#  Rank  3 Group  0 Pid  66121 on  hgx-n2 device  1 [0x18] NVIDIA H100", "mapping", {"global_rank": 3, "pid": 66121}, "nccl-tests src/common.cu"),
)  # fmt: skip


def pci(bus: str) -> str:
    """NCCL's busId (``5e000``: hexadecimal without separators, leading zeros dropped) as ``0000:5e:00.0``."""
    digits = bus.rjust(7, "0")
    return f"{digits[:-5].rjust(4, '0')}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}"


def parse(line: Line, out: Sink) -> bool:
    """Any line that NCCL wrote, its version banner, and the rank table of nccl-tests."""
    text = line.text
    if "NCCL " in text and (m := _LINE.search(text)):
        msg, host = m["msg"] or "", m["host"].split(".")[0]
        if m["level"] in ("WARN", "ABORT"):
            where = f"{(m['loc'] or '').rsplit('/', 1)[-1]}" or None
            _warn(msg, line, out, host, tid=int(m["tid"]), where=where, device=int(m["dev"]) if m["dev"] else None)
        elif m["level"] == "INFO":
            _info(msg, line, out, host, int(m["pid"]), int(m["tid"]))
        return True
    if "ERROR]" in text and (r := _RCCL.search(text)):
        _warn(r["msg"], line, out, r["host"].split(".")[0], tid=0, where=None, device=int(r["dev"]) if r["dev"] else None, fatal=True)
        return True
    if m := _VERSION.match(text):
        out.config(line, f"{m['what'].lower()}.version", m["version"], "log")
        return True
    if text.startswith("#") and (m := _TABLE.match(text)):
        _tests_table(m, line, out)
        return True
    return False


def _tests_table(m: re.Match[str], line: Line, out: Sink) -> None:
    """nccl-tests lists which process drives which rank; one process may drive several."""
    out.mapping(line, NAME, global_rank=int(m["rank"]), pid=int(m["pid"]), host=m["host"].split(".")[0], device=int(m["dev"]), bus=m["bus"])
    row = out.events[-1]
    rows: dict[tuple[str, str], list[Event]] = out.state(NAME, line.stream).setdefault("table", {})
    same = rows.setdefault((m["host"], m["pid"]), [])
    same.append(row)
    if len(same) > 1:
        for event in same:
            event.attrs["single_process"] = True


def _warn(msg: str, line: Line, out: Sink, host: str, *, tid: int, where: str | None, device: int | None, fatal: bool = False) -> None:
    state = out.state(NAME, line.stream)
    found = read_warning(msg)
    kind, attrs = found.kind, found.attrs
    if fatal and kind == "warned":
        kind, attrs = "raised", {**attrs, "exception": "RCCL error", "text": msg[:200]}
    if kind == "lost_connection" and found.peer_host in (host, state.get("ip")) and state.get("fault"):
        # the process lost its own proxy thread, which failed before: that failure is the one that counts
        kind, attrs = "teardown_noise", {**attrs, "why": "own proxy thread"}
    event = out.event(kind, line, source=NAME, refine=kind != "teardown_noise", message=msg, level="WARNING", peer_host=found.peer_host,
                      peer_rank=found.peer_rank, device=device, where=where, tid=tid or None, **attrs)  # fmt: skip
    if event.kind not in ("lost_connection", "net_unreachable", "remote_error", "warned"):
        state["fault"] = True
    state["last"] = (tid, event)


def _info(msg: str, line: Line, out: Sink, host: str, pid: int, tid: int) -> None:
    state = out.state(NAME, line.stream)
    if "opCount" in msg:
        if m := _COLL.match(msg):
            _collective(m, line, out, state)
    elif " - Init " in msg or "- Init START" in msg:
        if m := _INIT.search(msg):
            _init(m, line, out, state, host, pid)
    elif m := _BACKTRACE.match(msg):  # innermost first: the first code behind a warning of this thread is its result
        last = state.get("last")
        if last is not None and last[0] == tid:
            last[1].attrs.setdefault("result", int(m["code"]))
    elif msg.startswith(("Channel ", "P2P")) or "via " in msg:
        _transport(msg, line, out, state)
    elif "Using" in msg:
        _addresses(msg, line, out, state, host)
    elif m := _ENV.search(msg):
        value = m["value"].rstrip(".,")
        out.config(line, f"env.{m['key']}", value, f"NCCL of {host}")
        out.event("env", line, source=NAME, name=m["key"], value=value, host=host)
    elif "P2P is disabled" in msg:
        _once(state, line, out, "nccl.p2p", "disabled")
    elif m := _LISTEN.search(msg):
        out.mapping(line, NAME, host=host, ip=m["ip"], port=int(m["port"]), pid=pid)
    elif m := _NODES.search(msg):
        _once(state, line, out, "nccl.nodes", m["nodes"])
    elif m := _END.search(msg):
        if m["when"] == "START" or m["what"] == "Abort":
            out.event("teardown_noise", line, source=NAME, message=msg, why=f"communicator {m['what'].lower()}")
        if m["when"] == "COMPLETE":
            state.get("comms", {}).pop(m["comm"], None)
    elif m := _CONNECT_RETRY.search(msg):
        if m["i"] == "1":
            out.event("warned", line, source=NAME, message=msg, peer_host=short_host(m["peer"]), errno=m["errno"], why="connect retry")
    elif msg.startswith("RAS "):
        _ras(msg, line, out)


def _init(m: re.Match[str], line: Line, out: Sink, state: dict[str, Any], host: str, pid: int) -> None:
    split = _SPLIT.search(m["rest"])
    comms: dict[str, str | None] = state.setdefault("comms", {})
    key = _comm_key(m, split, state, comms)
    out.event("init_start" if m["what"] == "START" else "init_done", line, source=NAME, pg=key, comm_rank=int(m["rank"]), nranks=int(m["n"]),
              comm_id=(c[1] if (c := _COMM_ID.search(m["rest"])) else None), cuda_dev=int(m["dev"]), nvml_dev=int(m["nvml"]) if m["nvml"] else None,
              pci_bus=pci(m["bus"]) if m["bus"] else None, host=host, pid=pid, split=True if split else None)  # fmt: skip


def _comm_key(m: re.Match[str], split: re.Match[str] | None, state: dict[str, Any], comms: dict[str, str | None]) -> str:
    """A name of the communicator that all its ranks agree on: the pointer is different in every process.

    That is the commId (from 2.16 on); for a split without one its parent, its number and its colour; before 2.16 the
    number of the communicator among those of its size in this process.
    """
    if found := _COMM_ID.search(m["rest"]):
        key = found[1]
    elif known := comms.get(m["comm"]):
        return known
    elif split is not None:
        counts: dict[str, int] = state.setdefault("splits", {})
        number = split["count"] or str(counts.setdefault(split["parent"], 0))
        counts[split["parent"]] = counts.get(split["parent"], 0) + 1
        key = f"{comms.get(split['parent']) or 'parent'}/{number}/{split['color'] or 0}"
    else:
        sizes: dict[str, int] = state.setdefault("sizes", {})
        sizes[m["n"]] = sizes.get(m["n"], 0) + 1
        key = f"size{m['n']}#{sizes[m['n']]}"
    comms[m["comm"]] = key
    return key


def _collective(m: re.Match[str], line: Line, out: Sink, state: dict[str, Any]) -> None:
    """One call, printed before the kernel is queued. opCount counts launches, so the calls are numbered here.

    A job makes millions of calls: of each communicator the newest are kept, for they tell how far the process came.
    """
    op, dtype, reduce = m["op"], int(m["dtype"]), int(m["reduce"])
    pair = op in ("Send", "Recv")
    ordinals: dict[str, int] = state.setdefault("ordinals", {})
    seq = None
    if not pair:  # members send and receive in numbers of their own
        seq = ordinals[m["comm"]] = ordinals.get(m["comm"], 0) + 1
    comms: dict[str, str | None] = state.setdefault("comms", {})
    if (comm := comms.get(m["comm"])) is None:  # without Init lines: the n-th communicator of its size that this process uses
        sizes: dict[str, int] = state.setdefault("sizes", {})
        sizes[m["n"]] = sizes.get(m["n"], 0) + 1
        comm = comms[m["comm"]] = f"size{m['n']}#{sizes[m['n']]}"
    kept: deque[Event] = state.setdefault("calls", {}).setdefault(m["comm"], deque(maxlen=CALLS_KEPT))
    full = len(kept) == CALLS_KEPT
    call = (Sink(out.path) if full else out).event(
        "enqueued", line, source=NAME, pg=f"nccl:{comm}", seq=seq, op=op.upper(), numel_in=int(m["count"]), nranks=int(m["n"]),
        dtype=_DATATYPES[dtype] if dtype < len(_DATATYPES) else str(dtype), root=None if pair else int(m["root"]), peer=int(m["root"]) if pair else None,
        reduction=_REDUCTIONS[reduce] if reduce < len(_REDUCTIONS) else "user")  # fmt: skip
    if full:  # the row of the oldest call becomes that of the newest
        oldest = kept.popleft()
        for name in Event.__slots__:
            setattr(oldest, name, getattr(call, name))
        call = oldest
    kept.append(call)


def _transport(msg: str, line: Line, out: Sink, state: dict[str, Any]) -> None:
    """Which transport is in use; the lines themselves are far too many to keep."""
    if "P2P is disabled" in msg:
        _once(state, line, out, "nccl.p2p", "disabled")
    elif m := re.search(r"via (P2P|SHM|NET)(?:/(\w+))?", msg):
        _once(state, line, out, "nccl.transport", m[1] if m[1] != "NET" else f"NET/{m[2]}")


def _once(state: dict[str, Any], line: Line, out: Sink, key: str, value: str) -> None:
    if (key, value) not in state:
        state[key, value] = True
        out.config(line, key, value, "log")


def _addresses(msg: str, line: Line, out: Sink, state: dict[str, Any], host: str) -> None:
    if m := _BOOT.search(msg) or _NET_SOCKET.search(msg) or _NET_IB.search(msg):
        state["ip"] = m["ip"]
        out.mapping(line, NAME, host=host, ip=m["ip"], interface=m["interface"])
    if m := _NET_IB.search(msg):
        _once(state, line, out, "nccl.hca", " ".join(re.findall(r"\[\d+\](\S+)", m["list"])))
    elif m := re.match(r"Using network (\S+)", msg):
        _once(state, line, out, "nccl.network", m[1])


def _ras(msg: str, line: Line, out: Sink) -> None:
    """Lines of the reliability service (2.24+): 60 s without an answer make a process dead."""
    if m := _RAS_DEAD.search(msg):
        out.event("accused", line, source=NAME, message=msg, why="ras_dead", peer_host=short_host(m["peer"].split("<")[0]))
    elif m := _RAS_LATE.search(msg):
        out.event("warned", line, source=NAME, message=msg, why=f"ras {m['what']}", peer_host=short_host(m["peer"].split("<")[0]),
                  duration_ms=float(m["s"]) * 1000)  # fmt: skip
