"""Imports go one way, and heavy libraries stay out of `import correlator`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_layer_contract_holds() -> None:
    pytest.importorskip("importlinter")
    code = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kept, 0 broken" in done.stdout


def test_every_module_has_a_layer() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    placed = {name.strip().removeprefix("correlator.") for layer in contract["layers"] for name in layer.split("|")}
    modules = {p.stem for p in (ROOT / "correlator").glob("*.py")} | {p.parent.name for p in (ROOT / "correlator").glob("*/__init__.py")}
    # errors is shared by all, rules and sql are data
    assert modules - placed == {"__init__", "__main__", "errors"}


def test_importing_the_package_is_light() -> None:
    code = "import sys, correlator; print([m for m in ('polars', 'duckdb', 'pyarrow', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
