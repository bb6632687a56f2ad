"""The experiments, run in this process as the command line runs them."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

sys.path.append(str(Path(__file__).parents[2]))  # where the top folder `research` is found

from fedboard.cli.failures import guarded
from research.run import run as experiment

Command = Callable[..., Result]


def _run(*arguments: str | Path) -> Result:
    runner = CliRunner()
    words = [str(argument) for argument in arguments]
    command = partial(experiment.main, words, standalone_mode=False)
    wrapped = click.Command("run", callback=lambda: sys.exit(guarded(command, debug=False)))
    return runner.invoke(wrapped, [])


@pytest.fixture
def run() -> Command:
    """Run the command line of an experiment in this process."""
    return _run
