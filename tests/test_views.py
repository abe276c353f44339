"""The same logs handed over differently give the same verdict."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from correlator import engine, score
from correlator.views import LogFile, files_of, views

SAMPLES = Path(__file__).parents[1] / "sample_logs"


def lines(*texts: str) -> bytes:
    return "".join(t + "\n" for t in texts).encode()


def file(path: str, text: bytes, rank: int | None, **more: bool) -> LogFile:
    known = {"named": False, "single": rank is not None, "document": False, "launcher_tree": False} | more
    return LogFile(path, text, rank, "n1", **known)


TWO = [
    file("rank_0.log", lines("2026-01-02 10:00:01 a0", "b0", "2026-01-02 10:00:03 c0"), 0),
    file("rank_1.log", lines("2026-01-02 10:00:02 a1", "2026-01-02 10:00:02 b1"), 1),
]


def written(name: str, files: list[LogFile], folder: Path) -> dict[str, bytes]:
    views(files)[name](folder)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_labelled_lines_alternate(tmp_path: Path) -> None:
    (text,) = written("labelled", TWO, tmp_path).values()
    assert text == lines("0: 2026-01-02 10:00:01 a0", "1: 2026-01-02 10:00:02 a1", "0: b0", "1: 2026-01-02 10:00:02 b1", "0: 2026-01-02 10:00:03 c0")


def test_by_clock_keeps_untimed_lines_behind_their_predecessor(tmp_path: Path) -> None:
    (text,) = written("by clock", TWO, tmp_path).values()
    assert text == lines("0: 2026-01-02 10:00:01 a0", "0: b0", "1: 2026-01-02 10:00:02 a1", "1: 2026-01-02 10:00:02 b1", "0: 2026-01-02 10:00:03 c0")


def test_a_rank_known_only_from_its_name_keeps_it(tmp_path: Path) -> None:
    names = written("renamed", [*TWO, file("c.log", b"x\n", 2, named=True), file("error.json", b"{}", 0, document=True)], tmp_path)
    assert [n.split("-")[-1] for n in names if "rank" in n] in (["rank0.txt", "rank1.txt"], ["rank1.txt", "rank0.txt"])
    assert sorted(names.values()) == sorted([*(f.text for f in TWO), b"x\n", b"{}"])
    assert "error.json" in names and "c.log" not in names


def test_files_are_poured_together_only_when_their_lines_name_the_writer() -> None:
    assert "concatenated" not in views(TWO)
    assert "concatenated" in views([file(f.path, f.text, f.rank, named=True) for f in TWO])


def test_gzip_and_joined_lose_no_byte(tmp_path: Path) -> None:
    assert [gzip.decompress(t) for t in written("gzip", TWO, tmp_path / "a").values()] == [f.text for f in TWO]
    (text,) = written("joined", TWO, tmp_path / "b").values()
    assert all(f"==> {f.path} <==\n".encode() + f.text in text for f in TWO)


@pytest.mark.parametrize("name", ["two-nodes-abort", "merged-collective-order", "srun-duplicate-gpu", "healthy-warnings"])
def test_samples_in_every_view(name: str, tmp_path: Path) -> None:
    logs = SAMPLES / name / "logs"
    base, diagnosis = engine.run([str(logs)], store_path=str(tmp_path / "base.duckdb"))
    expected = score.verdict_of(diagnosis.document)
    made = views(files_of(logs, base))
    assert {"gzip", "shuffled", "joined"} <= set(made)
    for view, write in made.items():
        _, again = engine.run(write(tmp_path / view), store_path=str(tmp_path / "view.duckdb"))
        assert score.verdict_of(again.document) == expected, view


def test_score_reports_the_views(tmp_path: Path) -> None:
    report = score.run(str(SAMPLES), only="deepspeed-host-memory", views=True)
    assert report["changes"] == [] and report["summary"]["views"] >= 3 and report["summary"]["views_agree"] == 1.0
    assert "same verdict 100.0 %" in report["text"]
