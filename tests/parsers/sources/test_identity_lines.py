from __future__ import annotations

import pytest

from correlator.parsers.sources import identity_lines

from .reading import line, only, read

OWN = [
    ("initializing process group: rank=1 world_size=4 backend=gloo timeout=12.0s", {"global_rank": 1, "world_size": 4}),
    ("INFO rank 3 of 8 starting, CUDA_VISIBLE_DEVICES=0,1", {"global_rank": 3, "world_size": 8}),
    ("Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16", {"global_rank": 3, "world_size": 16}),
    ("LOCAL_RANK: 3 - CUDA_VISIBLE_DEVICES: [0,1,2,3]", {"local_rank": 3}),
    ("Process rank: 3, device: cuda:3, n_gpu: 1, distributed training: True", {"global_rank": 3, "device": "cuda:3"}),
    ("Process index: 3", {"global_rank": 3}),
    ("Local process index: 1", {"local_rank": 1}),
    ("Num processes: 16", {"world_size": 16}),
    ("| distributed init (rank 3): env://, gpu 3", {"global_rank": 3}),
    ("[rank: 3] Seed set to 42", {"global_rank": 3}),
    ("[rank 6, pid 5506] fatal: see above", {"global_rank": 6, "pid": 5506}),
    ("Rank 0 has data parallel group : [0, 1, 2, 3]", {"global_rank": 0}),
    ("RANK=3", {"global_rank": 3}),
    ("export WORLD_SIZE=8", {"world_size": 8}),
    ('declare -x SLURM_NODEID="1"', {"node_rank": 1}),
    ("SLURM_LOCALID=2", {"local_rank": 2}),
    ("starting rank=3 world_size=4 local_rank=1 pid=77", {"global_rank": 3, "world_size": 4, "local_rank": 1, "pid": 77}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fields"), OWN)
def test_own_words(text: str, fields: dict[str, object]) -> None:
    attrs = only(read(identity_lines, text), "identity").attrs
    assert {k: attrs[k] for k in fields} == fields


@pytest.mark.parametrize(
    "text",
    [
        "Detected mismatch between collectives on ranks. Rank 0 is running collective: X, but Rank 1 is running collective: Y",
        "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)",
        "waiting for rank 3 of 8 to join",
        "DistStoreError: wait timeout after 12000ms, keys: /default_pg/0//cpu//0/2",
        "Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 3000",
        "  rank      : 1 (local_rank: 1)",
        "[rank 2] Watchdog caught collective",
    ],
)
def test_statements_about_others_are_no_identity(text: str) -> None:
    assert read(identity_lines, text).events == []


def test_a_header_is_a_claim_and_told_once() -> None:
    text = "[2024-05-01 12:34:56,789] [INFO] [train.py:96:say] [Rank 2] model built"
    assert only(read(identity_lines, f"{text}\n{text}"), "identity").attrs == {"global_rank": 2, "how": "header"}


def test_rank_zero_loggers_do_not_identify_a_shared_file() -> None:
    attrs = only(
        read(identity_lines, "[2024-05-01 12:34:56,789] [INFO] [logging.py:96:log_dist] [Rank 0] model built"),
        "identity",
    ).attrs
    assert attrs == {"claimed_rank": 0, "how": "header"}
    assert read(identity_lines, "[2024-05-01 12:34:56,789] [INFO] [logging.py:96:log_dist] [Rank -1] model built").events == []


def test_mapping_of_another_pid() -> None:
    assert only(read(identity_lines, "trainer pid 5506 is rank 6"), "mapping").attrs == {"pid": 5506, "global_rank": 6}


def test_lines_stay_free_for_others() -> None:
    from correlator.parsers.schema import Sink

    assert identity_lines.parse(line("initializing process group: rank=1 world_size=4"), Sink("x")) is False
