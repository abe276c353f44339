"""NCCL and RCCL log lines: communicators, addresses, warnings (NCCL src/debug.cc and the files named per message).

The number in ``[2]`` is the CUDA device of the calling thread, never a rank. Ranks come from Init lines, and
only the largest communicator's are global (the identity step decides).
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "nccl"
ORDER = 4
TOKENS = ("NCCL ", "RCCL", " device ", "ERROR]")

_LINE = re.compile(
    r"(?:^|\s)(?P<host>[A-Za-z0-9][\w.\-]*):(?P<pid>\d+):(?P<tid>\d+)\s(?:\[(?P<dev>-?\d+)\]\s)?(?:(?P<mono>\d+\.\d+)\s)?"
    r"(?:(?P<loc>\S.*?):(?P<line>\d+)\s(?:\((?P<func>[^()]*)\)\s)?)?NCCL\s(?P<level>WARN|INFO|TRACE|CALL|ABORT)(?:\s(?P<msg>.*))?$"
)
_RCCL = re.compile(r"(?:^|\s)[A-Za-z0-9][\w.\-]*:\d+:\d+\s(?:\[-?\d+\]\s)?(?:\S+:\d+\s)?\[(?:FATAL )?ERROR\]:?\s(?P<msg>.*)$")
_INIT = re.compile(r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) nranks (?P<n>\d+) cudaDev (?P<dev>\d+)(?: nvmlDev (?P<nvml>\d+))?(?: busId (?P<bus>[0-9a-f]+))?(?: commId (?P<id>0x[0-9a-f]+))?.*- Init (?P<what>START|COMPLETE)")
_SPLIT = re.compile(r"\bparent 0x[0-9a-f]+")
_BOOT = re.compile(r"Bootstrap ?: Using (?P<if>[\w.\-]+):(?P<ip>[\w.:]+)<\d+>")
_ENV = re.compile(r"(?P<k>NCCL_\w+) set (?:by environment )?to (?P<v>\S+)|(?P<k2>NCCL_\w+) set by environment to (?P<v2>\S+)")
_COLL = re.compile(r"^(?P<op>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|Send|Recv|AlltoAll|Gather|Scatter): opCount (?P<opc>[0-9a-f]+) .*?count (?P<count>\d+) datatype (?P<dt>\d+) op (?P<o>\d+) root (?P<root>\d+) comm (?P<comm>0x[0-9a-f]+) \[nranks=(?P<n>\d+)\]")
_PEER = re.compile(r"(?P<h>[\w.\-]+(?:::?[\w.\-]+)*)<(?P<p>\d+)>")
_TABLE = re.compile(r"^#\s+Rank\s+(?P<rank>\d+)(?:\s+Group\s+\d+)?\s+Pid\s+(?P<pid>\d+)\s+on\s+(?P<host>\S+)\s+device\s+(?P<dev>\d+)\s+\[(?:0x)?(?P<bus>[0-9a-f:.]+)\]")

SAMPLES = (
    Sample("node-a02:3977:4064 [3] include/socket.h:421 NCCL WARN Net : Connection closed by remote peer node-b01<41122>", "lost_connection", {"peer_host": "node-b01"}, "include/socket.h"),
    Sample("cn-31:4410:4470 [0] NCCL INFO comm 0x68f4a295 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 5e000 commId 0xa1b6c7e10d55f202 - Init COMPLETE", "init_done",
           {"comm_rank": 0, "nranks": 4, "pci_bus": "0000:5e:00.0"}, "src/init.cc"),
)  # fmt: skip

# default predicate of a WARN by its text, first match wins; signatures of source "nccl" may be more specific
_WARNINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(p), kind)
    for p, kind in (
        (r"async (?:fatal )?event.*(?:port error|catastrophic|fatal)|[Gg]ot (?:non-fatal )?async (?:error )?event ?: ?(?:port error|.*catastrophic|.*fatal)", "link_down"),
        (r"[Gg]ot (?:non-fatal )?async (?:error )?event", "warned"),
        (r"Cuda failure.*out of memory|Failed to CUDA (?:malloc|calloc|host alloc)", "out_of_memory"),
        (r"Cuda failure.*(?:illegal memory access|unspecified launch failure)", "illegal_access"),
        (r"Cuda failure.*(?:ECC|uncorrectable|NVLink|fallen off|device lost)", "device_fault"),
        (r"Cuda failure", "raised"),
        (r"failed to extend|shared memory segment|shm_open|No space left on device", "shm_exhausted"),
        (r"No route to host|Network is unreachable|ibv_modify_qp failed", "net_unreachable"),
        (r"Connection closed by remote peer|Connection reset by peer|Broken pipe|Connection refused|[Cc]onnect to \S+ (?:failed|returned)", "lost_connection"),
        (r"Got completion (?:from peer|with error)", "remote_error"),
        (r"Duplicate GPU detected|Multiple Ranks are using the same", "gpu_shared"),
        (r"Mismatched NCCL version|NCCL version mismatch", "misconfigured"),
        (r"[Mm]essage truncated|collective mismatch|Mismatched collective", "mismatch"),
        (r"declaring peer .* DEAD", "accused"),
        (r"\[Proxy Service|\[Service thread\]|Socket recv failed while polling|Proxy Call to rank|abort|in abort state|Accept failed", "teardown_noise"),
    )
)


def pci(bus: str) -> str:
    """NCCL's busId (``5e000``, separators removed, zeros dropped) as ``0000:5e:00.0``."""
    digits = bus.rjust(7, "0")
    return f"{digits[:-5].rjust(4, '0')}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}"


def parse(line: Line, out: Sink) -> bool:
    """Any line that NCCL wrote, and the rank table of nccl-tests."""
    text = line.text
    if " NCCL " not in text and "ERROR]" not in text:
        if m := _TABLE.match(text):
            out.mapping(line, NAME, global_rank=int(m["rank"]), pid=int(m["pid"]), host=m["host"], device=int(m["dev"]))
            return True
        return False
    m = _LINE.search(text)
    if m is None:
        if r := _RCCL.search(text):
            out.event("raised", line, source=NAME, refine=True, message=r["msg"], exception="RCCL error", text=r["msg"][:200])
            return True
        return False
    msg = m["msg"] or ""
    if m["level"] == "WARN" or m["level"] == "ABORT":
        _warn(msg, line, out, m["loc"] or "", m["dev"])
        return True
    _info(msg, line, out, m["host"].split(".")[0], int(m["pid"]))
    return True


def _warn(msg: str, line: Line, out: Sink, where: str, device: str | None) -> None:
    kind = next((k for p, k in _WARNINGS if p.search(msg)), "warned")
    attrs: dict[str, Any] = {"device": int(device) if device is not None else None, "where": where.rsplit("/", 1)[-1] or None}
    peer = _PEER.search(msg)
    if kind == "lost_connection":
        attrs["how"] = "reset" if "reset" in msg else "refused" if "refused" in msg else "broken_pipe" if "roken pipe" in msg else "closed"
    elif kind == "remote_error":
        status = re.search(r"(?:status=(?:\w+\()?|with error )(\d+)", msg)
        vendor = re.search(r"vendor[ _]err[ =](\d+)", msg)
        hca = re.search(r"\bhca (\S+)", msg)
        attrs.update(status=int(status[1]) if status else None, vendor_err=int(vendor[1]) if vendor else None, hca=hca[1] if hca else None)
    elif kind == "link_down":
        hca = re.search(r"(mlx\d+_\d+)(?::\d+)?", msg)
        fault = re.search(r"(port error|local catastrophic error|[\w ]*catastrophic[\w ]*|[\w ]*fatal[\w ]*)", msg)
        attrs.update(fault=fault[1].strip() if fault else msg[:60], hca=hca[1] if hca else None, scope="host")
    elif kind == "raised":
        attrs.update(exception="Cuda failure", text=msg[:200])
    elif kind == "gpu_shared":
        attrs["ranks"] = [int(r) for r in re.findall(r"rank (\d+)", msg)]
    elif kind == "mismatch":
        attrs["why"] = "net_size"
    elif kind == "device_fault":
        attrs["fault"] = msg[:100]
    out.event(kind, line, source="nccl", refine=True, message=msg, level="WARNING", peer_host=peer["h"].split(".")[0] if peer and not re.match(r"\d", peer["h"]) else peer["h"] if peer else None, **attrs)


def _info(msg: str, line: Line, out: Sink, host: str, pid: int) -> None:
    state = out.state(NAME, line.stream)
    if m := _INIT.search(msg):
        kind = "init_start" if m["what"] == "START" else "init_done"
        out.event(kind, line, source=NAME, pg=m["id"] or m["comm"], comm_rank=int(m["rank"]), nranks=int(m["n"]), cuda_dev=int(m["dev"]), host=host, pid=pid,
                  pci_bus=pci(m["bus"]) if m["bus"] else None, split=bool(_SPLIT.search(msg)) or None)  # fmt: skip
    elif m := _BOOT.search(msg):
        out.mapping(line, NAME, host=host, ip=m["ip"])
    elif m := _ENV.search(msg):
        key, value = (m["k"], m["v"]) if m["k"] else (m["k2"], m["v2"])
        out.config(line, f"env.{key}", value.rstrip(".,"), f"NCCL of {host}")
    elif "via P2P" in msg and not state.get("p2p"):
        state["p2p"] = True
        out.config(line, "nccl.transport", "P2P", "log")
    elif "P2P is disabled" in msg and not state.get("nop2p"):
        state["nop2p"] = True
        out.config(line, "nccl.p2p", "disabled", "log")
    elif m := _COLL.match(msg):
        ordinals = state.setdefault("ordinals", {})
        ordinals[m["comm"]] = seq = ordinals.get(m["comm"], 0) + 1
        out.event("enqueued", line, source=NAME, pg=f"nccl:{m['comm']}", seq=seq, op=m["op"].upper(), numel_in=m["count"], dtype=m["dt"], root=m["root"])
    elif "RAS" in msg and "DEAD" in msg:
        out.event("accused", line, source=NAME, why="ras", message=msg)
