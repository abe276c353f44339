"""The documentation speaks of what exists: commands, paths, make targets, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from correlator.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "rules").glob("*.md")])
COMMANDS = set(get_command(app).commands)  # type: ignore[attr-defined]


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    missing = {name for name in COMMANDS - {"version"} if f"correlator {name}" not in readme}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_named_commands_exist(page: Path) -> None:
    code = re.findall(r"^(?:\$ )?correlator ([a-z]+)", "\n".join(re.findall(r"```.*?```", page.read_text(), re.S)), re.M)
    assert set(code) <= COMMANDS


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_named_paths_exist(page: Path) -> None:
    named = re.findall(r"`((?:correlator|parsers|rules|tests|sample_logs|docs)/[\w./-]+)`", page.read_text())
    links = [link for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()) if link]
    gone = [n for n in named if "NAME" not in n and not (ROOT / n).exists()] + [n for n in links if not (page.parent / n).exists()]
    assert not gone


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        assert set(re.findall(r"`?make ([a-z]+)`", page.read_text())) <= targets, page
