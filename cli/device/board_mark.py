"""What is printed with everything that comes from a board whose noise protects nobody."""

from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.style.colours import warned

if TYPE_CHECKING:
    from fedboard.common.board import Board


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
