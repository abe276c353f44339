"""nvidia-smi output: a GPU that the driver lost."""

from __future__ import annotations

import re

from correlator.parsers.schema import Sink, document_line
from correlator.parsers.sources.kernel import pci

NAME = "nvidia_smi"
_LOST = re.compile(r"Unable to determine the device handle for GPU ?(?P<bus>[0-9A-Fa-f:.]+)?.*?(?P<why>Unknown Error|GPU is lost.*|GPU requires reset.*)")


def claims(path: str, head: bytes) -> bool:
    """By its table, or by its one line of despair."""
    return b"NVIDIA-SMI" in head or b"Unable to determine the device handle for GPU" in head[:300]


def parse(path: str, data: bytes, out: Sink) -> None:
    """device_fault of every GPU that it could not reach."""
    for no, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if m := _LOST.search(text):
            bus = pci(m["bus"].rstrip(":")) if m["bus"] else None
            out.event("device_fault", document_line(no, text.strip()), source=NAME, fault="GPU is lost", role="root", xid=79, pci_bus=bus)
