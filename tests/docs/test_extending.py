"""The page on extending: its files and lines, put into a copy of the package, make its commands run."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.house import ROOT, environment_of, extended, touched

PAGE = (ROOT / "docs" / "guide" / "extending.md").read_text(encoding="utf-8")
SECTIONS = ("algorithm", "weighting", "protocol", "reader", "metric", "baseline", "command")
TOYS = ("algorithm", "protocol")
"""The same files are the toys of ``tests/toys.py``, which are simulated, listed and deployed each time."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
DATA = (
    "--set",
    "data.synthetic.n_users=200",
    "--set",
    "data.synthetic.n_items=40",
    "--set",
    "run.kernels=numpy",
)
SMALL = {"simulate": (*DATA, "--no-baselines", "--no-report"), "sweep": DATA}
SHIM = f"""#!{sys.executable}
import sys
sys.argv += {SMALL!r}.get(sys.argv[1], ())
from fedboard.cli.main import main
main()
"""
"""The command, on fewer people and without pictures where it makes a run; everything else is as printed."""
TELLS = {
    "algorithm": ("damped-means",),
    "weighting": ("adadpals-logarithmic",),
    "protocol": ("additive-shares", "two servers"),
    "reader": ("3 from 0.5 to 4",),
    "metric": ('"hit-rate@10": ',),
    "baseline": ("best_liked.py:BASELINE", "RMSE"),
    "command": ("round 1", "epsilon"),
}
"""What the commands print."""


@dataclass(frozen=True)
class Part:
    """What a section of the page says to do."""

    files: dict[str, str] = field(default_factory=dict)
    """By path in the package; one without a folder is a researcher's own, where the commands are run."""
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    """Path, the lines that are there, the lines in their place."""
    alone: str = ""
    """Commands that are there before anything is changed: of a file of one's own."""
    commands: str = ""


@cache
def part(name: str) -> Part:
    """Read a section of the page."""
    found = re.search(rf"^## An? {name}\b[^\n]*\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert found, f"the page has no section on {name}"
    read, alone, commands = Part(), [], []
    for block in BLOCK.finditer(found[1]):
        language, text = block.groups()
        if language == "python":
            path, _, code = text.removeprefix("# ").partition("\n")
            read.files[path] = code
        elif language == "diff":
            path = re.findall(r"^`(\S+)`:$", found[1][: block.start()], flags=re.MULTILINE)[-1]
            old, new = (
                "".join(f"{line[1:]}\n" for line in text.splitlines() if not line.startswith(other))
                for other in "+-"
            )
            read.lines.append((path, old, new))
        else:
            copies = re.findall(r"^cp (\S+) (\S+)\n", text, flags=re.MULTILINE)
            read.files.update({new: (ROOT / old).read_text(encoding="utf-8") for old, new in copies})
            rest = re.sub(r"^cp .*\n", "", text, flags=re.MULTILINE)
            (commands if read.files or read.lines else alone).append(rest)
    return Part(files=read.files, lines=read.lines, alone="".join(alone), commands="".join(commands))


def copy_with(root: Path, new: Part) -> Path:
    """A copy of the package with the part in it; for ``PYTHONPATH``."""
    changed = {path: (ROOT / path).read_text(encoding="utf-8") for path, _, _ in new.lines}
    for path, old, lines in new.lines:
        assert changed[path].count(old) == 1, f"{path} has not once {old!r}"
        changed[path] = changed[path].replace(old, lines)
    extended(root / "fedboard", {path: code for path, code in new.files.items() if "/" in path} | changed)
    return root


def run(commands: str, folder: Path, python_path: Path | None, new: Part) -> tuple[int, str]:
    """Run commands of the page in a folder that has the examples; exit code and what was printed."""
    folder.mkdir()
    for path, code in new.files.items():
        if "/" not in path:
            (folder / path).write_text(code)
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "bin").mkdir()
    (folder / "bin" / "fedboard").write_text(SHIM)
    (folder / "bin" / "fedboard").chmod(0o755)
    environment = {
        **os.environ,
        **({} if python_path is None else environment_of(python_path)),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "OPENBLAS_NUM_THREADS": "1",
        "COLUMNS": "200",
    }
    ended = subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.thorough) if name in TOYS else name for name in SECTIONS],
)
def test_the_commands_run_with_the_part_and_say_what_is_new(name: str, tmp_path: Path) -> None:
    new = part(name)
    code, told = run(new.commands, tmp_path / "with", copy_with(tmp_path / "copy", new), new)
    assert code == 0, told
    inside = {path for path in new.files if "/" in path}
    assert set(touched(tmp_path / "copy" / "fedboard")) == {*inside, *(path for path, _, _ in new.lines)}

    refused, apart = run(new.alone, tmp_path / "alone", None, new)

    assert [words for words in TELLS[name] if words not in told] == []
    assert refused == 0, apart
