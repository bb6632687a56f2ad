"""What a user can do is on the page that says what becomes of it: nothing is lost by forgetting it."""

import re
from pathlib import Path

import click

import fedboard
from fedboard.cli.main import commands

PAGE = (Path(__file__).parents[2] / "docs" / "successors.md").read_text(encoding="utf-8")
ROWS = [line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| `")]
MOST_COMMANDS = 49
"""48 that were there, and ``data split``."""


def names(command: click.Command, path: str = "") -> set[str]:
    """All commands that do something, as they are typed after ``fedboard``."""
    below = command.commands if isinstance(command, click.Group) else {}
    found = set().union(*(names(one, f"{path} {name}".strip()) for name, one in below.items()))
    return found | ({path} if not below or (path and command.invoke_without_command) else set())


def named(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_each_command_has_a_successor() -> None:
    listed = set().union(*(named(today) | named(then) for today, then in ROWS))

    assert names(commands) <= listed
    assert {"simulate", "keys show", "client", "client join"} <= names(
        commands
    )  # those below groups are found


def test_there_will_be_few_enough() -> None:
    section = PAGE.partition("## Commands")[2].partition("## Python")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("| `")]
    becomes = set().union(*map(named, rows)) - {"python research/run.py"}

    assert len(becomes) <= MOST_COMMANDS


def test_each_public_name_is_listed() -> None:
    assert set(fedboard.__all__) <= named(PAGE.partition("## Python")[2])
