"""The options that name whose cosignatures a board must have."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses


def witness_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--witness`` and ``--cosignatures``, which the command gets as ``witnesses``: ``Witnesses`` or None."""

    @functools.wraps(command)
    def with_witnesses(*, named: tuple[str, ...], cosignatures: int | None, **options: Any) -> Any:
        return command(witnesses=witnesses_of(named, cosignatures), **options)

    return click.option(
        "--witness",
        "named",
        metavar="KEY",
        multiple=True,
        help="Public key of a witness, or its file (witness.pub); several. A board that too few of them have "
        "cosigned is refused.",
    )(
        click.option(
            "--cosignatures",
            type=click.IntRange(min=1),
            help="How many of them must have.  [default: more than half]",
        )(with_witnesses)
    )


def witnesses_of(named: tuple[str, ...], least: int | None) -> "Witnesses | None":
    """Whose cosignatures are asked for; None for nobody's.

    Raises:
        InputError: a key cannot be read, or so many of them say nothing.
    """
    if not named and least is None:
        return None
    from fedboard.common.boards.witnesses import Witnesses

    return Witnesses.of(named, least)
