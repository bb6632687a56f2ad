"""The commands that the README shows are commands as they are."""

import re
import shlex
from pathlib import Path

import click
import pytest

from fedboard.cli.main import commands
from tests.cli.conftest import Command

README = Path(__file__).parents[2] / "README.md"
SHOWN = sorted(
    {
        line.partition("#")[0].strip()
        for block in re.findall(r"```bash\n(.*?)```", README.read_text(), flags=re.DOTALL)
        for whole in block.splitlines()
        for line in whole.partition("#")[0].split(";")
        if line.strip().startswith("fedboard ")
    }
)


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_of_the_readme_takes_what_it_is_shown_with(line: str) -> None:
    words, taking = shlex.split(line)[1:], commands
    while isinstance(taking, click.Group):
        taking = taking.commands[words.pop(0)]

    taking.make_context(taking.name, words)


@pytest.mark.slow
def test_the_question_of_the_readme_is_answered(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = (line for line in SHOWN if line.startswith("fedboard query"))

    told = fedboard(*shlex.split(line.replace("ml-1m.zip", "synthetic"))[1:])

    assert told.exit_code == 0, told.stderr
