from __future__ import annotations

import pytest

from correlator.parsers.sources import kernel

from .reading import only, read


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("[  +0.000006] NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "device_fault",
         {"xid": 79, "pci_bus": "0000:5e:00.0", "role": "root", "fault": "GPU has fallen off the bus"}),
        ("[Thu Aug 13 18:20:14 2026] NVRM: Xid (PCI:0000:1b:00): 74, pid=44102, name=python, NVLink: fatal error detected on link 4", "device_fault",
         {"xid": 74, "pci_bus": "0000:1b:00.0", "pid": 44102, "comm": "python", "fault": "NVLink: fatal error detected on link 4"}),
        ("NVRM: Xid (PCI:0000:03:00 GPU-I:07 GPU-CI:01): 94, pid=7, name=python3, Contained: CE User Channel (0x9). RST: No, D-RST: No", "device_fault",
         {"xid": 94, "gpu_instance": 7, "pid": 7, "pci_bus": "0000:03:00.0"}),
        ("NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.", "device_fault", {"xid": 79, "pci_bus": "0000:03:00.0"}),
        ("Mar  2 11:00:05 node-3 kernel: NVRM: Xid (PCI:0000:5d:00): 45, pid=9, name=python, Ch 00000008", "warned", {"xid": 45, "role": "aftereffect", "host": "node-3"}),
        ("NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus caused by previous Xid 149", "warned", {"caused_by": 149, "role": "aftereffect"}),
        ("[Thu Aug 13 18:20:14 2026] nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 31 egress non-posted PRIV error", "warned",
         {"sxid": 12028, "switch": "0000:86:00.0"}),
        ("[Thu Aug 13 18:20:14 2026] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up", "device_fault",
         {"sxid": 20034, "role": "root", "scope": "host"}),
        ("[  +0.000002] NVRM: GPU 0000:5e:00.0: GPU has fallen off the bus.", "device_fault", {"xid": 79, "pci_bus": "0000:5e:00.0"}),
        ("[Mon Mar  2 11:00:05 2026] Out of memory: Killed process 4411 (python) total-vm:1kB, anon-rss:8120kB", "killed_by_kernel",
         {"pid": 4411, "comm": "python", "rss_kb": 8120}),
        ("[ 12.000001] mlx5_core 0000:53:00.0 enp83s0f0np0: Link down", "link_down", {"hca": "enp83s0f0np0", "scope": "host"}),
        ("[ 12.000001] ib0: Link is down", "link_down", {"hca": "ib0"}),
        ("[ 13.000001] mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link ACTIVE", "warned", {"hca": "mlx5_3", "recovered": True}),
        ("[Jan 4 00:31] pcieport 0000:5d:02.0: AER: Corrected error received: 0000:5d:02.0", "warned", {"why": "pcie", "pci_bus": "0000:5d:02.0"}),
        ("[ 9.1] pcieport 0000:0c:00.0: AER: Uncorrectable (Fatal) error message received from 0000:0d:00.0", "device_fault",
         {"role": "precursor", "pci_bus": "0000:0d:00.0"}),
        ("[ 9.1] pcieport 0000:0c:00.0: AER: Uncorrectable (Non-Fatal) error message received from 0000:0d:00.0", "warned", {"why": "pcie"}),
        ("[ 1.5] nfs: server 10.0.0.9 not responding, still trying", "warned", {"why": "storage", "server": "10.0.0.9"}),
        ("[ 9.5] nfs: server 10.0.0.9 OK", "warned", {"server": "10.0.0.9", "recovered": True}),
        ("[ 9.5] EXT4-fs (nvme0n1p2): Remounting filesystem read-only", "io_failed", {"path": "nvme0n1p2", "scope": "host"}),
        ("[ 9.5] XFS (dm-3): Corruption of in-memory data detected. Shutting down filesystem", "io_failed", {"path": "dm-3"}),
        ("[ 8.5] pt_main_thread[4411]: segfault at 0 ip 00007f sp 00007f error 4 in libnccl.so.2[7f00+10]", "crashed",
         {"pid": 4411, "comm": "pt_main_thread", "signal": "SIGSEGV", "library": "libnccl.so.2"}),
        ("[ 8.5] traps: python3[4411] general protection fault ip:7f sp:7f error:0 in libcuda.so.1[7f00+10]", "crashed", {"pid": 4411, "comm": "python3", "library": "libcuda.so.1"}),
        ("[ 8.5] INFO: task python3:4411 blocked for more than 120 seconds.", "warned", {"why": "hung task", "pid": 4411}),
        ("[ 8.5] watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]", "warned", {"why": "soft lockup", "pid": 2254956, "comm": "python3"}),
    ],
)  # fmt: skip
def test_lines(text: str, kind: str, fields: dict[str, object]) -> None:
    event = only(read(kernel, text), kind)
    assert {k: event.attrs.get(k) for k in fields} == fields


def test_how_long_a_task_was_blocked() -> None:
    assert only(read(kernel, "[ 8.5] INFO: task python3:4411 blocked for more than 120 seconds."), "warned").duration_ms == 120_000.0


def test_a_fatal_switch_error_makes_the_gpus_follow() -> None:
    text = (
        "[Thu Aug 13 18:20:14 2026] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up\n"
        "[Thu Aug 13 18:20:26 2026] NVRM: Xid (PCI:0000:1b:00): 74, pid=1, name=python, NVLink: fatal error detected on link 4\n"
        "[Thu Aug 13 19:40:00 2026] NVRM: Xid (PCI:0000:1c:00): 74, pid=2, name=python, NVLink: fatal error detected on link 4"
    )
    assert [(e.kind, e.attrs.get("xid")) for e in read(kernel, text).events] == [("device_fault", None), ("warned", 74), ("device_fault", 74)]


def test_the_lost_gpu_of_a_block_of_three_lines() -> None:
    text = "NVRM: The NVIDIA GPU 0000:18:00.0\nNVRM: (PCI ID: 10de:20b5) installed in this system has\nNVRM: fallen off the bus and is not responding to commands."
    event = only(read(kernel, text), "device_fault")
    assert (event.attrs["pci_bus"], event.line) == ("0000:18:00.0", 3)


def test_the_control_group_of_a_victim_names_the_slurm_task() -> None:
    text = (
        "[Mon Mar  2 11:00:05 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,oom_memcg=/slurm/job_71,"
        "task_memcg=/slurm/uid_1000/job_71/step_0/task_3,task=python3,pid=4411,uid=1000\n"
        "[Mon Mar  2 11:00:05 2026] Memory cgroup out of memory: Killed process 4411 (python3) total-vm:1kB, anon-rss:2kB"
    )
    assert only(read(kernel, text), "killed_by_kernel").attrs["task"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-02 11:00:05,123 INFO train: watching dmesg for NVRM: Xid 79 and Killed process lines",
        "[rank3]: RuntimeError: DataLoader worker (pid 4411) is killed by signal: Killed process",
        "[2026-03-02 11:00:05,123] [INFO] [net.py:1:up] eth0: Link is up",
        "[  +1.402117] NVRM: GPU at PCI:0000:5e:00: GPU-7b0c11f2-0000-0000-0000-000000000000",
    ],
)
def test_other_lines_are_left_alone(text: str) -> None:
    assert read(kernel, text).events == []


@pytest.mark.parametrize("bus", ["0000:5e:00", "00000000:5E:00.0", "5e:00.0", "GPU0000:5E:00.0"])
def test_one_spelling_of_a_pci_address(bus: str) -> None:
    assert kernel.pci(bus) == "0000:5e:00.0"


def test_every_code_has_one_of_the_known_roles() -> None:
    table = kernel.xid_table()
    assert len(table) > 100
    assert {role for _, role, _ in table.values()} <= {"root", "either", "aftereffect", "recording", "precursor", "info"}
    assert (table[79][1], table[45][1], table[63][1]) == ("root", "aftereffect", "recording")
