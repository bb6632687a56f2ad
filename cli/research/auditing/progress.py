"""How an audit is getting on: a live bar on a terminal, one plain line per step anywhere else. All on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_PHASES = {
    "noise": "noise of every release, no users",
    "file": "one user more or less in the file",
    "sensitivity": "hostile clients, no noise",
    "canaries": "canary games",
    "board": "board-only games",
    "controls": "broken and correct runs",
}


@contextmanager
def stepping() -> Iterator[Callable[[str, int, int], None]]:
    """The listener that suits stderr: called with phase, steps done, steps in all."""
    if not sys.stderr.isatty():  # nothing more is needed for plain lines
        yield _say
        return
    from fedboard.simulations.drawing.bars import Bars, is_live

    if not is_live():
        yield _say
        return
    with Bars(counted=True) as bars:
        bar = bars.add_task("loading data", total=None)

        def show(phase: str, done: int, total: int) -> None:
            bars.update(bar, description=_PHASES.get(phase, phase), completed=done, total=total)

        yield show


def _say(phase: str, done: int, total: int) -> None:
    if done < total:
        count = f", {done + 1} of {total}" if total > 1 else ""
        click.echo(f"{_PHASES.get(phase, phase)}{count}", err=True)
