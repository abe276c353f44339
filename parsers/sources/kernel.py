"""Kernel messages: Xid and SXid, the OOM killer, links, PCIe, crashes, file systems (dmesg, journal, syslog).

Roles of Xid codes stand in ``rules/messages/xid.tsv``; an after-effect or a bookkeeping code never starts a failure.
A pid in these lines is one of the host's namespace, which a container's log does not share.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "kernel"
ORDER = 7
TOKENS = (
    "NVRM", "Xid (", "Killed process", "oom-kill", "mlx5", "AER", "PCIe Bus Error", "segfault at", "general protection fault",
    "soft lockup", "blocked for more than", "EXT4-fs", "XFS (", "nfs: server", "Lustre", "Link down", "Link DOWN", "Link up",
    "Link ACTIVE", "Link is ", "link is ",
)  # fmt: skip
SXID_FOLLOWS_US = 60_000_000  # a fatal SXid reaches the GPUs as Xid 74 and 45 within seconds
WARNED_ROLES = ("aftereffect", "recording", "info", "precursor")  # precursor: recovered errors, the program goes on

# what stands in front of a kernel message: a syslog tag, dmesg's uptime or date, or a subsystem that no program prints
_FRONT = re.compile(
    r"\bkernel: |^(?:kern *: *\w+ *: *)?(?:<\d+>)?\[(?: *\d+\.\d+| *\+\d+\.\d+|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}|\w{3} [ \d]?\d \d\d:\d\d)\] "
    r"|^(?:\S*T\S+ )?(?:NVRM: |pcieport |mlx5_core |nvidia-nvswitch\d+: |EXT4-fs|XFS \(|nfs: server |Lustre(?:Error)?: |Memory cgroup out of memory"
    r"|Out of memory: Killed|oom-kill:|INFO: task \S+:\d+ blocked|watchdog: BUG)"
)
_HOST = re.compile(r"^(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) (?P<host>[\w.-]+) kernel")
_XID = re.compile(
    r"(?<!S)Xid \((?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+)(?: GPU-I:(?P<gi>\d+))?(?: GPU-CI:(?P<ci>\d+))?\): (?P<code>\d+)"
    r"(?:, pid='?<?(?P<pid>\w+)>?'?)?(?:, name=(?P<name>[^,]*))?(?:, (?P<text>.*))?$"
)
_CAUSED = re.compile(r"caused by previous Xid (\d+)")
_SXID = re.compile(r"SXid \((?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+)\): (?P<code>\d+), (?P<text>.*)$")
_LOST = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+): GPU has fallen off the bus")
_LOST_FIRST = re.compile(r"NVRM: The NVIDIA GPU (?P<bus>[0-9A-Fa-f:.]+)")
_LOST_LAST = "NVRM: fallen off the bus and is not responding"
_OOM = re.compile(r"[Oo]ut of memory.*Killed process (?P<pid>\d+) \((?P<comm>[^)]*)\)(?:.*?anon-rss:(?P<rss>\d+)kB)?|oom-kill.*Killed process (?P<pid2>\d+)")
_OOM_WHERE = re.compile(r"oom-kill:constraint=(?P<why>\w+).*?task_memcg=(?P<memcg>[^,]+),task=[^,]*,pid=(?P<pid>\d+)")
_SLURM_TASK = re.compile(r"/job_(\d+)/step_(\w+)/(?:user/)?task_(\d+)")
_LINK = re.compile(
    r"(?:mlx5_core (?P<pci>[0-9a-f:.]+)(?: (?P<dev>[\w.]+))?|(?P<if>(?:ib|eth|en|bond|mlx)\w+)(?: \w+)*): (?:Port: (?P<port>\d+) )?"
    r"[Ll]ink (?:is )?(?P<state>[Dd]own|DOWN|[Uu]p|UP|ACTIVE)\b"
)
_AER = re.compile(r"AER: (?:Multiple )?(?P<what>Corrected|Uncorrect\w+ \((?:Non-)?Fatal\)).*?(?:received|from)[: ]+(?:.* )?(?P<bus>[0-9a-f]{4}:[0-9a-f:.]+)")
_SEGV = re.compile(r"(?P<comm>[\w./:+ -]+)\[(?P<pid>\d+)\]:? (?:segfault at|general protection fault)(?:.*? in (?P<library>[\w.+-]+))?")
_HUNG = re.compile(r"task (?P<comm>[^:]+):(?P<pid>\d+) blocked for more than (?P<s>\d+) seconds|soft lockup.* stuck for (?P<s2>\d+)s! \[(?P<comm2>[^:]+):(?P<pid2>\d+)\]")
_STORAGE_SLOW = re.compile(r"nfs: server (?P<server>\S+) (?P<what>not responding|OK)|Connection to (?P<target>\S+) \(at (?P<nid>[^)]+)\) was lost|Connection restored")
_FS = re.compile(
    r"EXT4-fs \((?P<ext>[^)]+)\): Remounting filesystem read-only|XFS \((?P<xfs>[^)]+)\):.*[Ss]hutting down filesystem|This client was evicted by (?P<lustre>\S+)"
)

SAMPLES = (
    Sample("[  +0.000006] NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
           "device_fault", {"xid": 79, "pci_bus": "0000:5e:00.0", "role": "root"}, "NVIDIA driver, nverror.h"),
    Sample("[Mon Mar  2 11:00:05 2026] Memory cgroup out of memory: Killed process 4411 (python3) total-vm:9kB, anon-rss:812kB, file-rss:0kB",
           "killed_by_kernel", {"pid": 4411, "comm": "python3"}, "mm/oom_kill.c"),
    Sample("Mar  2 11:00:05 node-3 kernel: mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link DOWN", "link_down", {"hca": "mlx5_3", "host": "node-3"},
           "drivers/infiniband/core/device.c"),
    Sample("[ 812.334455] pt_main_thread[4411]: segfault at 0 ip 00007f sp 00007f error 4 in libnccl.so.2[7f00+1000]", "crashed",
           {"pid": 4411, "signal": "SIGSEGV", "library": "libnccl.so.2"}, "arch/x86/mm/fault.c"),
)  # fmt: skip


@lru_cache(maxsize=1)
def xid_table() -> dict[int, tuple[str, str, str]]:
    """Xid code -> (name, role, scope)."""
    out: dict[int, tuple[str, str, str]] = {}
    text = (resources.files("correlator.rules") / "messages" / "xid.tsv").read_text(encoding="utf-8")
    for row in text.splitlines():
        if row and not row.startswith(("#", "code")):
            code, name, role, scope, *_ = row.split("\t")
            out[int(code)] = (name, role, scope)
    return out


def pci(bus: str) -> str:
    """``0000:5e:00``, ``5e:00.0``, ``00000000:5E:00.0`` -> ``0000:5e:00.0``; other text as it stands, in lower case."""
    parts = bus.lower().replace("gpu", "").strip(":").split(":")
    if len(parts) not in (2, 3):
        return bus.lower()
    domain, number, device = (["0000", *parts] if len(parts) == 2 else parts)[-3:]
    device, _, function = device.partition(".")
    return f"{domain[-4:].rjust(4, '0')}:{number}:{device}.{function or '0'}"


def parse(line: Line, out: Sink) -> bool:
    """One kernel line. Lines that a program wrote are left alone, whatever words they hold."""
    if line.origin != "kernel" and not _FRONT.search(line.text):
        return False
    text = line.text.strip()
    host = _host(text)
    return _gpu(text, line, out, host) or _memory(text, line, out, host) or _devices(text, line, out, host) or _system(text, line, out, host)


def _emit(kind: str, text: str, line: Line, out: Sink, host: str | None, **attrs: Any) -> bool:
    out.event(kind, line, source=NAME, message=text, host=host, **attrs)
    return True


def _gpu(text: str, line: Line, out: Sink, host: str | None) -> bool:
    state = out.state(NAME, line.stream)
    if m := _XID.search(text):
        return _xid(m, text, line, out, host)
    if m := _SXID.search(text):
        fatal = m["text"].startswith("Fatal")
        if fatal:
            state["sxid_us"] = line.stamp.utc_us if line.stamp else None
        return _emit("device_fault" if fatal else "warned", text, line, out, host, sxid=int(m["code"]), fault=m["text"],
                     role="root" if fatal else "info", switch=pci(m["bus"]), scope="host")  # fmt: skip
    if m := _LOST_FIRST.search(text):
        state["lost"] = m["bus"]
        return True
    if (m := _LOST.search(text)) or _LOST_LAST in text:
        bus = m["bus"] if m else state.pop("lost", None)
        return _emit("device_fault", text, line, out, host, fault="GPU has fallen off the bus", xid=79, role="root", pci_bus=pci(bus) if bus else None)
    return False


def _xid(m: re.Match[str], text: str, line: Line, out: Sink, host: str | None) -> bool:
    code = int(m["code"])
    name, role, _ = xid_table().get(code, (f"Xid {code}", "either", "gpu"))
    caused = _CAUSED.search(text)
    if caused or (code in (45, 74) and _follows_switch(line, out)):
        role = "aftereffect"
    program = m["name"] if m["name"] and "unknown" not in m["name"] else None
    return _emit("warned" if role in WARNED_ROLES else "device_fault", text, line, out, host, xid=code, fault=(m["text"] or name).strip(" ."),
                 name=name, role=role, pci_bus=pci(m["bus"]), pid=int(m["pid"]) if m["pid"] and m["pid"].isdigit() else None, comm=program,
                 gpu_instance=int(m["gi"]) if m["gi"] else None, caused_by=int(caused[1]) if caused else None)  # fmt: skip


def _follows_switch(line: Line, out: Sink) -> bool:
    """Whether a fatal SXid was printed shortly before; without times the order of lines decides."""
    state = out.state(NAME, line.stream)
    if "sxid_us" not in state:
        return False
    before, now = state["sxid_us"], line.stamp
    return before is None or now is None or abs(now.utc_us - before) <= SXID_FOLLOWS_US


def _memory(text: str, line: Line, out: Sink, host: str | None) -> bool:
    state = out.state(NAME, line.stream)
    if m := _OOM_WHERE.search(text):
        state[f"memcg of {m['pid']}"] = m["memcg"]
        return True
    if m := _OOM.search(text):
        pid = int(m["pid"] or m["pid2"])
        memcg = state.pop(f"memcg of {pid}", None)
        task = _SLURM_TASK.search(memcg) if memcg else None
        return _emit("killed_by_kernel", text, line, out, host, pid=pid, comm=m["comm"], rss_kb=int(m["rss"]) if m["rss"] else None,
                     memcg=memcg, task=int(task[3]) if task else None)  # fmt: skip
    return False


def _devices(text: str, line: Line, out: Sink, host: str | None) -> bool:
    if m := _LINK.search(text):
        hca = m["dev"] or m["if"] or m["pci"]
        if m["state"].lower() == "down":
            out.event("link_down", line, source=NAME, refine=True, message=text, fault="link down", hca=hca, host=host, scope="host")
            return True
        return _emit("warned", text, line, out, host, fault="link up", hca=hca, recovered=True)
    if (m := _AER.search(text)) and m["what"].endswith(" (Fatal)"):
        return _emit("device_fault", text, line, out, host, fault="uncorrectable fatal PCIe error", role="precursor", pci_bus=pci(m["bus"].rstrip(".:")))
    if "AER:" in text or "PCIe Bus Error" in text:
        return _emit("warned", text, line, out, host, why="pcie", pci_bus=pci(m["bus"].rstrip(".:")) if m else None)
    return False


def _system(text: str, line: Line, out: Sink, host: str | None) -> bool:
    if m := _SEGV.search(text):
        comm = m["comm"].split(":")[-1].strip()
        return _emit("crashed", text, line, out, host, pid=int(m["pid"]), comm=comm, signal="SIGSEGV", library=m["library"])
    if m := _HUNG.search(text):
        return _emit("warned", text, line, out, host, why="hung task" if m["s"] else "soft lockup", pid=int(m["pid"] or m["pid2"]),
                     comm=m["comm"] or m["comm2"], duration_ms=float(m["s"] or m["s2"]) * 1000)  # fmt: skip
    if m := _FS.search(text):
        return _emit("io_failed", text, line, out, host, path=m["ext"] or m["xfs"] or m["lustre"], scope="host")
    if m := _STORAGE_SLOW.search(text):
        back = m["what"] == "OK" or "restored" in text
        return _emit("warned", text, line, out, host, why="storage", server=m["server"] or m["target"], recovered=True if back else None)
    return False


def _host(text: str) -> str | None:
    """Host name in a syslog or journal line."""
    m = _HOST.match(text)
    return m["host"].split(".")[0] if m else None
