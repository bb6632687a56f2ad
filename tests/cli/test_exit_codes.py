"""One table of exit codes: every error has a place in it, and the guide and ``--help`` show it as it is."""

from collections.abc import Callable, Iterator
from pathlib import Path

from click.testing import Result

from fedboard.cli.exit_codes import MEANINGS, ExitCode
from fedboard.cli.main import commands
from fedboard.common.errors import FedboardError

Command = Callable[..., Result]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "running.md"


def kinds(error: type[FedboardError]) -> Iterator[type[FedboardError]]:
    yield error
    for kind in error.__subclasses__():
        yield from kinds(kind)


def test_every_error_has_a_code_of_the_table() -> None:
    assert commands.commands  # everything that raises is imported
    assert {kind.exit_code for kind in kinds(FedboardError)} <= set(ExitCode)
    assert set(MEANINGS) == set(ExitCode)


def test_the_guide_shows_the_table() -> None:
    rows = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]

    assert "\n".join(rows) in GUIDE.read_text()


def test_help_shows_the_table(fedboard: Command) -> None:
    shown = fedboard("--help").stdout

    for code, meaning in MEANINGS.items():
        assert f"{code.value:>3}  {meaning}" in shown
