"""nvidia-smi output kept in a file of its own: GPUs that the driver lost.

Many jobs print the table at the top of their log; such a log stays a log, and the rulebook reads the same line there.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Sink, document_line
from correlator.parsers.sources.kernel import pci

NAME = "nvidia_smi"
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu) ?(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)?.*?"
    r"(?P<why>Unknown Error|GPU is lost|GPU requires reset)"
)
# rows of the table, its date, the command that made it, listings of -L, and the sentences that replace them all
_OWN = re.compile(
    rb"^\s*(?:[|+]|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\s*$|[$#] ?\S*nvidia-smi|GPU \d+: |Unable to determine the device handle for"
    rb"|No devices were found|Failed to initialize NVML|=+NVSMI LOG=+)"
)


def claims(path: str, head: bytes) -> bool:
    """By its name, or because every line that is there in whole is nvidia-smi's, in a file smaller than one look."""
    lines = [row for row in head.split(b"\n") if row.strip()]
    if b"NVIDIA-SMI" not in head and b"Unable to determine the device handle for" not in head:
        return False
    if re.search(r"nvidia[-_]?smi", path.rsplit("/", 1)[-1], re.I):
        return True
    return len(head) < 4096 and all(_OWN.match(row) for row in lines)


def parse(path: str, data: bytes, out: Sink) -> None:
    """device_fault of every GPU that it could not reach. A GPU that only wants a reset is not off the bus (no Xid 79)."""
    for no, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if m := _LOST.search(text):
            out.event("device_fault", document_line(no, text.strip()), source=NAME, fault=m["why"] if "reset" in m["why"] else "GPU is lost",
                      role="root", xid=None if "reset" in m["why"] else 79, pci_bus=pci(m["bus"]) if m["bus"] else None)  # fmt: skip
