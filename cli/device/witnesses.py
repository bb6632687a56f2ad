"""The option that names whose log must show a board."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedboard.common.boards.log.policy import WitnessPolicy

WITNESSES = click.option(
    "--witnesses",
    type=click.Path(path_type=Path),
    help="Policy file of witnesses: a board that too few of them have seen in the run's log is refused.",
)


def policy_of(path: Path | None) -> "WitnessPolicy | None":
    """The policy in a file; None where none is named.

    Raises:
        InputError: it cannot be used.
    """
    from fedboard.common.boards.log.policy import WitnessPolicy

    return None if path is None else WitnessPolicy.read(path)
