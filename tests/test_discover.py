"""What is found below a directory, what is skipped with a reason, and what paths say of rank, node and attempt."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from correlator.discover import discover, path_hints
from correlator.errors import CorrelatorError
from correlator.parsers.opening import open_chunks


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("none_x/attempt_0/3/stderr.log", {"attempt": 0, "local_rank": 3, "std": "stderr", "launcher": "torchrun", "agent_dir": "none_x", "rank": None}),
        ("node1/job_y/attempt_2/0/stdout.log.gz", {"attempt": 2, "local_rank": 0, "node": "node1", "agent_dir": "node1/job_y"}),
        ("rank_12.log", {"rank": 12, "local_rank": None}),
        ("train.rank-3.txt", {"rank": 3}),
        ("local_rank_2.log", {"rank": None, "local_rank": 2}),
        ("global_rank7.err", {"rank": 7}),
        ("rank5/out.log", {"rank": 5}),
        ("nccl.gpu-node-7.4411", {"node": "gpu-node-7", "pid": 4411, "rank": None}),
        ("std_log_process_4.txt", {"rank": 4}),
        ("worker-0123456789abcdef-01000000-8812.err", {"pid": 8812, "launcher": "ray", "rank": None}),
        ("pods/ml_trainer-1_uid/pytorch/2.log", {"node": "trainer-1", "attempt": 2, "launcher": "kubernetes"}),
        ("slurm-9912.out", {"launcher": "slurm", "rank": None}),
        ("console.log", {"rank": None, "local_rank": None, "node": None, "launcher": None}),
        ("dmesg-gpu17.txt", {"node": "gpu17"}),
        ("logs/node-3.kern.log", {"node": "node-3"}),
        ("dmesg.txt", {"node": None}),
    ],
)
def test_path_hints(path: str, expected: dict[str, Any]) -> None:
    hints = path_hints(path)
    assert {k: getattr(hints, k) for k in expected} == expected


def put(root: Path, **files: bytes | str) -> None:
    for name, body in files.items():
        file = root / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body if isinstance(body, bytes) else body.encode())


def paths(root: Path | list[Path]) -> list[str]:
    return [s.path for s in discover([str(r) for r in (root if isinstance(root, list) else [root])]).sources]


def test_sources_come_in_natural_order(tmp_path: Path) -> None:
    put(tmp_path, rank_10_dot_log="x", rank_9_dot_log="x", rank_2_dot_log="x")
    found = discover([str(tmp_path)]).sources
    assert [s.path for s in found] == ["rank_2.log", "rank_9.log", "rank_10.log"]
    assert [s.source_id for s in found] == [0, 1, 2]


def test_what_is_no_log_is_skipped_with_a_reason(tmp_path: Path) -> None:
    put(tmp_path, model_dot_pt=b"PK", train_dot_py="print()", core=bytes(range(1, 8)) * 500, rank_0_dot_log="hello\n", _dot_git__config="x")
    found = discover([str(tmp_path)])
    assert [s.path for s in found.sources] == ["rank_0.log"]
    reasons = {p.path: (p.kind, p.detail) for p in found.problems}
    assert reasons["core"] == ("skipped", "binary data")
    assert reasons["train.py"][0] == "skipped" and ".py" in reasons["train.py"][1]


def test_links_back_into_the_tree_end(tmp_path: Path) -> None:
    put(tmp_path, a__rank_0_dot_log="x")
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    found = discover([str(tmp_path)])
    assert [s.path for s in found.sources] == ["a/rank_0.log"]
    assert [p.detail for p in found.problems] == ["symbolic link back into the tree"]


def test_fifos_are_not_opened(tmp_path: Path) -> None:
    put(tmp_path, rank_0_dot_log="x")
    os.mkfifo(tmp_path / "pipe.log")
    found = discover([str(tmp_path)])
    assert [s.path for s in found.sources] == ["rank_0.log"]
    assert [(p.path, p.detail) for p in found.problems] == [("pipe.log", "not a regular file")]


def test_archive_members_are_sources_and_escapes_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as tar:
        for name in ("job/rank_0.log", "../evil.log", "/etc/evil.log"):
            info = tarfile.TarInfo(name)
            info.size = 2
            tar.addfile(info, io.BytesIO(b"x\n"))
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as z:
        z.writestr("job/rank_1.log", "x\n")
    found = discover([str(tmp_path)])
    assert [(s.path, s.hints.rank) for s in found.sources] == [("logs.tar.gz!job/rank_0.log", 0), ("more.zip!job/rank_1.log", 1)]
    assert {p.path for p in found.problems} == {"logs.tar.gz!../evil.log", "logs.tar.gz!/etc/evil.log"}


def test_broken_archive_is_a_problem_and_the_rest_goes_on(tmp_path: Path) -> None:
    put(tmp_path, bad_dot_tar=b"not a tar at all", rank_0_dot_log="x")
    found = discover([str(tmp_path)])
    assert [s.path for s in found.sources] == ["rank_0.log"]
    assert any(p.path == "bad.tar" and p.kind == "unreadable" for p in found.problems)


def test_dense_siblings_get_an_index_not_a_rank(tmp_path: Path) -> None:
    put(tmp_path, job_77_0_dot_out="x", job_77_1_dot_out="x", job_77_2_dot_out="x")
    assert [(s.hints.rank, s.hints.index) for s in discover([str(tmp_path)]).sources] == [(None, 0), (None, 1), (None, 2)]


def test_numbers_with_a_hole_are_no_index(tmp_path: Path) -> None:
    put(tmp_path, part_3_dot_out="x", part_9_dot_out="x")
    assert [s.hints.index for s in discover([str(tmp_path)]).sources] == [None, None]


def test_globs_and_several_roots(tmp_path: Path) -> None:
    put(tmp_path, a__rank_0_dot_log="x", b__rank_1_dot_log="x")
    assert paths([tmp_path / "a", tmp_path / "b"]) == ["a/rank_0.log", "b/rank_1.log"]
    assert paths(tmp_path / "*" / "rank_*.log") == ["a/rank_0.log", "b/rank_1.log"]


def test_a_missing_path_says_where_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CorrelatorError, match="no such file") as caught:
        discover([str(tmp_path / "gone")])
    assert str(tmp_path / "gone") in str(caught.value) and "check the path" in str(caught.value)


def test_named_files_keep_their_folders(tmp_path: Path) -> None:
    """`logs/*/*` names the same files as `logs`: node and attempt folders are evidence."""
    put(tmp_path, node0__rank_0_dot_log="a", node1__rank_1_dot_log="b", node1__rank_2_dot_log="c")
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    assert paths(files[::-1]) == paths(tmp_path) == ["node0/rank_0.log", "node1/rank_1.log", "node1/rank_2.log"]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    put(tmp_path, rank_0_dot_log="a", rank_1_dot_log="b")
    assert paths([tmp_path, tmp_path / "rank_1.log"]) == ["rank_0.log", "rank_1.log"]


def test_files_joined_by_tail_are_read_apart(tmp_path: Path) -> None:
    put(tmp_path, all_dot_txt="==> node0/rank_0.log <==\none\ntwo\n\n==> node1/rank_1.log <==\nno newline at the end\n==> empty.log <==\n\n==> last.log <==\nx")
    found = discover([str(tmp_path)]).sources
    read = {s.path: b"".join(open_chunks(s, problem=lambda *_: None)) for s in found}
    assert read == {
        "all.txt!node0/rank_0.log": b"one\ntwo\n",
        "all.txt!node1/rank_1.log": b"no newline at the end",
        "all.txt!empty.log": b"",
        "all.txt!last.log": b"x",
    }
    assert [s.hints.rank for s in found if s.hints.node == "node1"] == [1]


def test_a_log_that_quotes_such_a_header_is_one_file(tmp_path: Path) -> None:
    put(tmp_path, rank_0_dot_log="first\n==> other <==\nsecond\n")
    assert paths(tmp_path) == ["rank_0.log"]
