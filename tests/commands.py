"""What tests of commands and servers have in common: a command line in this process, and waiting for an event."""

import time
from collections.abc import Callable

from click.testing import CliRunner, Result

from fedboard.cli.main import commands

SECONDS = 60.0


def fedboard(*words: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(commands, [str(word) for word in words])


def done(*words: object) -> str:
    """Run a command that is to succeed; what it printed."""
    result = fedboard(*words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def until(holds: Callable[[], object]) -> None:
    """Wait until something has come about."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.005)
