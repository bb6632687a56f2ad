"""The trials of a search drawn: the metric against each setting."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from fedboard.simulations.drawing.svg import MUTED, SERIES, house_style, new_figure, settle
from fedboard.simulations.drawing.wording import direction, lower_is_better, metric_label, setting
from fedboard.simulations.tuning.search import Search, Trial, value_of
from fedboard.simulations.tuning.space import Parameter

_PANELS_PER_ROW = 4
_SHOWN = 0.8
"""Share of the trials that fit between the limits: the worst would squeeze the rest."""
_DOTS_PER_INCH = 160


def trials_figure(search: Search, trials: Sequence[Trial], best: Trial, out: Path) -> tuple[Path, Path]:
    """Draw one panel per setting into ``trials.svg`` and ``trials.png``.

    Args:
        search: what was asked.
        trials: all of them.
        best: the one that was chosen.
        out: a folder.
    """
    n_rows = math.ceil(len(search.space) / _PANELS_PER_ROW)
    sound = search.better(trials)
    with house_style():
        figure = new_figure(2.9 * _PANELS_PER_ROW, 2.3 * n_rows + 0.5)
        grid = figure.add_gridspec(n_rows, _PANELS_PER_ROW)
        shared: Axes | None = None
        for place, (key, parameter) in enumerate(search.space.items()):
            axes = figure.add_subplot(grid[divmod(place, _PANELS_PER_ROW)], sharey=shared)
            shared = shared or axes
            _draw(axes, search, sound, best, key, parameter)
            axes.tick_params(labelleft=place % _PANELS_PER_ROW == 0)
        if shared is not None and sound:
            shared.set_ylim(*_limits(search, sound))
        title = f"{metric_label(search.metric)} of {len(trials)} trials, {direction(search.metric)}; "
        figure.suptitle(
            title + "filled: all seeds; star: chosen; ring: shipped settings; the worst fifth may be cut off",
            fontsize=9,
        )
        settle(figure)
        paths = out / "trials.svg", out / "trials.png"
        figure.savefig(paths[0], facecolor="white", metadata={"Date": None})
        figure.savefig(paths[1], facecolor="white", dpi=_DOTS_PER_INCH)
    return paths


def _draw(
    axes: Axes, search: Search, trials: Sequence[Trial], best: Trial, key: str, parameter: Parameter
) -> None:
    for trial in trials:
        place = _place(trial, key, parameter)
        if place is None:
            continue
        judged = len(trial.records) == len(search.seeds)
        colour = SERIES[1] if trial is best else SERIES[0] if judged else MUTED
        axes.plot(
            place,
            trial.mean(search.metric),
            color=colour,
            linestyle="none",
            marker="*" if trial is best else "o",
            markersize=10 if trial is best else 4,
            markerfacecolor=colour if judged or trial is best else "none",
            zorder=3 if trial is best else 2 if judged else 1,
        )
        if trial.number == 0:
            axes.plot(place, trial.mean(search.metric), "o", markersize=9, color=SERIES[2], fillstyle="none")
    axes.set_title(key.removeprefix("privacy.").removeprefix("settings."))
    if parameter.kind == "choice":
        axes.set_xticks(range(len(parameter.values)), [f"{value}" for value in parameter.values])
        axes.set_xlim(-0.5, len(parameter.values) - 0.5)
    elif parameter.kind == "log":
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: setting(value)))
        axes.xaxis.set_minor_locator(NullLocator())
    elif parameter.kind == "int":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _place(trial: Trial, key: str, parameter: Parameter) -> float | None:
    value = value_of(trial, key)
    if parameter.kind == "choice":
        return float(parameter.values.index(value)) if value in parameter.values else None
    return float(value) if isinstance(value, int | float) else None


def _limits(search: Search, sound: Sequence[Trial]) -> tuple[float, float]:
    means = np.array([trial.mean(search.metric) for trial in sound])
    worst = float(np.quantile(means, _SHOWN if lower_is_better(search.metric) else 1 - _SHOWN))
    shipped = [trial.mean(search.metric) for trial in sound if trial.number == 0]
    low, high = min(means[0], worst, *shipped), max(means[0], worst, *shipped)
    margin = 0.06 * (high - low) or 0.01
    return float(low - margin), float(high + margin)
