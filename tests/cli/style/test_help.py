"""Help: every name and sentence whole, at 80 columns and at 60."""

import re

import click
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from tests.walk import walked

ALL = dict(walked(commands))


def first_sentence(command: click.Command) -> str:
    paragraph = " ".join((command.help or "").replace("\b", "").strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.?])\s", paragraph)[0].rstrip(".")


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_shows_every_name_and_sentence_whole(path: tuple[str, ...], columns: int) -> None:
    command = ALL[path]

    shown = CliRunner().invoke(commands, [*path, "--help"], terminal_width=columns).stdout

    lines, words = shown.splitlines(), shown.split()
    examples = next(
        (n for n, line in enumerate(lines) if "Example" in line or "Start here" in line), len(lines)
    )
    assert max(map(len, lines[:examples])) <= columns
    flat = " ".join(words)
    for param in command.params:
        for name in (*param.opts, *param.secondary_opts) if isinstance(param, click.Option) else ():
            assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", shown), f"{name} is not shown whole"
        if isinstance(param, click.Option) and param.help and not hasattr(param, "_names"):
            assert " ".join(param.help.split()) in flat
    for name, inner in getattr(command, "commands", {}).items():
        assert name in words
        assert first_sentence(inner) in flat
    assert "\ue000" not in shown
