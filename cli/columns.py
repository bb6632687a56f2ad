"""``--columns``: what a table calls the columns that hold users, items and ratings."""

from typing import TYPE_CHECKING

import click

from fedboard.common.checks import require_one_of
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.server.catalogue.column_mapping import ColumnMapping

_ROLES = ("user", "item", "rating", "title", "time")
_OWN_ROLES = ("item", "rating", "timestamp")
_METAVAR = "ROLE=NAME,..."

COLUMNS = click.option(
    "--columns",
    metavar=_METAVAR,
    help="Names of the columns, where they are not user, item and rating: user=userId,rating=stars.",
)
"""Of a table of many users' ratings."""
OWN_COLUMNS = click.option(
    "--columns",
    metavar=_METAVAR,
    help="Names of the columns of a CSV file, where they are not item and rating: item=movie,rating=stars.",
)
"""Of a person's own file."""


def parse_columns(text: str, roles: tuple[str, ...] = _ROLES) -> dict[str, str]:
    """``ROLE=NAME,...`` as a mapping.

    Args:
        text: as it was typed.
        roles: those that there are.

    Raises:
        InputError: not that, a role that there is not, or one twice.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if not equals or not name or role in found:
            example = f"{roles[0]}={roles[0].capitalize()}Id"
            raise InputError(
                f"--columns must be {_METAVAR} such as {example}, each role once, got {text!r}; names of columns "
                "that hold a comma have to be changed in the file"
            )
        require_one_of("a role of --columns", role, roles)
        found[role] = name
    return found


def own_columns(text: str | None) -> dict[str, str]:
    """Of a person's own file; nothing where it was not given.

    Raises:
        InputError: as ``parse_columns``.
    """
    return {} if text is None else parse_columns(text, _OWN_ROLES)


def column_mapping(text: str | None) -> "ColumnMapping | None":
    """For a reader of many users' ratings; None where it was not given.

    Raises:
        InputError: as ``parse_columns``.
    """
    from fedboard.server.catalogue.column_mapping import ColumnMapping

    return None if text is None else ColumnMapping(**parse_columns(text))
