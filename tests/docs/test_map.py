"""The map of the house is drawn from the imports as they are, and what it tells is there."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "docs" / "draw_map.py"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders that are drawn, to be changed."""
    there = tmp_path_factory.mktemp("house")
    for name in ("api", "cli", "client", "common", "server", "simulations", "docs"):
        shutil.copytree(ROOT / name, there / name, ignore=shutil.ignore_patterns("__pycache__"))
    return there


def checked(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "docs" / "draw_map.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_picture_is_what_the_imports_are() -> None:
    assert checked(ROOT).returncode == 0, "run python docs/draw_map.py"


def test_a_way_enters_each_file_once_and_every_step_is_drawn() -> None:
    steps = runpy.run_path(str(SCRIPT))["steps"]()
    drawn = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")

    for way in ("rating", "epsilon"):
        paths = [step.path for step in steps if step.way == way]
        assert [step.number for step in steps if step.way == way] == list(range(1, len(paths) + 1))
        assert len(paths) >= 9
        assert len(set(paths)) == len(paths)
    assert len(re.findall("<circle", drawn)) == len(steps)


def test_every_place_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = [place for place in re.findall(r"`([a-z_]+/[\w/.]+)`", page) if "NAME" not in place]

    assert len(places) > 40
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_another_import_shows(copied: Path) -> None:
    room = copied / "common" / "errors.py"
    before = room.read_text(encoding="utf-8")

    def changed(line: str) -> dict[str, Any]:
        """The script's names, where a file imports something else; each run has a cache of its own."""
        room.write_text(f"{before}\n{line}\n", encoding="utf-8")
        return runpy.run_path(str(copied / "docs" / "draw_map.py"))

    try:
        drawn = changed("from fedboard.common.arrays import FloatArray")["columns"]("common")
        assert "common/errors" not in drawn[0]
        with pytest.raises(SystemExit, match="a circle"):
            changed("from fedboard.common.board import Board")["columns"]("common")
        with pytest.raises(SystemExit, match="common imports server, which does not stand below it"):
            changed("from fedboard.server.round import run_round")["_below"]("common")
        assert checked(copied).returncode == 1
    finally:
        room.write_text(before, encoding="utf-8")
    assert checked(copied).returncode == 0
