"""The four paths: what is marked runs, in order and in one folder; all other commands exist as they stand."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "paths"
NAMES = ("researcher", "operator", "device", "officer")
RUNS = re.compile(r"<!-- runs -->\n```bash\n(.*?)```", re.DOTALL)
ENDS = {"operator": "4.018", "device": "Film", "officer": "dp-accounting    epsilon"}
"""Words that the last marked commands of a page print."""


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NUMBA_DISABLE_JIT": "1",  # forty people need no compiled code
        "OPENBLAS_NUM_THREADS": "1",
        "COLUMNS": "200",
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run where pages have that of the demo: the same kind of board, of fewer people."""
    folder = tmp_path_factory.mktemp("runs")
    rated = ((user, (5 * user + 3 * n) % 30) for user in range(60) for n in range(10))
    lines = "".join(f"u{user},{item},{1 + (user * item) % 5}\n" for user, item in rated)
    (folder / "ratings.csv").write_text(f"user,item,rating\n{lines}")
    titles = "".join(f"{item},Film {item}\n" for item in range(30))
    (folder / "titles.csv").write_text(f"item,title\n{titles}")
    words = "--data ratings.csv --rating-range 1,5 --set data.titles=titles.csv --rounds 1 --epsilon 20"
    quiet = "--set settings.rank=2 --set run.kernels=numpy --no-baselines --no-report --out runs/demo"
    command = ["fedboard", "simulate", *words.split(), *quiet.split()]
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    return folder


def carried_out(line: str) -> str:
    """What a line prints: commands of ours are called here, since starting Python costs more than they do."""
    if line.startswith("fedboard "):
        ended = CliRunner().invoke(commands, shlex.split(line, comments=True)[1:])
        assert ended.exit_code == 0, (line, ended.output)
        return str(ended.output)
    other = subprocess.run(
        ["bash", "-ec", line], env=environment(), capture_output=True, text=True, check=False
    )
    assert other.returncode == 0, (line, other.stderr)
    return other.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_what_is_marked_runs_and_ends_in_something_that_works(
    name: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run / "runs", tmp_path / "runs")
    for folder in ("docs", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    lines = [line for block in RUNS.findall(page(name)) for line in block.splitlines()]
    assert len(lines) > 3

    told = "".join(map(carried_out, lines))

    assert ENDS[name] in told


def lines_of(text: str) -> list[list[str]]:
    """The commands of ``fedboard`` in a page's blocks, in words."""
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    calls = re.findall(r"^fedboard .*", blocks, re.MULTILINE)
    return [shlex.split(call, comments=True) for call in calls]


def unknown(words: list[str]) -> list[str]:
    """What of a command line there is not: a command, or an option of it."""
    found: Any = commands
    rest = words[1:]
    while rest and hasattr(found, "commands") and rest[0] in found.commands:
        found, rest = found.commands[rest[0]], rest[1:]
    if hasattr(found, "commands"):
        return rest[:1]
    options = {option for parameter in found.params for option in parameter.opts}
    return [word for word in rest if word.startswith("-") and word.partition("=")[0] not in options]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_of_a_path_exists(name: str) -> None:
    calls = lines_of(page(name))

    assert calls
    assert [(call, unknown(call)) for call in calls if unknown(call)] == []
