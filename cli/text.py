"""Tables as plain text, colour where a terminal has it and nobody minds, and how long is left."""

import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import click

good: Callable[[str], str] = partial(click.style, fg="green")
"""Of what holds."""
bad: Callable[[str], str] = partial(click.style, fg="red")
"""Of what does not."""
warned: Callable[[str], str] = partial(click.style, fg="yellow")
"""Of what must not be overlooked."""
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?|nan|inf|-?")


def colour_wanted(environment: Mapping[str, str] = os.environ) -> bool | None:
    """Whether to colour: always, never, or (None) wherever the output is a terminal.

    ``NO_COLOR`` (https://no-color.org) wins over ``FORCE_COLOR`` and ``CLICOLOR_FORCE``, these over ``TERM=dumb``
    and ``CLICOLOR=0``.
    """
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return False if environment.get("TERM") == "dumb" or environment.get("CLICOLOR") == "0" else None


def aligned(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns lined up with two spaces between them; a column of numbers is lined up at its right end.

    Args:
        headers: one per column; no header line if all are empty.
        rows: what to show, each cell as ``str`` has it.
    """
    body = [[str(cell) for cell in row] for row in rows]
    lines = [list(headers), *body] if any(headers) else body
    widths = [max((_width(line[column]) for line in lines), default=0) for column in range(len(headers))]
    right = [
        bool(body) and all(_NUMBER.fullmatch(row[column]) for row in body) for column in range(len(headers))
    ]
    return "\n".join(_line(line, widths, right) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, at_right in zip(cells, widths, right, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if at_right else cell + space)
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
