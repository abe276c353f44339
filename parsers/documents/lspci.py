"""lspci -vvv: whether PCIe access control (ACS) redirects peer-to-peer traffic."""

from __future__ import annotations

from correlator.parsers.schema import Sink, document_line

NAME = "lspci"


def claims(path: str, head: bytes) -> bool:
    """By the ACS control line."""
    return b"ACSCtl:" in head


def parse(path: str, data: bytes, out: Sink) -> None:
    """``pci.acs`` = redirects where a bridge has ReqRedir on."""
    for no, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if "ACSCtl:" in text and "ReqRedir+" in text:
            out.config(document_line(no, text.strip()), "pci.acs", "redirects", "lspci")
            return
