"""One table of exit codes: every error has a place in it, and the guide and ``--help`` show it as it is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

from fedboard.cli.exit_codes import MEANINGS, ExitCode
from fedboard.cli.main import commands
from fedboard.common.errors import FedboardError

Command = Callable[..., Result]


def kinds(error: type[FedboardError]) -> Iterator[type[FedboardError]]:
    yield error
    for kind in error.__subclasses__():
        yield from kinds(kind)


def test_every_error_has_a_code_of_the_table() -> None:
    assert commands.commands  # everything that raises is imported
    assert {kind.exit_code for kind in kinds(FedboardError)} <= set(ExitCode)
    assert set(MEANINGS) == set(ExitCode)


OUT_OF_RANGE = (
    ("simulate", "--epsilon", "-1"),
    ("simulate", "--delta", "2"),
    ("simulate", "--participation", "poisson:3"),
    ("sweep", "--epsilon", "-1"),
    ("tune", "--data", "synthetic", "--epsilon", "-1"),
    ("demo", "--epsilon", "-1"),
    ("audit", "--epsilon", "-1"),
    ("protocols", "compare", "--data", "synthetic", "--epsilon", "-1"),
    ("account", "--epsilon", "-1", "--releases", "3"),
    ("account", "--epsilon", "nan", "--releases", "3"),
    ("account", "--epsilon", "1", "--delta", "2", "--releases", "3"),
    ("account", "--epsilon", "1", "--shares", "a=-1"),
    ("account", "--epsilon", "1", "--shares", "a=2"),
    ("account", "--epsilon", "1", "--releases", "2", "--poisson", "3"),
    ("account", "--noise-multiplier", "-1"),
    ("account", "--noise-multiplier", "5", "--delta", "3"),
    ("account", "--noise-multiplier", "5", "--poisson", "-1"),
    ("query", "mean", "--data", "synthetic", "--epsilon", "-1", "--ledger", "l", "--budget", "1"),
    ("query", "mean", "--data", "synthetic", "--epsilon", "1", "--ledger", "l", "--budget", "-1"),
    ("query", "quantile", "--share", "3", "--data", "synthetic", "--epsilon", "1", "--ledger", "l"),
    ("ledger", "create", "p", "--epsilon", "-1", "--delta", "1e-6"),
    ("ledger", "create", "p", "--epsilon", "1", "--delta", "3"),
    ("ledger", "create", "p", "--epsilon", "1", "--delta", "1e-6", "--lineage-epsilon", "-1"),
    ("ratings", "init", "d", "--epsilon", "-1"),
    ("ratings", "init", "d", "--delta", "3"),
)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OUT_OF_RANGE, ids=" ".join)
def test_a_number_out_of_range_is_input_whichever_command_it_is_given_to(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = fedboard(*arguments)

    assert refused.exit_code == ExitCode.INPUT, refused.output
    assert "Traceback" not in refused.stderr


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command with the groups that it is in."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("command", list(leaves(commands)), ids=" ".join)
def test_every_command_refuses_an_unknown_flag_and_a_missing_file_with_the_same_code(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    taking = commands
    for name in command:
        taking = taking.commands[name]
    places = [p for p in taking.params if isinstance(p, click.Argument) and p.required]

    assert fedboard(*command, "--no-such-flag").exit_code == ExitCode.INPUT
    if places and command[0] not in ("ratings", "data", "flower", "keys", "protocols"):
        missing = fedboard(*command, *("missing" for _ in places))
        assert missing.exit_code == ExitCode.INPUT, missing.output
