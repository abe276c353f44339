"""Kernel messages: Xid and SXid, the OOM killer, links, PCIe, file systems (dmesg, journal, syslog).

Xid roles are in ``rules/messages/xid.tsv``; an after-effect or a bookkeeping code never starts a failure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources

from correlator.parsers.schema import Line, Sample, Sink

NAME = "kernel"
ORDER = 7
TOKENS = ("NVRM", "SXid", "Killed process", "oom-kill", "mlx5", "AER", "PCIe Bus Error", "segfault at", "soft lockup", "blocked for more than", "EXT4-fs", "XFS (", "nfs: server", "LustreError",
          "Link down", "Link DOWN", "link is not ready", "Kernel panic", "fallen off the bus", "Lustre:")  # fmt: skip

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+)(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (?P<code>\d+)(?:, pid='?<?(?P<pid>\w+)>?'?)?(?:, name=(?P<name>[^,]*))?(?:, (?P<text>.*))?$")
_SXID = re.compile(r"SXid \((?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+)\): (?P<code>\d+), (?P<text>.*)$")
_LOST = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+): GPU has fallen off the bus")
_OOM = re.compile(r"Killed process (?P<pid>\d+) \((?P<name>[^)]*)\)")
_LINK = re.compile(r"(?P<dev>mlx\d+_\w+[^:]*|ib\d+|en\w+|eth\d+|bond\d+).*?(?:Link (?P<s1>down|DOWN)|link is (?P<s2>down))|mlx5_core (?P<pci>\S+)(?: (?P<if>\w+))?: (?:Port: \d+ )?Link (?P<s3>down|DOWN)")
_SEGV = re.compile(r"(?P<name>[\w./-]+)\[(?P<pid>\d+)\]: segfault at")

SAMPLES = (
    Sample("[  +0.000006] NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "device_fault", {"xid": 79, "pci_bus": "0000:5e:00.0"},
           "NVIDIA driver, nverror.h"),
)  # fmt: skip


@lru_cache(maxsize=1)
def xid_table() -> dict[int, tuple[str, str, str]]:
    """Xid code -> (name, role, scope)."""
    out: dict[int, tuple[str, str, str]] = {}
    text = (resources.files("correlator") / "rules" / "messages" / "xid.tsv").read_text(encoding="utf-8")
    for row in text.splitlines():
        if row and not row.startswith(("#", "code")):
            code, name, role, scope, *_ = row.split("\t")
            out[int(code)] = (name, role, scope)
    return out


def pci(bus: str) -> str:
    """``0000:5e:00``, ``00000000:5E:00.0`` -> ``0000:5e:00.0``."""
    parts = bus.lower().replace("gpu", "").split(":")
    domain, number, device = (["0000", *parts] if len(parts) == 2 else parts)[-3:]
    device, _, function = device.partition(".")
    return f"{domain[-4:].rjust(4, '0')}:{number}:{device}.{function or '0'}"


def parse(line: Line, out: Sink) -> bool:
    """One kernel line."""
    text = line.text
    host = _host(text)
    if m := _XID.search(text):
        code = int(m["code"])
        name, role, _ = xid_table().get(code, (f"Xid {code}", "either", "gpu"))
        kind = "warned" if role in ("aftereffect", "recording", "info", "precursor") or "caused by previous Xid" in text else "device_fault"
        pid = m["pid"] if m["pid"] and m["pid"].isdigit() else None
        out.event(kind, line, source=NAME, refine=False, message=text.strip(), xid=code, fault=(m["text"] or name).strip(" ."), name=name, role=role, pci_bus=pci(m["bus"]), pid=pid, host=host)
        return True
    if m := _LOST.search(text):
        out.event("device_fault", line, source=NAME, message=text.strip(), fault="GPU has fallen off the bus", xid=79, role="root", pci_bus=pci(m["bus"]), host=host)
        return True
    if m := _SXID.search(text):
        fatal = "Fatal" in m["text"] and "Non-fatal" not in m["text"]
        out.event("device_fault" if fatal else "warned", line, source=NAME, message=text.strip(), sxid=int(m["code"]), fault=m["text"], role="root" if fatal else "info", host=host, scope="host")
        return True
    if (m := _OOM.search(text)) and re.search(r"emory|oom", text):
        out.event("killed_by_kernel", line, source=NAME, message=text.strip(), pid=m["pid"], name=m["name"], host=host)
        return True
    if re.search(r"mlx5|infiniband|kernel:|^\s*\[", text) and (m := _LINK.search(text)):
        out.event("link_down", line, source=NAME, message=text.strip(), fault="link down", hca=m["dev"] or m["if"] or m["pci"], host=host, scope="host")
        return True
    if "AER:" in text or "PCIe Bus Error" in text:
        out.event("warned", line, source=NAME, message=text.strip(), why="pcie", host=host)
        return True
    if (m := _SEGV.search(text)) and (line.text.lstrip().startswith("[") or "kernel" in text):
        out.event("crashed", line, source=NAME, message=text.strip(), pid=m["pid"], signal="SIGSEGV", host=host)
        return True
    if re.search(r"soft lockup|blocked for more than \d+ seconds|nfs: server \S+ (?:not responding|OK)|Connection to \S+ \(at .*was lost", text):
        out.event("warned", line, source=NAME, message=text.strip(), host=host)
        return True
    if re.search(r"(?:EXT4-fs|XFS).*(?:[Rr]emounting filesystem read-only|Shutting down filesystem)", text):
        out.event("io_failed", line, source=NAME, message=text.strip(), host=host, scope="host")
        return True
    return False


def _host(text: str) -> str | None:
    """Host name in a syslog or journal line."""
    m = re.match(r"^(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) (?P<h>[\w.-]+) kernel", text)
    return m["h"].split(".")[0] if m else None
