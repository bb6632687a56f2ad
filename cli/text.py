"""Tables and numbers of bytes as plain text."""

import shutil
import sys
import textwrap
import time
import unicodedata
from collections.abc import Collection, Sequence
from datetime import timedelta


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Columns lined up with two spaces between them.

    Args:
        headers: one per column; no header line if all are empty.
        rows: finished text.
        right: numbers of the columns that are lined up at their right end.
    """
    lines = [headers, *rows] if any(headers) else list(rows)
    widths = [max((_width(line[column]) for line in lines), default=0) for column in range(len(headers))]
    return "\n".join(_line(line, widths, right) for line in lines)


def folded(text: str) -> str:
    """The same with sentences broken between words where a terminal is narrower; as it is for a file or a pipe.

    Lines of a table, which have columns, stay as they are.
    """
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        line if "  " in line or len(line) <= width else textwrap.fill(line, width, break_on_hyphens=False)
        for line in text.split("\n")
    )


def _line(cells: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    padded = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - _width(cell))
        padded.append(space + cell if column in right else cell + space)
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns that a terminal gives to the text."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


class Countdown:
    """How long what is left will take, by how long took what was done here."""

    def __init__(self, total: int) -> None:
        """Begin with ``total`` parts ahead."""
        self._left, self._done, self._began = total, 0, time.monotonic()

    def told(self, *, kept: bool = False) -> str:
        """One part further: ``, about 0:12:00 left``; empty at the end, and until a part was done and not kept."""
        self._left, self._done = self._left - 1, self._done + (not kept)
        if not (self._left and self._done):
            return ""
        seconds = (time.monotonic() - self._began) / self._done * self._left
        return f", about {timedelta(seconds=round(seconds))} left"
