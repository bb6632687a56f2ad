"""Names of the columns of a table, and how messages name what is in it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """Names of the columns of a CSV, TSV or Parquet file. Public."""

    user: str = "user"
    """Column with the user ids: whole numbers or text."""
    item: str = "item"
    """Column with the item ids: whole numbers or text."""
    rating: str = "rating"
    """Column with the ratings: numbers."""
    title: str = "title"
    """Column with the titles, in the file of titles; its ids are in the column named by ``item``."""
    time: str | None = None
    """Column that says when: whole numbers, dates or timestamps; None: it is not read."""


def printable(text: object) -> str:
    """Text for a message: quoted only where it is empty or has characters that would break the line."""
    shown = str(text)
    return shown if shown and shown.isprintable() else repr(shown)
