"""A table as finished text: what pages, Markdown and figures show numbers in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Finished text. The first column names the row; others are numbers unless named in ``text_columns``.

    What follows a line break in a cell is a note on it.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[int] = frozenset({0})
    emphasised_rows: frozenset[int] = frozenset()
    states: tuple[str, ...] = ()
    """Of each row, where rows differ in more than their numbers: ``made``, ``lost``, ``planned``."""
