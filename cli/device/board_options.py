"""Whose cosignatures a board must have, and what is printed with one whose noise protects nobody."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.colours import warned

if TYPE_CHECKING:
    from fedboard.common.board import Board
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


def mark(board: "Board") -> None:
    """Print the verdict on a board where it is not private; nothing on one that is."""
    from fedboard.common.protection import Protection, protection_of_board

    protection = protection_of_board(board)
    if protection is not Protection.PRIVATE:
        click.echo(f"{warned(protection.verdict)}.\n")


def mark_record(board: "Board") -> dict[str, Any]:
    """The same as fields of a JSON object: ``private``, and in ``noise`` the kind."""
    from fedboard.common.protection import Protection, protection_of_board

    protection = protection_of_board(board)
    return {"private": protection is Protection.PRIVATE, "noise": protection.value}
