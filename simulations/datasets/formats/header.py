"""The columns of a table, by their names."""

from collections.abc import Sequence

from fedboard.common.checks import try_columns
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping, printable

_TITLES = ("title", "name")


def title_field(names: Sequence[str]) -> str | None:
    """Which of the columns of a list of items holds their titles, by its name; None: none does."""
    plain = [name.partition(":")[0] for name in names]
    best = [name for wanted in _TITLES for name in plain if name == wanted or name.endswith(f"_{wanted}")]
    return None if not best else names[plain.index(best[0])]


def require_columns(where: str, found: list[str], wanted: ColumnMapping) -> None:
    """Check that each wanted column is there exactly once.

    Args:
        where: names the header in messages, such as ``ratings.csv, line 1``.
        found: the names of all columns.
        wanted: the names of the columns for user, item and rating, and of the one that says when if it is named.

    Raises:
        InputError: a column is missing or occurs twice.
    """
    names = (wanted.user, wanted.item, wanted.rating)
    if len(set(names)) < len(names):
        raise InputError(
            f"{where}: the columns for user, item and rating must differ, got {', '.join(names)}; "
            "name three different columns."
        )
    timed = () if wanted.time is None else (("time", wanted.time),)
    for role, name in (*zip(("user", "item", "rating"), names, strict=True), *timed):
        if name not in found:
            raise InputError(
                f"{where}: there is no column {name!r} for the {role}, "
                f"only {', '.join(map(printable, found))}"
                f"{_remedy(found, wanted)}"
            )
        if found.count(name) > 1:
            raise InputError(
                f"{where}: the column {name!r} occurs more than once; rename all but one of them."
            )


def _remedy(found: list[str], wanted: ColumnMapping) -> str:
    guess = try_columns(found, {"user": wanted.user, "item": wanted.item, "rating": wanted.rating})
    if guess:
        return f"{guess} (in a configuration data.columns, in Python columns)."
    return "; give a table with a header line and name its columns: --columns user=...,item=...,rating=..."
