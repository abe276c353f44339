"""The wheel installs into an empty environment's path and diagnoses a sample; only `correlator` is in it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(ROOT)], check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_only_one_top_level_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.split("/")[0] for n in names if ".dist-info" not in n}
    assert tops == {"correlator"}
    for needed in ("correlator/parsers/sources/elastic.py", "correlator/rules/predicates.toml", "correlator/rules/laws/10_facts_from_events.sql", "correlator/sql/tables.sql",
                   "correlator/rules/failures/memory/cuda-out-of-memory.toml", "correlator/rules/messages/xid.tsv"):  # fmt: skip
        assert needed in names


def test_installed_wheel_diagnoses_a_sample(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)], check=True, capture_output=True)
    code = f"import sys; sys.path.insert(0, {str(target)!r}); import correlator; assert correlator.__file__.startswith({str(target)!r}), correlator.__file__\nfrom correlator.cli import main; sys.argv = ['correlator', 'diagnose', {str(ROOT / 'sample_logs' / 'torchrun-sigkill' / 'logs')!r}]; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.startswith("Rank 2"), done.stderr
