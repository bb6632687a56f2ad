"""How an audit gets on and how long it will take: a bar on a terminal, plain lines elsewhere. All on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import click

_PHASES = {
    "noise": "noise of every release, no users",
    "file": "one user more or less in the file",
    "canaries": "canary games",
    "board": "board-only games",
}
_BEFORE = {"noise": 0.0, "file": 0.6, "canaries": 0.83, "board": 0.9}
_A_GAME = 0.06
"""Of the time of an audit with one canary game, what is gone when a phase begins, and what that game takes."""


@contextmanager
def stepping(games: int = 1) -> Iterator[Callable[[str, int, int], None]]:
    """The listener that suits stderr, for so many canary games: called with phase, steps done, steps in all."""
    began = time.monotonic()

    def told(phase: str, done: int, total: int) -> str:
        return f"{_PHASES.get(phase, phase)}{_left(time.monotonic() - began, phase, done, total, games)}"

    def say(phase: str, done: int, total: int) -> None:
        if done < total:
            count = f" ({done + 1} of {total})" if total > 1 else ""
            click.echo(f"{told(phase, done, total)}{count}", err=True)

    if not sys.stderr.isatty():  # nothing more is needed for plain lines
        yield say
        return
    from fedboard.simulations.drawing.bars import Bars, is_live

    if not is_live():
        yield say
        return
    with Bars(counted=True) as bars:
        bar = bars.add_task("loading data", total=None)

        def show(phase: str, done: int, total: int) -> None:
            bars.update(bar, description=told(phase, done, total), completed=done, total=total)

        yield show


def _left(seconds: float, phase: str, done: int, total: int, games: int) -> str:
    """An estimate of what is left, from the time so far; nothing before the first phase or step is over."""
    more = _A_GAME * (games - 1)
    gone = _BEFORE.get(phase, 0.0) + (more if phase == "board" else 0.0)
    share = (gone + done * (_A_GAME if phase == "canaries" else (phase not in _BEFORE) / total)) / (
        1.0 + more
    )
    return f", about {timedelta(seconds=round(seconds / share * (1.0 - share)))} left" if share else ""
