"""Wheel, source distribution and checkouts without links work; only `correlator` is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample_logs" / "torchrun-sigkill" / "logs"


def diagnose(where: Path, cwd: Path) -> str:
    """What the package in ``where`` says about the sample; the checkout must not be what answers."""
    code = (
        f"import correlator, sys; assert correlator.__file__.startswith({str(where)!r}), correlator.__file__\n"
        f"from correlator.cli import main; sys.argv = ['correlator', 'diagnose', {str(SAMPLE)!r}]; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(where)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, and the wheel built from it, without network."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_only_one_top_level_package_with_all_data(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {n.split("/")[0] for n in names if ".dist-info" not in n} == {"correlator"}
    real = {
        f"correlator/{top}/{p.relative_to(ROOT / top)}" for top in ("parsers", "rules") for p in (ROOT / top).rglob("*") if p.suffix in {".py", ".toml", ".sql", ".tsv"}
    }
    assert real <= names
    assert {"correlator/sql/tables.sql", "correlator/show/schema.json"} <= names


def test_installed_wheel_diagnoses_a_sample(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    assert diagnose(site, tmp_path).startswith("Rank 2")
    assert "correlator = correlator.cli:main" in next(site.glob("*.dist-info/entry_points.txt")).read_text()


def test_source_distribution_holds_no_links_and_nothing_private(dist: Path) -> None:
    (file,) = dist.glob("*.tar.gz")
    with tarfile.open(file) as tar:
        members = tar.getmembers()
    assert [m.name for m in members if m.issym()] == []
    tops = {m.name.split("/")[1] for m in members}
    assert {"correlator", "parsers", "rules", "pyproject.toml", "README.md", "LICENSE"} <= tops
    assert not tops & {".venv", ".git", "dist", ".pytest_cache"}


@pytest.mark.parametrize("left", ["nothing", "text"])
def test_a_checkout_whose_links_were_lost_works(tmp_path: Path, left: str) -> None:
    """Zip archives and some file systems drop symbolic links or leave small text files in their place."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "correlator", tmp_path / "correlator", symlinks=True, ignore=ignore)
    for name in ("parsers", "rules"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
        (tmp_path / "correlator" / name).unlink()
        if left == "text":
            (tmp_path / "correlator" / name).write_text(f"../{name}")
    assert diagnose(tmp_path, tmp_path).startswith("Rank 2")


def test_the_version_is_one() -> None:
    import tomllib

    import correlator

    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"] == correlator.__version__
