"""The map of the house is drawn from the imports as they are, and what it tells is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def checked(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "docs" / "draw_map.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_picture_is_what_the_imports_are() -> None:
    assert checked(ROOT).returncode == 0, "run python docs/draw_map.py"


def test_every_place_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = [place for place in re.findall(r"`([a-z_]+/[\w/.]+)`", page) if "NAME" not in place]

    assert len(places) > 40
    assert [place for place in places if not (ROOT / place).exists()] == []
