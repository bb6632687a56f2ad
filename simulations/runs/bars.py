"""Live bars on a terminal: what is done, and above all how long it will take, in whatever width there is."""

import os
import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

_BAR = 20
_NO_BARS = ("dumb", "unknown")


def is_live() -> bool:
    """Whether stderr is a terminal that can draw over its lines; a file or a pipe gets plain lines instead."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in _NO_BARS


class Bars(Progress):
    """A bar and the time left for each task; what there is to say of it in words is below, on lines of its own."""

    def __init__(self, *, counted: bool = False, console: Console | None = None) -> None:
        """Draw on stderr.

        Args:
            counted: also how many of how many.
            console: another place.
        """
        plain = True if os.environ.get("CLICOLOR") == "0" else None
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(bar_width=_BAR, table_column=Column(min_width=4)),
        ]
        if counted:
            columns.append(MofNCompleteColumn(table_column=Column(no_wrap=True)))
        columns.append(_Left(table_column=Column(no_wrap=True, min_width=12)))
        super().__init__(
            *columns, console=console or Console(stderr=True, no_color=plain), transient=True, expand=False
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        """The bars, and below them the words."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.visible and task.fields.get("told"):
                yield Text(str(task.fields["told"]), overflow="fold")


class _Left(TimeRemainingColumn):
    """``0:00:12 left``."""

    def render(self, task: Task) -> Text:
        """The time, said to be what is left; nothing where nobody knows how much there is to do."""
        return Text("") if task.total is None else super().render(task) + " left"
