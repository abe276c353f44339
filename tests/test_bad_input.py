"""Bad input never stops the other files and never shows a traceback: it becomes a row in `problems`."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from correlator.api import open_job
from correlator.errors import CorrelatorError

LINES = "".join(f"2026-05-03 10:00:0{i},100 INFO train: rank={{r}} world_size=2 step {i}/40 loss=5.{i}\n" for i in range(1, 5))
FAIL = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 1, in <module>\n[rank1]:     f()\n[rank1]: ValueError: bad\n'
LOST = (
    '[rank0]: Traceback (most recent call last):\n[rank0]:   File "t.py", line 1, in <module>\n[rank0]:     f()\n'
    "[rank0]: RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:4160. This is typical\n"
)


def write(folder: Path, name: str, data: bytes) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    write(folder, "rank_0.log", (LINES.format(r=0) + LOST).encode())
    write(folder, "rank_1.log", (LINES.format(r=1) + FAIL).encode())
    return folder


def named(folder: Path) -> tuple[list[int], list[str]]:
    with open_job(str(folder)) as job:
        kinds = [row["kind"] for row in job.sql("SELECT kind FROM problems").to_pylist()]
        return (job.primary or {"initiating_ranks": []})["initiating_ranks"], kinds


def test_plain(logs: Path) -> None:
    assert named(logs) == ([1], [])


def packed_twice(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(gzip.compress(data))


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress, packed_twice], ids=["gz", "bz2", "xz", "zst", "gz in zst"]
)
def test_compressed(logs: Path, pack) -> None:  # type: ignore[no-untyped-def]
    data = (logs / "rank_1.log").read_bytes()
    (logs / "rank_1.log").unlink()
    write(logs, "rank_1.log.xx", pack(data))  # recognised by magic, not by suffix
    assert named(logs)[0] == [1]


def test_truncated_gzip_keeps_what_came(logs: Path) -> None:
    data = gzip.compress((LINES.format(r=1) * 50 + FAIL).encode())
    (logs / "rank_1.log").unlink()
    write(logs, "rank_1.log.gz", data[: len(data) - 12])
    ranks, kinds = named(logs)
    assert "truncated" in kinds
    with open_job(str(logs)) as job:
        assert job.sql("SELECT max(step) AS s FROM steps WHERE rank = 1").to_pylist()[0]["s"] == 4


def test_archives_with_hostile_members(logs: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in (("job/rank_0.log", LINES.format(r=0) + LOST), ("job/rank_1.log", LINES.format(r=1) + FAIL), ("/etc/evil.log", "x"), ("../up.log", "x")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    archive = logs.parent / "a.tar.gz"
    archive.write_bytes(buffer.getvalue())
    ranks, kinds = named(archive)
    assert ranks == [1]
    assert kinds.count("skipped") == 2


def test_broken_archives(logs: Path) -> None:
    write(logs, "broken.tar", b"not a tar at all" * 40)
    write(logs, "broken.zip", b"PK\x03\x04 nothing")
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    write(logs, "empty.zip", empty.getvalue())
    ranks, kinds = named(logs)
    assert ranks == [1]
    assert len(kinds) >= 2


def test_bytes_of_all_sorts(logs: Path) -> None:
    for name in ("rank_0.log", "rank_1.log"):
        data = (logs / name).read_bytes()
        data = data.replace(b"\n", b"\r\n").replace(b"step 2", b"\xff\xfe\x00 step 2 \x1b[31m")
        write(logs, name, b"\xef\xbb\xbf" + data)
    assert named(logs)[0] == [1]


def test_empty_files_symlink_loops_and_unreadable_things(logs: Path) -> None:
    write(logs, "empty.log", b"")
    (logs / "loop").symlink_to(logs, target_is_directory=True)
    (logs / "dangling.log").symlink_to(logs / "nowhere")
    write(logs, "model.safetensors", b"\x00" * 100)
    write(logs, "core.123", bytes(range(1, 9)) * 600)
    ranks, kinds = named(logs)
    assert ranks == [1]
    assert "unreadable" in kinds
    assert kinds.count("skipped") >= 3


class Bomb:
    """A pickle that would leave a file behind if anybody loaded it."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return (open, (self.target, "w"))


def test_a_pickle_is_never_executed(logs: Path) -> None:
    target = logs.parent / "executed"
    for name in ("nccl_trace_rank_0", "comm_lib_trace_rank_1"):
        write(logs, name, pickle.dumps({"entries": Bomb(str(target))}, protocol=2))
    ranks, kinds = named(logs)
    assert not target.exists()
    assert ranks == [1]
    assert kinds


def test_missing_path_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CorrelatorError) as caught:
        open_job(str(tmp_path / "nothing"))
    assert caught.value.help


def test_directory_without_logs(tmp_path: Path) -> None:
    with pytest.raises(CorrelatorError, match="no log files"):
        open_job(str(tmp_path))
