from __future__ import annotations

import pytest

from correlator.parsers.schema import Event, Sink
from correlator.parsers.sources import nccl
from correlator.parsers.sources.nccl_warnings import read_warning

from .reading import only, read

AT = "node-a:3977:4064 [3] "
INIT = AT + "NCCL INFO comm 0x68f4a295 rank 5 nranks 16 cudaDev 3 nvmlDev 3 busId 5e000 commId 0xa1b6c7e10d55f202 - Init "


def info(out: Sink) -> list[str]:
    return [e.kind for e in out.events]


def warn(msg: str) -> Event:
    (event,) = read(nccl, AT + "transport/net.cc:7 NCCL WARN " + msg).events
    return event


@pytest.mark.parametrize(
    "front",
    [
        AT,
        "node-a:3977:4064 ",
        "[2026-02-11 03:15:02] node-a.cluster.local:3977:4064 [3] include/socket.h:421 ",
        "node-a:3977:4064 [3] 12.345678 transport/net_socket.cc:99 (ncclSocketConnect) ",
    ],
)
def test_every_layout_of_a_warning(front: str) -> None:
    event = only(read(nccl, front + "NCCL WARN Net : Connection closed by remote peer node-b<41122>"), "lost_connection")
    assert (event.message, event.peer_host, event.attrs["how"]) == ("Net : Connection closed by remote peer node-b<41122>", "node-b", "closed")


def test_rccl_writes_its_level_in_brackets() -> None:
    event = only(read(nccl, "mi-07:5512:5640 [0] [FATAL ERROR]: Cuda failure 'out of memory'"), "out_of_memory")
    assert (event.message, event.attrs["device"]) == ("Cuda failure 'out of memory'", 0)


def test_a_time_of_day_is_no_rccl_front() -> None:
    assert read(nccl, "11:00:05 [ERROR] out of disk").events == []


def test_a_communicator_from_start_to_completion() -> None:
    start, done = read(nccl, INIT + "START\n" + INIT + "COMPLETE").events
    assert (start.kind, done.kind) == ("init_start", "init_done")
    assert start.pg == done.pg == "0xa1b6c7e10d55f202"
    wanted = {"comm_rank": 5, "nranks": 16, "comm_id": "0xa1b6c7e10d55f202", "cuda_dev": 3, "pci_bus": "0000:5e:00.0", "host": "node-a", "pid": 3977}
    assert {k: done.attrs[k] for k in wanted} == wanted


@pytest.mark.parametrize(
    ("bus", "address"), [("5e000", "0000:5e:00.0"), ("1b000", "0000:1b:00.0"), ("c8010", "0000:c8:01.0"), ("100005e000", "10000:5e:00.0"), ("7000", "0000:07:00.0")]
)
def test_the_bus_id_has_no_separators(bus: str, address: str) -> None:
    assert nccl.pci(bus) == address


def test_addresses_settings_and_version() -> None:
    out = read(
        nccl,
        AT + "NCCL INFO Bootstrap : Using bond0:10.0.0.7<0>\n" + AT + "NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\n"
        "NCCL version 2.21.5+cuda12.4\n" + AT + "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n" + AT + "NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
    )  # fmt: skip
    mapping = only(out, "mapping")
    assert (mapping.attrs["host"], mapping.attrs["ip"]) == ("node-a", "10.0.0.7")
    assert {k: only(out, "env").attrs[k] for k in ("name", "value")} == {"name": "NCCL_IB_TIMEOUT", "value": "22"}
    assert [(key, value) for _, _, key, value, _ in out.configs] == [("env.NCCL_IB_TIMEOUT", "22"), ("nccl.version", "2.21.5+cuda12.4"), ("nccl.transport", "P2P")]


def test_calls_are_numbered_within_their_communicator() -> None:
    call = AT + "NCCL INFO {}: opCount {} sendbuff 0x7f recvbuff 0x7f count {} datatype 7 op 0 root 0 comm {} [nranks=4] stream 0x5"
    out = read(nccl, "\n".join([call.format("AllReduce", "0", 1024, "0xaa"), call.format("Broadcast", "0", 8, "0xbb"), call.format("AllReduce", "1a", 2048, "0xaa")]))
    assert [(e.kind, e.pg, e.seq, e.op, e.attrs["numel_in"], e.attrs["dtype"]) for e in out.events] == [
        ("enqueued", "nccl:size4#1", 1, "ALLREDUCE", 1024, "float32"), ("enqueued", "nccl:size4#2", 1, "BROADCAST", 8, "float32"),
        ("enqueued", "nccl:size4#1", 2, "ALLREDUCE", 2048, "float32"),
    ]  # fmt: skip


def test_sends_are_not_counted_among_the_collectives() -> None:
    call = AT + "NCCL INFO {}: opCount 0 sendbuff 0x7f recvbuff 0x7f count 8 datatype 7 op 0 root 1 comm 0xaa [nranks=4] stream 0x5"
    out = read(nccl, "\n".join(call.format(op) for op in ("AllReduce", "Send", "Recv", "AllReduce")))
    assert [(e.op, e.seq) for e in out.events] == [("ALLREDUCE", 1), ("SEND", None), ("RECV", None), ("ALLREDUCE", 2)]


def test_the_newest_calls_of_a_communicator_are_kept() -> None:
    call = AT + "NCCL INFO AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x7f count {} datatype 7 op 0 root 0 comm 0x{} [nranks=4] stream 0x5"
    out = read(nccl, "\n".join([call.format(9, "bb"), *(call.format(n, "aa") for n in range(1, 1001))]))
    kept = sorted((e.pg, e.seq, e.attrs["numel_in"], e.line) for e in out.events)
    assert [k for k in kept if k[0] == "nccl:size4#1"] == [("nccl:size4#1", 1, 9, 1)]
    assert [k[1:] for k in kept if k[0] == "nccl:size4#2"] == [(n, n, n + 1) for n in range(1001 - nccl.CALLS_KEPT, 1001)]


@pytest.mark.parametrize("text", ["Connected all rings", "Trees [0] 1/-1/-1->0->-1", "NET/IB : No device found.", "Using non-device net plugin"])
def test_other_information_is_owned_and_dropped(text: str) -> None:
    out = Sink("x.log")
    from .reading import line

    assert nccl.parse(line(AT + "NCCL INFO " + text), out)
    assert out.events == []


def test_the_rank_table_of_the_tests_names_every_rank_of_a_shared_process() -> None:
    row = "#  Rank {:2d} {}Pid  66120 on  hgx-n2 device {:2d} [0x18] NVIDIA H100 80GB HBM3"
    out = read(nccl, row.format(0, "Group  0 ", 0) + "\n" + row.format(1, "Group  0 ", 1) + "\n" + row.format(2, "", 2))
    assert [(e.kind, e.attrs["global_rank"], e.attrs["pid"], e.attrs["host"], e.attrs["device"]) for e in out.events] == [
        ("mapping", r, 66120, "hgx-n2", r) for r in (0, 1, 2)
    ]
    assert all(e.attrs["single_process"] for e in out.events)


def test_a_dead_peer_of_the_reliability_service() -> None:
    event = only(read(nccl, AT + "NCCL INFO RAS declaring peer node-b<28028> as DEAD; terminating job"), "accused")
    assert (event.peer_host, event.attrs["why"]) == ("node-b", "ras_dead")


@pytest.mark.parametrize(
    ("msg", "kind", "fields"),
    [
        ("NET/IB : mlx5_2:1 Got async error event: port error", "link_down", {"fault": "port error", "hca": "mlx5_2"}),
        ("NET/IB : Got async event : local catastrophic error", "link_down", {"fault": "local catastrophic error"}),
        ("NET/IB : Got async event : port active", "warned", {"fault": "port active"}),
        ("Cuda failure 2 'out of memory'", "out_of_memory", {}),
        ("Cuda failure 700 'an illegal memory access was encountered'", "illegal_access", {"cuda_error": 700}),
        ("Cuda failure 999 'unknown error'", "raised", {"exception": "Cuda failure"}),
        ("Error: failed to extend /dev/shm/nccl-Xy12 to 33030532 bytes", "shm_exhausted", {}),
        ("Error while creating shared memory segment /dev/shm/nccl-Xy12 (size 9637888)", "shm_exhausted", {}),
        ("Net : Connect to 10.0.0.2<51442> failed : No route to host", "net_unreachable", {"peer_port": 51442}),
        ("Call to ibv_modify_qp failed with error Connection timed out", "net_unreachable", {}),
        ("Net : Call to recv from 10.0.0.2<51442> failed : Connection reset by peer", "lost_connection", {"how": "reset"}),
        ("Net : Call to send to 10.0.0.2<51442> failed : Broken pipe", "lost_connection", {"how": "broken_pipe"}),
        ("Net : Connect to 10.0.0.2<51442> failed : Connection refused", "lost_connection", {"how": "refused"}),
        ("NET/IB : Got completion from peer 10.0.0.2<51442> with error 12, opcode 0, len 0, vendor err 129", "remote_error", {"status": 12, "vendor_err": 129}),
        ("NET/IB : Got completion with error 5, opcode 0, len 0, vendor err 244", "remote_error", {"status": 5, "secondary": True}),
        ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 5e000", "gpu_shared", {"ranks": [1, 0]}),
        ("Mismatched NCCL version detected : rank 0 version 22105 rank 8 version 21903", "misconfigured", {}),
        ("NET/Socket : peer 10.0.0.2<5> message truncated : receiving 8192 bytes instead of 4096", "mismatch", {"why": "net_size", "got": 8192, "want": 4096}),
        ("[Service thread] Accept failed Success", "teardown_noise", {}),
        ("Missing \"iommu=pt\" from kernel command line", "warned", {}),
    ],
)  # fmt: skip
def test_warnings(msg: str, kind: str, fields: dict[str, object]) -> None:
    event = warn(msg)
    assert (event.kind, event.message) == (kind, msg)
    assert {k: event.attrs.get(k) for k in fields} == fields


@pytest.mark.parametrize(
    ("msg", "peer"),
    [("Net : Connect to 10.0.0.2<51442> failed : Connection refused", "10.0.0.2"), ("x failed for node-b03.cluster<9>", "node-b03"), ("no peer here", None)],
)
def test_the_peer_of_a_warning(msg: str, peer: str | None) -> None:
    assert read_warning(msg).peer_host == peer


def test_the_own_proxy_thread_is_no_peer() -> None:
    text = AT + "NCCL WARN Cuda failure 700 'an illegal memory access was encountered'\n" + AT + "NCCL WARN Net : Connection closed by remote peer node-a<41122>"
    assert info(read(nccl, text)) == ["illegal_access", "teardown_noise"]


def test_the_first_code_behind_a_warning_is_its_result() -> None:
    out = read(nccl, AT + "NCCL WARN Cuda failure 999 'unknown error'\n" + AT + "NCCL INFO transport/net.cc:7 -> 1\n" + AT + "NCCL INFO group.cc:9 -> 3 [Async thread]")
    assert [e.attrs.get("result") for e in out.events] == [1]
