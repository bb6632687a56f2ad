"""Planted mistakes: each of the frozen list can still be planted, and the script tells caught from not caught."""

import hashlib
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FROZEN = "a2fcd43d87d98b445d73c3c45580c2b412862de2aa04b1d21ce9977f847f90e4"
"""Of all ids and sentences. Whoever moves code anchors entries anew, which does not change it; none may go."""


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import planted

    return planted


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A tree of one function, with a test that would notice and one that would not."""
    root = tmp_path / "house"
    contents = {
        "pyproject.toml": '[tool.setuptools.package-dir]\nfedboard = "api"\n"fedboard.sums" = "sums"\n',
        "api/__init__.py": "",
        "sums/__init__.py": "def both(a, b):\n    return a + b\n",
        "test_two.py": "from fedboard.sums import both\n\n\ndef test_two():\n    assert both(1, 1) == 2\n",
        "test_none.py": "from fedboard.sums import both\n\n\ndef test_none():\n    assert both(0, 0) == 0\n",
    }
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def mistake(**changes: Any) -> dict[str, Any]:
    whole = {"id": "minus", "part": "sums", "what": "Sums are differences.", "file": "sums/__init__.py"}
    return {**whole, "old": "a + b", "new": "a - b", "tests": ["test_two.py"], **changes}


def test_each_can_be_planted(planted: Any) -> None:
    assert planted.problems(planted.mistakes()) == [], "anchor file, old and new anew where the code went"


def test_none_has_gone(planted: Any) -> None:
    listed = planted.mistakes()
    told = "\n".join(sorted(f"{one['id']}: {one['what']}" for one in listed))
    assert hashlib.sha256(told.encode()).hexdigest() == FROZEN, (
        "the list only grows: say so, and renew FROZEN"
    )
    assert min(Counter(one["part"] for one in listed).values()) >= 5


@pytest.mark.parametrize(
    "changes",
    [
        {"old": "a * b"},
        {"old": "a"},
        {"new": "a + b"},
        {"file": "gone.py"},
        {"tests": ["gone.py"]},
        {"tests": []},
    ],
    ids=str,
)
def test_what_cannot_be_planted_is_said(planted: Any, house: Path, changes: dict[str, Any]) -> None:
    assert planted.problems([mistake()], house) == []
    assert len(planted.problems([mistake(**changes)], house)) == 1
    assert planted.problems([mistake(), mistake()], house)


@pytest.mark.slow
def test_caught_is_told_from_not_caught(planted: Any, house: Path, tmp_path: Path) -> None:
    tree = planted.Tree(tmp_path / "copy", house)
    both = ["test_two.py", "test_none.py"]
    assert tree.run(both, limit=60)[0] == "passed"
    row = tree.plant(mistake(tests=both), limit=60)
    assert (row["verdict"], row["by"]) == ("caught", "test_two.py::test_two")
    assert tree.plant(mistake(tests=["test_none.py"]), limit=60)["verdict"] == "not caught"
    assert (house / "sums" / "__init__.py").read_text().endswith("a + b\n")
    assert tree.plant(mistake(), limit=0.0)["verdict"] == "not caught (time limit)"
