"""lspci -vvv: whether PCIe access control (ACS) redirects peer-to-peer traffic through the root complex.

With ``ReqRedir+`` on a bridge between two GPUs, transfers between them are slow or never arrive (NVIDIA NCCL
troubleshooting, PCI access control services).
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Sink, document_line

NAME = "lspci"
_DEVICE = re.compile(r"^(?P<bus>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) \S")


def claims(path: str, head: bytes) -> bool:
    """By its first line behind comments: a device with its address, or (cut by grep) the control line itself."""
    rows = [row for row in head.decode("utf-8", "replace").split("\n") if row.strip() and not row.startswith(("#", "$"))]
    return bool(rows) and (_DEVICE.match(rows[0]) is not None or rows[0].strip().startswith("ACSCtl:"))


def parse(path: str, data: bytes, out: Sink) -> None:
    """``pci.acs`` = ``redirects`` where a bridge has ReqRedir on; ``origin`` names the first such bridge."""
    bus = ""
    for no, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if m := _DEVICE.match(text):
            bus = m["bus"]
        if "ACSCtl:" in text and "ReqRedir+" in text:
            out.config(document_line(no, text.strip()), "pci.acs", "redirects", f"lspci {bus}".strip())
            return
