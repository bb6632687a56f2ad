"""How a run is getting on: live bars on a terminal, one plain line per round anywhere else. All on stderr."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from fedboard.simulations.evaluation.metrics.registry import main_metrics
from fedboard.simulations.problem import StreamedProblem
from fedboard.simulations.runs.directory import place_of, rounds_told
from fedboard.simulations.runs.trainer import Listener

if TYPE_CHECKING:
    from fedboard.simulations.config import SimulationConfig
    from fedboard.simulations.runs.calibrated import AnyProblem


_COMPILING = "compiling kernels, once on this machine"
_PHASES = {
    "compiling": _COMPILING,
    "users": "users: read, solve and contribute",
    "clients": "clients: solve and contribute",
    "sums": "clients: truncate and sum",
    "items": "items: sum, noise and solve",
    "judging": "judging on held-out data",
    "baselines": "baselines without privacy",
    "beside": "others at the same epsilon",
}

_SECONDS_BETWEEN_LINES = 30.0


class PlainListener(Listener):
    """One line per round, and one every half a minute of a round that takes long."""

    def __init__(self, budget: float) -> None:
        """``budget`` is the epsilon of the run."""
        self._budget = budget
        self._names: Sequence[str] = ()
        self._pace = Pace()
        self._told = 0.0

    def say(self, line: str) -> None:
        """Print a line on stderr."""
        click.echo(line, err=True)

    def planned(self, problem: "AnyProblem", rounds: Sequence[str]) -> None:
        """Say what is about to run."""
        self._names = rounds
        told = f"{problem.name}: {sizes_of(problem)}"
        self.say(f"{told}; {rounds_told(rounds)} within epsilon {self._budget:g}")

    def progress(self, phase: str, done: int, total: int) -> None:
        """Say what takes long before the first round; rounds are enough where nobody watches."""
        if phase == "compiling" and done == 0:
            self.say(f"{_COMPILING}; later runs find what is compiled")
        if phase != "users":
            return
        told, now = self._pace.told(done, total), time.monotonic()
        since = max(self._told, self._pace.began)
        if 0 < done < total and now - since >= _SECONDS_BETWEEN_LINES:
            self._told = now
            self.say(told)

    def round_finished(self, line: Mapping[str, Any]) -> None:
        """Say what it cost and gave."""
        place = place_of(line["stage"], self._names)
        self.say(f"{place}: {line['seconds']:.1f} s, {told_of(line, self._budget)}")


class LiveListener(PlainListener):
    """The same lines, and below them two bars: rounds with the time left, and the phase within a round."""

    def __init__(self, bars: Progress, budget: float) -> None:
        """Draw on ``bars``; ``budget`` is the epsilon of the run."""
        super().__init__(budget)
        self._bars = bars
        self._rounds = bars.add_task("loading data", total=None)
        self._phase = bars.add_task("", total=None, visible=False)
        self._name = ""

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def planned(self, problem: "AnyProblem", rounds: Sequence[str]) -> None:
        """Start counting rounds."""
        super().planned(problem, rounds)
        self._bars.update(self._rounds, description=problem.name, total=len(rounds))

    def progress(self, phase: str, done: int, total: int) -> None:
        """Move the bar of the phase; another phase starts it anew."""
        super().progress(phase, done, total)
        if phase != self._name:
            self._name = phase
            self._bars.reset(self._phase, description=_PHASES.get(phase, phase), visible=True)
        self._bars.update(self._phase, completed=done, total=total)

    def round_finished(self, line: Mapping[str, Any]) -> None:
        """One round further."""
        super().round_finished(line)
        self._bars.advance(self._rounds)


class Pace:
    """How fast the users of a round are gone through; those whom an earlier process went through do not count."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.began = time.monotonic()
        """The round, in this process."""
        self._first, self._last = 0, -1

    def told(self, done: int, total: int) -> str:
        """``3,200,000 of 10,000,000 users, 410,000 per second, 0:00:17 left``."""
        if done < self._last or done == 0 or self._last < 0:  # another round, or the first word of this one
            self._first, self.began = done, time.monotonic()
        self._last = done
        seconds, gone = time.monotonic() - self.began, done - self._first
        told = f"{done:,} of {total:,} users"
        if seconds <= 0 or gone <= 0:
            return told
        left = timedelta(seconds=round((total - done) * seconds / gone))
        return f"{told}, {gone / seconds:,.0f} per second, {left} left"


def sizes_of(problem: "AnyProblem") -> str:
    """How much there is to learn from; of a stream as much as is known before it is read."""
    if isinstance(problem, StreamedProblem):
        return f"{problem.n_users:,} users, {problem.catalogue.n_items:,} items, streamed"
    train = problem.train
    columns, entries = ("items", "ratings") if train.features is None else ("features", "examples")
    return f"{train.n_users:,} users, {train.n_items:,} {columns}, {train.n_ratings:,} {entries}"


def told_of(line: Mapping[str, Any], budget: float) -> str:
    """Budget spent and the metric that decides, for one record of metrics.jsonl."""
    parts = [f"epsilon {line['epsilon_spent']:.3g} of {budget:g} spent"]
    metrics = line.get("metrics", {})
    parts += [f"{name} {metrics[name]:.4f}" for name in main_metrics("validation") if name in metrics]
    return ", ".join(parts)


@contextmanager
def listening(config: "SimulationConfig") -> Iterator[PlainListener]:
    """The listener that suits stderr."""
    budget = config.privacy.epsilon
    if not is_live():
        yield PlainListener(budget)
        return
    with live_bars() as bars:
        yield LiveListener(bars, budget)


def is_live() -> bool:
    """Whether stderr is a terminal that can draw over its lines; a file or a pipe gets plain lines instead."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def live_bars(*, counted: bool = False) -> Progress:
    """Bars on stderr, each with the time left, in whatever width there is.

    Args:
        counted: also how many of how many.
    """
    plain = True if os.environ.get("CLICOLOR") == "0" else None
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=20, table_column=Column(min_width=4)),
    ]
    if counted:
        columns.append(MofNCompleteColumn(table_column=Column(no_wrap=True)))
    left = TimeRemainingColumn(table_column=Column(no_wrap=True))
    console = Console(stderr=True, no_color=plain)
    return Progress(*columns, left, console=console, transient=True, expand=False)
