from __future__ import annotations

import pytest

from correlator.parsers.schema import Tag
from correlator.parsers.sources import fingerprint, python_traceback

from .reading import only, read

DEVICES = "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"


def printed(seq: int, op: str, shape: str, dtype: str = "Float") -> str:
    return f"CollectiveFingerPrint(SequenceNumber={seq}, OpType={op}, TensorShape=[{shape}], TensorDtypes={dtype}, {DEVICES})"


def statement(a: int, one: str, b: int, other: str, tail: str = "") -> str:
    return f"Detected mismatch between collectives on ranks. Rank {a} is running collective: {one}, but Rank {b} is running collective: {other}.{tail}"


def test_both_sides_and_the_aspects() -> None:
    text = statement(0, printed(5, "ALLREDUCE", "4"), 2, printed(6, "ALLGATHER", "5, 3", "Half"),
                     "Collectives differ in the following aspects: \t Sequence number: 5vs 6  Op type: ALLREDUCEvs ALLGATHER  Tensor Tensor shapes: 4vs 5 3  Tensor Tensor dtypes: Floatvs Half")  # fmt: skip
    assert fingerprint.classify(text) == (
        "mismatch",
        {"why": "fingerprint", "self_rank": 0, "self": "seq=5 op=ALLREDUCE shape=4 dtype=Float", "other_rank": 2, "other": "seq=6 op=ALLGATHER shape=5, 3 dtype=Half",
         "group_local": True, "seq": 5, "op": "ALLREDUCE", "aspects": ["seq", "op", "shape", "dtype"], "garbled": None},
    )  # fmt: skip


def test_a_fingerprint_of_another_tensor_rank_is_garbled() -> None:
    found = fingerprint.classify(
        statement(
            1,
            printed(55, "ALLREDUCE", "2"),
            6,
            "CollectiveFingerPrint(SequenceNumber=0OpType=SCATTER)",
            "Collectives differ in the following aspects: \t Sequence number: 55vs 0",
        )
    )
    assert found is not None
    assert (found[1]["other_rank"], found[1]["garbled"], found[1]["seq"], found[1]["aspects"]) == (6, True, 55, ["seq"])


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("[2]: params[0] in this process with sizes [256, 48] appears not to match sizes of the same param in process 0.",
         {"why": "ddp_params", "self_rank": 2, "self": "params [256, 48]", "other_rank": 0, "other": "params of process 0"}),
        ("DDP expects same model across all ranks, but Rank 1 has 7 params, while rank 2 has inconsistent 5 params.",
         {"why": "ddp_params", "self_rank": 1, "self": "7 params", "other_rank": 2, "other": "5 params"}),
        ("Forward order differs across ranks: rank 0 is all-gathering 2 parameters while rank 3 is all-gathering 1 parameters",
         {"why": "fsdp_order", "self_rank": 0, "self": "2 parameters", "other_rank": 3, "other": "1 parameters"}),
    ],
)  # fmt: skip
def test_parameters(text: str, fields: dict[str, object]) -> None:
    assert fingerprint.classify(text) == ("mismatch", fields)


def test_checkpoint_names_the_ranks_that_failed() -> None:
    assert fingerprint.classify("CheckpointException ranks:dict_keys([3, 11])") == ("accused", {"why": "checkpoint", "ranks": [3, 11]})


def test_numbers_of_another_group_name_nobody() -> None:
    text = "RuntimeError: " + statement(1, printed(5, "ALLREDUCE", "4"), 0, printed(5, "ALLREDUCE", "5"))
    event = only(read(python_traceback, text, tags=(Tag("ranktag", 9, spaced=True),)), "mismatch")
    assert "self_rank" not in event.attrs
    assert (event.rank, event.attrs["group_self_rank"], event.attrs["group_other_rank"]) == (9, 1, 0)


def test_a_logged_statement_counts_too_and_others_do_not() -> None:
    assert only(read(fingerprint, statement(0, printed(1, "BARRIER", ""), 1, printed(2, "BARRIER", ""))), "mismatch").seq == 1
    assert fingerprint.classify("RuntimeError: shapes do not match") is None
