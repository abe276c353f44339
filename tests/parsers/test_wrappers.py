"""Wrapper layers: what is peeled, what only looks like a wrapper, torn lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.parsers.schema import Tag
from correlator.parsers.wrappers import decide

SRUN = [f"{t:>2}: [default{t % 2}]:[rank{t}]: line {n}" for n in range(4) for t in (0, 3, 11)]
PDSH = [f"node-{1 + n % 2}: step {n}" for n in range(10)] + ["continuation of a multi-line print"]
CRI = [f"2025-03-02T11:00:{n:02}.12345678Z stderr F text {n}" for n in range(5)]
KUBECTL = [f"[pod/llm-worker-{n % 2}/pytorch] 2025-03-02T11:00:05.12345678{n}Z   File {n}" for n in range(6)]


def kinds(tags: tuple[Tag, ...]) -> list[tuple[str, int | None, str | None]]:
    return [(t.kind, t.value, t.name) for t in tags]


@pytest.mark.parametrize(
    ("sample", "line", "tags", "text"),
    [
        (SRUN, " 3: [default1]:[rank3]:   File", [("label", 3, None), ("tee", 1, "default"), ("ranktag", 3, None)], "  File"),
        (SRUN, "11: plain", [("label", 11, None)], "plain"),
        ("".join(f"{r}| step {i} loss=1.0\n" for i in range(9) for r in range(4)).splitlines(), "2| plain", [("label", 2, None)], "plain"),
        (SRUN, "srun: error: node-3: task 5: Killed", [], "srun: error: node-3: task 5: Killed"),
        (PDSH, "node-1: [2025] x", [("host", None, "node-1")], "[2025] x"),
        (PDSH, "node-9: late host", [("host", None, "node-9")], "late host"),
        (PDSH, "RuntimeError: x", [], "RuntimeError: x"),
        (["g001: a", "g001: b", "g001: c", "tail"], "g001: x", [("host", None, "g001")], "x"),
        (CRI, "2025-03-02T11:00:05.1Z stdout F [default0]:x", [("std", None, "stdout"), ("tee", 0, "default")], "x"),
        (KUBECTL, KUBECTL[1], [("pod", None, "llm-worker-1")], "  File 1"),
        ([], "[1,3]<stderr>:text", [("mpi", 3, None)], "text"),
        ([], "[1,mpirank:10,algo-2]<stderr>:text", [("mpi", 10, "algo-2")], "text"),
        ([], "[x@0,3][node-2:4411]<stdout>: text", [("mpi", 3, "node-2")], "text"),
        (["Sun Mar  2 11:00:05 2025[1,3]<stderr>:a"], "Sun Mar  2 11:00:05 2025[1,2]<stderr>:x", [("mpi", 2, None)], "x"),
        (["2019-08-11T09:10:02.110Z: [1,0]<stdout>:a"], "2019-08-11T09:10:02.110Z: [1,0]<stdout>:b", [("mpi", 0, None)], "b"),
        ([f"[{n % 4}] step {n}" for n in range(20)], "[3] x", [("mpi", 3, None)], "x"),
        ([], "[rank3]:[E1104 12:34:56.123456789 P.cpp:6] x", [("ranktag", 3, None)], "[E1104 12:34:56.123456789 P.cpp:6] x"),
        ([], "[default3]: [2026-11-30 20:57:52] it", [("tee", 3, "default")], " [2026-11-30 20:57:52] it"),
        ([], "[rank3]:[rank11]: Traceback", [("tee", 3, "rank"), ("ranktag", 11, None)], "Traceback"),
        (["node-2:11: a", "node-2:10: b", "node-1:3: c"] * 3, "node-2:11: x", [("hostrank", 11, "node-2")], "x"),
        ([], "(RayTrainWorker pid=4411, ip=10.0.0.7) x", [("ray", None, "RayTrainWorker")], "x"),
        ([], "(W[rank=9] pid=3) [rank9]: x", [("ray", 9, "W[rank=9]"), ("ranktag", 9, None)], "x"),
        ([], "(worker1, rank=1, pid=2769, ip=10.0.0.12) x", [("sky", 1, "worker1")], "x"),
        ([], "[rank=3] x", [("determined", 3, None)], "x"),
        (["i.pretrain/0 [default0]:a", "i.pretrain/0 b"], "i.pretrain/0 [default1]:x", [("replica", 0, "i.pretrain"), ("tee", 1, "default")], "x"),
        ([f"job-a.n{n % 2}.net [stderr] line {n}" for n in range(9)], "job-a.n1.net [stderr] [rank1]: x",
         [("host", None, "job-a.n1.net"), ("ranktag", 1, None)], "x"),
    ],
)  # fmt: skip
def test_peel(sample: list[str], line: str, tags: list[tuple[str, int | None, str | None]], text: str) -> None:
    found, left, _ = decide(sample).peel(line)
    assert (kinds(found), left) == (tags, text)


@pytest.mark.parametrize(
    "sample",
    [
        [f"{n}: code" for n in range(20)],  # numbered source lines
        [f"Epoch {n}: loss 1" for n in range(20)],
        ["Traceback: x"] * 5,
        ["RuntimeError: x"] * 5,
        ["bash: line 3: foo: command not found"] * 4,
        [f"step: {n}" for n in range(10)],
        [f"step{n}: x" for n in (1, 1, 2, 2, 3, 3)],
        [f"train.py:{n}: UserWarning: x" for n in (1, 1, 1, 2, 2, 2)],
        [f"[{n}]: In" for n in (3, 3, 3, 4, 4)],  # Jupyter
        [f"[{n}] counting" for n in range(20)],
        [f"cn-31:{4410 + n % 4}:4410 [0] NCCL INFO x" for n in range(20)],
        ["[rank 3] batch 1", "[rank: 3] Seed set"] * 4,
        [f"2026-11-30T21:00:43.47{n}Z | INFO | rank=0/4 | m" for n in range(9)],  # the application's own time
        [f"INFO step {n} loss" for n in range(20)],
        [json.dumps({"step": n, "loss": 1.0, "message": "x"}) for n in range(5)],  # metrics, no collector
    ],
)
def test_false_friends(sample: list[str]) -> None:
    plan = decide(sample)
    for line in sample:
        assert plan.peel(line) == ((), line, None)
        assert plan.split(line) == [line]


def test_spaced_prefix_is_the_excepthooks() -> None:
    plan = decide([])
    assert plan.peel("[rank3]: Traceback")[0] == (Tag("ranktag", 3, None, spaced=True),)
    assert plan.peel("[rank3]:[E1104 x")[0] == (Tag("ranktag", 3, None, spaced=False),)


def test_rank_template_of_tee_is_marked() -> None:
    plan = decide(["[rank1]:hello", "[rank0]:2026-11-30T21:38:23Z x", "[rank1]:[rank1]: Traceback", "[rank0]:y"])
    assert plan.tee_rank
    tags, text, _ = plan.peel("[rank1]:[rank1]:   File")
    assert [(t.kind, t.value, t.extra) for t in tags] == [("ranktag", 1, {"template": True}), ("ranktag", 1, None)]
    assert text == "  File"
    assert not decide(["[rank1]:[E1104 12:34:56.1 x", "[rank1]: Traceback"] * 3).tee_rank


def test_collector_time_is_outer() -> None:
    stamp = decide(CRI).peel("2025-03-02T11:00:05.123456789Z stderr P cut")[2]
    assert stamp is not None
    assert (stamp.naive_us, stamp.offset_min) == (1_740_913_205_123_456, 0)
    tags = decide(CRI).peel("2025-03-02T11:00:05.123456789Z stderr P cut")[0]
    assert tags[0].extra == {"partial": True}


def test_task_label_beside_lines_that_name_themselves() -> None:
    sample = [f"{n % 2 * 8}: step {n}" for n in range(8)] + [f"n-1:{n}:77 [0] NCCL INFO x" for n in range(30)]
    assert kinds(decide(sample).peel("8: x")[0]) == [("label", 8, None)]


def test_docker_and_fluent_json() -> None:
    docker = json.dumps({"log": "[rank1]: a\n", "stream": "stderr", "time": "2025-03-02T11:00:05.1Z"})
    tags, text, outer = decide([docker]).peel(docker)
    assert kinds(tags) == [("std", None, "stderr"), ("ranktag", 1, None)]
    assert text == "a"
    assert outer is not None
    assert outer.naive_us == 1_740_913_205_100_000
    fluent = json.dumps({"log": "Traceback\n  File x\nE: y", "kubernetes": {"pod_name": "w-3", "container_name": "c"}})
    plan = decide([fluent])
    texts = [plan.peel(p)[1] for p in plan.split(fluent)]
    assert texts == ["Traceback", "  File x", "E: y"]
    assert kinds(plan.peel(fluent)[0]) == [("pod", None, "w-3")]
    journal = json.dumps({"MESSAGE": [97, 27, 98], "_HOSTNAME": "n1", "__REALTIME_TIMESTAMP": "1740913205123456"})
    tags, text, outer = decide([journal]).peel(journal)
    assert (kinds(tags), text) == ([("host", None, "n1")], "a\x1bb")
    assert outer is not None
    assert outer.naive_us == 1_740_913_205_123_456


def test_torn_lines_are_split_at_the_files_own_prefix() -> None:
    plan = decide(["[default0]:step 1", "[default1]:step 1"])
    assert plan.split("[default0]:step 10 loss=2.1[default1]:hello") == [
        "[default0]:step 10 loss=2.1",
        "[default1]:hello",
    ]
    assert plan.split("[default0]:[rank0]: x") == ["[default0]:[rank0]: x"]
    assert plan.split("loss=2.1[rank1]: Traceback") == ["loss=2.1", "[rank1]: Traceback"]
    assert plan.split("it said '[rank1]: x'") == ["it said '[rank1]: x'"]
    mpi = decide(["[1,0]<stdout>:a", "[1,1]<stdout>:b"])
    assert mpi.split("[1,0]<stdout>:abc[1,1]<stdout>:d") == ["[1,0]<stdout>:abc", "[1,1]<stdout>:d"]


SAMPLES = st.sampled_from([SRUN, PDSH, CRI, KUBECTL, ["[default0]:a", "[default1]:b"], ['{"log":"x","time":"1"}']])
LINES = st.one_of(
    st.text(),
    st.lists(st.sampled_from(["[rank3]:", "[default1]:", " 3: ", "node-1: ", "[1,2]<stderr>:", "(A pid=9) ", CRI[0], "{", "\x00", "x"])).map("".join),
)


@given(SAMPLES, LINES)
def test_text_is_a_suffix_and_pieces_make_the_line(sample: list[str], line: str) -> None:
    plan = decide(sample)
    if not plan.json:
        assert line.endswith(plan.peel(line)[1])
        assert "".join(plan.split(line)) == line
    assert decide([line, line]).split(line)
