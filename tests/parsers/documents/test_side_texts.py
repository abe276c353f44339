"""nvidia-smi, lspci, the stock flight recorder analyser and listings of dumps."""

from __future__ import annotations

from types import ModuleType

import pytest

from correlator.parsers.documents import fr_analysis, listing, lspci, nvidia_smi
from correlator.parsers.schema import Event, Sink

TABLE = (
    "Mon Mar  2 10:00:00 2026\n+--------------------+\n| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15   CUDA Version: 12.4 |\n"
    "|   0  NVIDIA H100 80GB HBM3     On  | 00000000:5E:00.0 |\n+--------------------+\n"
)
TRAINING = TABLE + "2026-03-02 10:00:05,123 INFO train: step 1/40 loss=5.7\n[rank0]: ValueError: bad sample\n"


def read(module: ModuleType, text: str, path: str = "side.txt") -> Sink:
    assert module.claims(path, text.encode()[:4096])
    out = Sink(path)
    module.parse(path, text.encode(), out)
    return out


def one(out: Sink, kind: str) -> Event:
    (event,) = [e for e in out.events if e.kind == kind]
    return event


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Unable to determine the device handle for GPU0000:5E:00.0: Unknown Error\n", {"fault": "GPU is lost", "xid": 79, "pci_bus": "0000:5e:00.0", "role": "root"}),
        ("Unable to determine the device handle for GPU 0000:91:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
         {"fault": "GPU is lost", "xid": 79, "pci_bus": "0000:91:00.0", "role": "root"}),
        ("Unable to determine the device handle for gpu 00000000:91:00.0: GPU requires reset\n", {"fault": "GPU requires reset", "pci_bus": "0000:91:00.0", "role": "root"}),
    ],
)  # fmt: skip
def test_a_gpu_that_the_driver_lost(text: str, fields: dict[str, object]) -> None:
    event = one(read(nvidia_smi, text), "device_fault")
    assert (event.attrs, event.source, event.line) == (fields, "nvidia_smi", 1)


def test_a_healthy_table_says_nothing() -> None:
    assert read(nvidia_smi, TABLE).events == []


@pytest.mark.parametrize("module", [nvidia_smi, lspci, fr_analysis, listing])
def test_a_training_log_that_prints_the_table_stays_a_log(module: ModuleType) -> None:
    log = TRAINING + "  ACSCtl: SrcValid+ ReqRedir+\n-rw-r--r-- 1 u g 0 Mar  2 10:00 nccl_trace_rank_3\n"
    assert not module.claims("slurm-71.out", log.encode()[:4096])


def test_a_long_table_at_the_top_of_a_log_is_not_a_document() -> None:
    assert not nvidia_smi.claims("rank_0.log", (TABLE + "| row |\n" * 1000).encode()[:4096])


def test_access_control_that_redirects() -> None:
    text = "# lspci -vvv | grep ACSCtl\n3a:00.0 PCI bridge: PEX\n\t\tACSCtl:\tSrcValid+ ReqRedir- CmpltRedir-\n40:01.1 PCI bridge: GPP\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n"
    assert read(lspci, text).configs == [(5, "", "pci.acs", "redirects", "lspci 40:01.1")]


def test_access_control_that_is_off() -> None:
    assert read(lspci, "3a:00.0 PCI bridge: PEX\n\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir-\n").configs == []


def test_culprits_of_the_analyser_are_not_believed() -> None:
    text = (
        "built groups, memberships\nCollective 52 at entry 51 errors\n group info: 0:default_pg\n"
        " error msg: Culprit rank 37; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[2049]]' does not match, Culprit rank 2; Error type: SIZE_OR_SYNTAX_MISMATCH\n"
    )
    out = read(fr_analysis, text)
    mismatch, accused = one(out, "mismatch"), one(out, "accused")
    assert mismatch.attrs == {"why": "fr_analysis", "error": "SIZE_OR_SYNTAX_MISMATCH", "scope": "job"}
    assert accused.attrs == {"ranks": [2, 37], "why": "fr_analysis", "reliable": False, "group": "0", "at_seq": 52}


def test_ranks_without_the_call_are_accused() -> None:
    text = "built groups, memberships\nNot all ranks joining collective, sequence number: 7\ngroup info: 0:default_pg\nmissing ranks: {3, 1}\n"
    assert one(read(fr_analysis, text), "accused").attrs == {"ranks": [1, 3], "why": "fr_missing", "group": "0", "at_seq": 7}


def test_a_listing_tells_who_wrote_a_dump() -> None:
    text = (
        "total 24\n-rw-r--r-- 1 user grp 18231 Mar  2 11:10 nccl_trace_rank_0\n-rw-r--r-- 1 user grp     0 Mar  2 11:10 nccl_trace_rank_2\n"
        "-rw-r--r-- 1 user grp 18102 Mar  2 11:10 nccl_trace_rank_10\n-rw-r--r-- 1 user grp 12 Mar  2 11:10 notes.txt\n"
    )
    event = one(read(listing, text, "ls.txt"), "fr_dump_present")
    assert (event.attrs, event.line) == ({"ranks": [0, 2, 10], "count": 3, "empty": [2]}, 2)


def test_a_listing_of_other_files_is_left_alone() -> None:
    assert not listing.claims("ls.txt", b"total 4\n-rw-r--r-- 1 user grp 12 Mar  2 11:10 model.pt\n")


def test_a_difference_of_state_is_no_mismatch() -> None:
    text = "built groups, memberships\nCollective sequence number: 9 has errors\nCulprit rank 4; Error type: COLLECTIVE_STATE_MISMATCH, Expected state: completed\n"
    out = read(fr_analysis, text)
    assert [e.kind for e in out.events] == ["accused"]
    assert (out.events[0].attrs["reliable"], out.events[0].attrs["at_seq"]) == (False, 9)


def test_ranks_without_a_dump_are_suspects_only() -> None:
    text = "built groups, memberships\nWe cannot decide what's wrong with this collective because we missed FR dumps from ranks (5, 2)\n"
    assert one(read(fr_analysis, text), "accused").attrs == {"ranks": [2, 5], "why": "fr_dump_missing", "reliable": False}
