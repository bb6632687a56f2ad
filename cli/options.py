"""Options that several commands have, what they take, and how many of something a command takes at most.

Beyond the limits a command would run for hours, or fill the memory.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import option
from fedboard.common.checks import MOST_WORKERS, require_one_of
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses
    from fedboard.server.catalogue.column_mapping import ColumnMapping

RELEASES = click.IntRange(1, 10_000)
"""Releases that are accounted together: some 20 seconds by loss distributions."""
WORKERS = click.IntRange(1, MOST_WORKERS)
"""Processes, or runs at the same time."""
REPETITIONS = click.IntRange(1, 10_000)
"""Games, seeds of a figure, trials of a search."""
FOLDS = click.IntRange(2, 1_000)
"""Parts of a k-fold split, each a run of its own."""
SHOWN = click.IntRange(1, 100_000)
"""Items on a screen."""
PEOPLE = click.IntRange(1, 1_000_000_000)
"""Users or clients that are counted, and not simulated."""
_DAYS = click.FloatRange(min=0.01, max=3660)

_ROLES = ("user", "item", "rating", "title", "time")
_OWN_ROLES = ("item", "rating", "timestamp")
_COLUMNS = "ROLE=NAME,..."


def listed(text: str, kind: Callable[[str], Any], what: str) -> tuple[Any, ...]:
    """A comma-separated list.

    Raises:
        InputError: empty, an entry of another kind, or an entry twice.
    """
    try:
        values = tuple(kind(part.strip()) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or "" in values or len(set(values)) < len(values):
        raise InputError(f"{what} must be a comma-separated list without repetitions, got {text!r}")
    return values


def parse_range(text: str) -> tuple[float, float]:
    """``LOW,HIGH`` as two numbers.

    Raises:
        InputError: not two numbers, the lower one first.
    """
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = math.nan
    if not low < high:
        raise InputError(f"--rating-range must be LOW,HIGH with LOW below HIGH, such as 1,5, got {text!r}")
    return low, high


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
                f"--columns must be {_COLUMNS} such as {example}, each role once, got {text!r}; names of columns "
                "that hold a comma have to be changed in the file"
            )
        require_one_of("a role of --columns", role, roles)
        found[role] = name
    return found


def _own_columns(text: str) -> dict[str, str]:
    return parse_columns(text, _OWN_ROLES)


def column_mapping(columns: dict[str, str] | None) -> "ColumnMapping | None":
    """The names of columns for a reader of many users' ratings; None where they were not given."""
    from fedboard.server.catalogue.column_mapping import ColumnMapping

    return None if columns is None else ColumnMapping(**columns)


COLUMNS = option(
    "Names of the columns, where they are not user, item and rating: user=userId,rating=stars.",
    type=parse_columns,
    metavar=_COLUMNS,
)
"""Of a table of many users' ratings."""
OWN_COLUMNS = option(
    "Names of the columns of a CSV file, where they are not item and rating: item=movie,rating=stars.",
    type=_own_columns,
    metavar=_COLUMNS,
)
"""Of a person's own file."""
RATING_RANGE = option("Public range of ratings, for plain tables.", type=parse_range, metavar="LOW,HIGH")


def rarely(declared: Any) -> Any:
    """The same option, shown by ``--help-all`` alone."""
    return declared._replace(settings={**declared.settings, "rare": True})


CONFIG = option("Configuration of the fleet.", default=Path("fleet.toml"), envvar="FEDBOARD_FLEET")
DEVICE = option("Configuration of this device.", default=Path("device.toml"), envvar="FEDBOARD_DEVICE")
AUTHORITY = option("Certificate authority to trust for TLS, PEM.  [default: the system's]", rare=True)
ROOTS = option(
    "Root documents that say which keys sign (see keys rotate).  [default: those of MIRROR]",
    metavar="FOLDER",
    rare=True,
)
DAYS = option(  # server.publishing.mirror.USUAL_DAYS
    "How long what is signed is good; renewed when half of that is over.", type=_DAYS, default=30.0
)
WITNESS = option(
    "Public key of a witness, or its file (witness.pub); several. A board that too few of them have cosigned is "
    "refused.",
    metavar="KEY",
    rare=True,
)
COSIGNATURES = option(
    "How many of them must have.  [default: more than half]", type=click.IntRange(min=1), rare=True
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


def default_algorithm() -> str:
    """What is run where nobody names another, as help says it."""
    from fedboard.common.algorithms.registry import USUAL, USUAL_FOR_PRESENCE

    return f" [default: {USUAL}; {USUAL_FOR_PRESENCE} with implicit feedback]"


def private_algorithms(beside: str = "") -> str:
    """The private algorithms and the default one.

    Args:
        beside: what else may be named.
    """
    from fedboard.common.algorithms.registry import algorithm_names

    own = "or your own as package.module:RECORD or path/to/file.py:RECORD"
    return f"{', '.join(algorithm_names())}, {own}{beside}. {default_algorithm()}"
