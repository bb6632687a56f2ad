"""How making shards is getting on: a live bar on a terminal, a line now and then anywhere else. On stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_EVERY = 10.0
"""Seconds between two lines."""


@contextmanager
def telling() -> Iterator[Callable[[str, int, int | None], None]]:
    """What to call with what is being done, how many rows of it are done, and of how many."""
    if not sys.stderr.isatty():
        yield _Lines().tell
        return
    from fedboard.simulations.drawing.bars import Bars, is_live

    if not is_live():
        yield _Lines().tell
        return
    with Bars() as bars:
        task = bars.add_task("reading", total=None, told="")

        def tell(what: str, done: int, total: int | None) -> None:
            bars.update(task, description=what, completed=done, total=total, told=f"{done:,} ratings")

        yield tell


class _Lines:
    """A line for each thing that is begun, and then one now and then."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._what, self._last = "", 0.0

    def tell(self, what: str, done: int, total: int | None) -> None:
        """Say it, unless something was said a moment ago."""
        now = time.monotonic()
        if what == self._what and now - self._last < _EVERY:
            return
        self._what, self._last = what, now
        of = "" if total is None else f" of {total:,}"
        click.echo(f"{what}: {done:,}{of} ratings", err=True)
