"""What an NCCL warning says of its own process: a fault here, a peer that is missing, or the noise behind either.

The level word proves severity (the same text at INFO is a probe that was expected to fail), so only WARN lines come
here. Texts: NCCL ``src/**/*.cc`` of releases 2.3 to 2.30, RCCL and aws-ofi-nccl; ``ibv_wc_status`` of rdma-core.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

# name or address of a peer with its port: node-b03<41122>, 10.0.0.2<51442>, fe80::1%eth0<40000>
_PEER = re.compile(r"(?P<peer>[\w.:%\-]+)<(?P<port>\d+)>")
_COMPLETION = re.compile(r"Got completion (?:from peer \S+ )?with (?:error |status=? ?)(?:(?P<name>[A-Z_]+)\()?(?P<status>\d+)")
_VENDOR = re.compile(r"vendor[ _]err[ =](\d+)")
_HCA = re.compile(r"\b(?:hca|on dev) (?P<hca>[\w\-]+)|NET/IB ?: (?P<port_of>[\w\-]+):\d+ ")
_ERRNO = re.compile(r"failed(?: with(?: error)?)? ?: ?(?P<text>[A-Z][^,(<]*)|returned (?P<returned>[A-Z][^,]*), exceeded")
_EVENT = re.compile(r"(?:async fatal event(?: on (?:QP|CQ|SRQ)\b[^:]*)?|Got (?:non-fatal async|async error|async) event) ?: ?(?P<event>[A-Za-z_ ]+)")
_CUDA = re.compile(r"Cuda failure (?:(?P<code>\d+) )?'(?P<text>[^']*)'")

# ibv_wc_status: what the status says of this side (nccl.md 5.2). 12 and 13 blame the peer or the path.
_LOCAL_STATUS = {2: "local QP operation error", 4: "local protection error", 6: "memory window bind error"}
_FATAL_STATUS = 19  # transport failure of the local adapter
_FLUSHED_STATUS = 5  # the queue pair was in error already: the first other status counts

_HOWS = (("reset", "reset"), ("efused", "refused"), ("roken pipe", "broken_pipe"), ("imed out", "timed_out"))
_NO_PATH = re.compile(r"No route to host|(?:Network|Host) is unreachable")


@dataclass(slots=True)
class Warning_:
    """Reading of one warning: predicate, attributes, and the peer that it names (host name or address)."""

    kind: str
    attrs: dict[str, Any] = field(default_factory=dict)
    peer_host: str | None = None
    peer_rank: int | None = None


def read_warning(msg: str) -> Warning_:
    """Reads the message of a WARN line (what stands behind ``NCCL WARN``)."""
    for reader in (_noise, _adapter, _cuda, _mismatch, _connection, _completion, _local):
        found = reader(msg)
        if found is not None:
            break
    else:
        found = Warning_("warned")
    if found.peer_host is None and (m := _PEER.search(msg)):
        found.peer_host = short_host(m["peer"])
        found.attrs.setdefault("peer_port", int(m["port"]))
    if "hca" not in found.attrs and (m := _HCA.search(msg)):
        found.attrs["hca"] = m["hca"] or m["port_of"]
    return found


def short_host(name: str) -> str:
    """Host name without its domain; an address stays whole."""
    return name if name[:1].isdigit() or ":" in name else name.split(".")[0]


_NOISE = re.compile(
    r"^\[Proxy Service|^\[Service thread\]|^Proxy Call to rank|Socket recv failed while polling for opId|is in abort state"
    r"|abort called$|Saw abortFlag|communicator encountered a fatal error|^ncclAsyncJobComplete|communicator was revoked"
    r"|^nccl\w*Socket\w*: (?:unexpected socket state|wrong socket state|socket state)|socket progress error|^unlink shared memory"
    r"|^commReclaim|^ncclProxyStop|^Deregister|Call to ibv_(?:dereg|destroy|dealloc|close|get_async_event)|driver shutting down"
)
_LOCAL_RANK = re.compile(r"(?:localRank|tpRank) (\d+)")


def _noise(msg: str) -> Warning_ | None:
    """Second-hand reports: the cause stands in an earlier line of the same thread."""
    if not _NOISE.search(msg):
        return None
    code = re.search(r"(?:retcode|res=|job error) ?(\d+)", msg)
    local = _LOCAL_RANK.search(msg)
    return Warning_(
        "teardown_noise",
        {"result": int(code[1]) if code else None, "peer_local_rank": int(local[1]) if local else None},
    )


def _adapter(msg: str) -> Warning_ | None:
    """Asynchronous events of the adapter; ``port error`` is called non-fatal and yet says most."""
    if m := _EVENT.search(msg):
        event = m["event"].strip()
        hca = _HCA.search(msg)
        attrs: dict[str, Any] = {"fault": event, "hca": (hca["hca"] or hca["port_of"]) if hca else None}
        if "port error" in event or "catastrophic" in event or "CQ error" in event or "device fatal" in event:
            return Warning_("link_down", {**attrs, "scope": "host"})
        if "fatal event" in msg:  # access violation, invalid request: raised by the responder, caused by either side
            return Warning_("remote_error", attrs)
        return Warning_("warned", {**attrs, "recovered": True if event == "port active" else None})
    if "Unable to open device" in msg or "Unable to query" in msg:
        return Warning_("link_down", {"fault": msg[msg.index("Unable") :][:60], "scope": "host"})
    if "GID table changed" in msg:
        return Warning_("warned", {"fault": "GID table changed"})
    return None


_DRIVER = re.compile(
    r"invalid argument|system not yet initialized|invalid device ordinal|no CUDA-capable device|initialization error"
    r"|driver version is insufficient|operation not supported|CUDA driver"
)
_DEVICE = re.compile(r"ECC|uncorrectable|NVLink|fallen off|device (?:is )?lost|GPU is lost|hardware stack|device not ready|unrecoverable")


def _cuda(msg: str) -> Warning_ | None:
    """Failures of the CUDA runtime, driver and NVML. CUDA errors are sticky: an earlier kernel of this rank may be meant."""
    if m := _CUDA.search(msg):
        text = m["text"]
        attrs: dict[str, Any] = {"cuda_error": int(m["code"]) if m["code"] else None, "fault": text}
        if "out of memory" in text:
            return Warning_("out_of_memory", attrs)
        if "device-side assert" in text:
            return Warning_("device_assert", attrs)
        if "illegal memory access" in text or "unspecified launch failure" in text or "misaligned address" in text:
            return Warning_("illegal_access", attrs)
        if _DEVICE.search(text):
            return Warning_("device_fault", attrs)
        if _DRIVER.search(text):
            return Warning_("driver_failed", attrs)
        return Warning_("raised", {**attrs, "exception": "Cuda failure", "text": msg[:200]})
    if m := re.search(r"Failed to CUDA (malloc|calloc|host alloc)\D*(\d+) bytes", msg):
        return Warning_("host_memory" if m[1] == "host alloc" else "out_of_memory", {"bytes": int(m[2])})
    if "NVLink SHARP" in msg and "Failed to bind" in msg or "MNNVL" in msg and "available but not" in msg:
        return Warning_("driver_failed", {"fault": msg.split(":")[0].strip()[:100]})
    if m := re.search(r"^nvml\w+\(.*\) failed: (.*)$", msg):
        if "lost" in m[1] or "reset" in m[1].lower():
            return Warning_("device_fault", {"fault": m[1][:100]})
        return Warning_("warned" if "Not Supported" in m[1] else "driver_failed", {"fault": m[1][:100]})
    if "P2P is disabled between NVLINK connected GPUs" in msg:
        return Warning_("device_fault", {"fault": "P2P is disabled between NVLINK connected GPUs"})
    return None


def _mismatch(msg: str) -> Warning_ | None:
    """Two sides that disagree: on a size, a version, a device or a rank number."""
    if m := re.search(r"message truncated : receiving (\d+) bytes instead of (\d+)", msg):
        return Warning_("mismatch", {"why": "net_size", "got": int(m[1]), "want": int(m[2])})
    if "collective mismatch error" in msg:
        return Warning_("mismatch", {"why": "net_size"})
    if m := re.search(r"[Mm]ismatched? [Cc]ollective.*around rank (\d+)|collective mismatch around rank (\d+)", msg, re.I):
        return Warning_("mismatch", {"why": "order"}, peer_rank=int(m[1] or m[2]))
    if re.match(r"Message truncated : received", msg):  # bootstrap: out of step in init, which side is not said
        return Warning_("remote_error", {"fault": "bootstrap message truncated"})
    if "Duplicate GPU detected" in msg or "Multiple Ranks are using the same" in msg:
        return Warning_("gpu_shared", {"ranks": [int(r) for r in re.findall(r"rank (\d+)", msg)]})
    if re.search(r"version mismatch with remote peer|Mismatched NCCL version|device is incompatible|incompatible devices", msg):
        return Warning_("misconfigured", {"fault": msg[:100]})
    if m := re.search(r"Bootstrap Root : (?:rank (\d+) of \d+ ranks has already checked in|mismatch in )", msg):
        return Warning_("misconfigured", {"fault": msg[:100]}, peer_rank=int(m[1]) if m[1] else None)
    return None


def _connection(msg: str) -> Warning_ | None:
    """Sockets: the peer closed, reset or refused (its process is gone), or the path to it is not there."""
    errno = _ERRNO.search(msg)
    text = (errno["text"] or errno["returned"]).strip() if errno else None
    connects = re.search(r"\b[Cc]onnect(?:ing)? to (?:peer )?\S+<\d+>", msg)
    if "ibv_modify_qp" in msg:
        gone = "No such device" in msg
        remote = re.search(r"remote GID (\S+)", msg)
        attrs: dict[str, Any] = {"errno": text, "remote_gid": remote[1].rstrip(",") if remote else None}
        return Warning_("link_down", {**attrs, "fault": "No such device", "scope": "host"}) if gone else Warning_("net_unreachable", attrs)
    if _NO_PATH.search(msg) or (connects and "imed out" in msg):
        return Warning_("net_unreachable", {"errno": text})
    if connects or re.search(
        r"Connection closed by remote peer|Connection reset by peer|[Bb]roken pipe|Connection refused"
        r"|Call to (?:recv from|send to) \S+ failed",
        msg,
    ):
        how = next((name for word, name in _HOWS if word in msg), "closed")
        return Warning_("lost_connection", {"how": how, "errno": text})
    return None


def _completion(msg: str) -> Warning_ | None:
    """Completion errors of InfiniBand and RoCE, and of libfabric. The status decides; opcode and len are undefined."""
    if m := _COMPLETION.search(msg):
        status = int(m["status"])
        vendor = _VENDOR.search(msg)
        attrs: dict[str, Any] = {"status": status, "vendor_err": int(vendor[1]) if vendor else None}
        if status == _FATAL_STATUS:
            return Warning_("link_down", {**attrs, "fault": "adapter transport failure", "scope": "host"})
        if status in _LOCAL_STATUS:
            return Warning_("raised", {**attrs, "exception": "ibverbs", "text": _LOCAL_STATUS[status]})
        return Warning_("remote_error", {**attrs, "secondary": True if status == _FLUSHED_STATUS else None})
    if m := re.search(r"NET/OFI .*completed with error[.:]? (?:RC|err): (?P<rc>\d+)(?:.*?Error: \d+ \((?P<text>[^()]*))?", msg):
        peer = re.search(r"Peer host id: ([\w\-]+)", msg)
        return Warning_("remote_error", {"status": int(m["rc"]), "errno": (m["text"] or "").strip() or None}, peer[1] if peer else None)
    if "Got CQE with error" in msg:
        return Warning_("teardown_noise", {"why": "announces the completion error"})
    if "posted incorrect receive info" in msg or re.search(r"call to tpRank \d+", msg):
        return Warning_("remote_error", {"fault": msg[:100]})
    return None


_SHM = re.compile(r"failed to extend \S+ to|shared memory segment|(?:posix_fallocate|ftruncate|shm_open|mmap) failed.*No space left")
_ARGUMENT = re.compile(r"^\w+ : (?:\w+ (?:allocated on device|\S+ is not a valid pointer|argument is NULL)|invalid (?:root|type|reduction operation))")
_OWN_FAULT = re.compile(
    r"^Call to [\w ]+(?:\(\))? (?:failed|returned)|^ibv_post_(?:send|recv)|no (?:usable listening |socket |IP )?interface found"
    r"|no device found|Failed to initialize any NET plugin|cudaIpcGetMemHandle failed|failed to peer with device",
    re.I,
)


def _local(msg: str) -> Warning_ | None:
    """Everything else that went wrong in this very process or host."""
    if _SHM.search(msg):
        return Warning_("shm_exhausted")
    if re.match(r"Failed to malloc|Unrecoverable error detected: malloc", msg) or (msg.startswith("Call to ") and "Cannot allocate memory" in msg and "ibv_" not in msg):
        return Warning_("host_memory")
    if "Address already in use" in msg:
        return Warning_("port_taken")
    if _ARGUMENT.search(msg):
        return Warning_("raised", {"exception": "NCCL argument check", "text": msg[:200]})
    if _OWN_FAULT.search(msg):
        return Warning_("raised", {"exception": "NCCL system call", "text": msg[:200]})
    return None
