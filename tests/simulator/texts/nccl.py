"""NCCL's own lines: identity at INFO, warnings about peers and devices (reference: nccl.md 1.3, 2.1)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulator.cluster import Job, Proc
from tests.simulator.tape import Happening, Line


def _minor(job: Job) -> int:
    return int(job.nccl_version.split(".")[1])


def warn(job: Job, proc: Proc, t: float, tid: int, place: str, text: str) -> list[str]:
    """A WARN: an empty line before it; from 2.26 on a time with whole seconds, local zone."""
    stamp = f"[{proc.host.local(t):%Y-%m-%d %H:%M:%S}] " if _minor(job) >= 26 else ""
    return ["", f"{stamp}{proc.host.name}:{proc.pid}:{tid} [{proc.local}] {place} NCCL WARN {text}"]


def init(job: Job, h: Happening) -> Iterator[Line]:
    """Bootstrap and the default communicator, NCCL_DEBUG=INFO."""
    p = job.procs[h.who[1]]
    head = f"{p.host.name}:{p.pid}:{p.pid + 41} [{p.local}] NCCL INFO "
    comm = f"comm 0x{0x55D0A000 + p.rank * 4096:x} rank {p.rank} nranks {job.world} cudaDev {p.local} nvmlDev {p.local} busId {p.pci}000 commId 0x{0xA1B6C7E10D55F202:x}"
    call = "ncclCommInitRankConfig " if _minor(job) >= 23 else ("ncclCommInitRank " if _minor(job) >= 21 else "")
    colon = "Bootstrap: Using" if _minor(job) >= 24 else "Bootstrap : Using"
    network = "Using network IB" if job.net == "ib" else "Using network Socket"
    for text in (f"{colon} eth0:{p.host.ip}<0>", network, f"{call}{comm} - Init START", f"{call}{comm} - Init COMPLETE"):
        yield Line(h.t, h.who, head + text, "out", "identity" if "COMPLETE" in text else "", h.attempt)


def peer_closed(job: Job, h: Happening) -> Iterator[Line]:
    p, peer = job.procs[h.who[1]], job.procs[h.data["peer"]]
    for text in warn(
        job,
        p,
        h.t,
        p.pid + 77,
        "misc/socket.cc:575" if _minor(job) >= 26 else "misc/socket.cc:484",
        f"socketProgress: Connection closed by remote peer {peer.host.name}<{h.data['port']}>",
    ):
        yield Line(h.t, h.who, text, "out", "", h.attempt)


def completion_error(job: Job, h: Happening) -> Iterator[Line]:
    """The queue pair gave up: retry counter exceeded (status 12)."""
    p, peer = job.procs[h.who[1]], job.procs[h.data["peer"]]
    gids = f"localGid ::ffff:{p.host.ip} remoteGids::ffff:{peer.host.ip}" + (f" hca mlx5_{p.local}" if _minor(job) >= 22 else "")
    status = "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 " if _minor(job) >= 29 else "status=12 opcode=0 len=0 vendor err 129 (Send)"
    for text in warn(job, p, h.t, p.pid + 90, "transport/net_ib.cc:2265", f"NET/IB: Got completion from peer {peer.host.ip}<{h.data['port']}> with {status} {gids}"):
        yield Line(h.t, h.who, text, "out", "", h.attempt)


def async_event(job: Job, h: Happening) -> Iterator[Line]:
    """The adapter told of its port."""
    p = job.procs[h.who[1]]
    for text in warn(job, p, h.t, p.pid + 99, "transport/net_ib.cc:139", f"NET/IB : mlx5_{p.local}:1 Got async error event: port error"):
        yield Line(h.t, h.who, text, "out", h.data.get("proof", "") if text else "", h.attempt)


RENDER = {"nccl_init": init, "peer_closed": peer_closed, "completion_error": completion_error, "async_event": async_event}
