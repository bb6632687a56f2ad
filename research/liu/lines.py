"""Panels of lines, one for each panel's name: how this paper draws nearly everything."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from research.shared.drawing import DASHES, MARKERS, SERIES, new_figure

_MOST_MARKERS = 30
_FEW_DECADES = 3.5
"""Up to so many a logarithmic axis names 3, 30, ... too."""
Line = tuple[Sequence[float], Sequence[float]]


def line_panels(
    panels: Mapping[str, Mapping[str, Line]],
    *,
    across: str,
    up: str,
    log: str = "",
    ticks: Sequence[float] = (),
) -> Figure:
    """Draw every panel's lines with a legend.

    Args:
        panels: by title: by label, places across and up.
        across: what runs across.
        up: what runs up.
        log: the axes that are logarithmic, "", "x", "y" or "xy".
        ticks: places across that get a label; () for what matplotlib thinks.
    """
    figure = new_figure(max(5.2, 4.2 * len(panels)), 3.4)
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for number, (title, lines) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), number + 1)
        for label, (places, heights) in lines.items():
            style = labels.index(label) % len(SERIES)
            axes.plot(
                places,
                heights,
                color=SERIES[style],
                marker=MARKERS[style] if len(places) <= _MOST_MARKERS else "",
                linestyle=DASHES[style],
                label=label,
            )
        axes.set(title=title, xlabel=across, ylabel=up if number == 0 else "")
        if "x" in log:
            axes.set_xscale("log")
            _plain(axes.xaxis)
        if "y" in log:
            axes.set_yscale("log")
            _plain(axes.yaxis)
        if ticks:
            axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{place:g}"))
        axes.legend(frameon=False, fontsize=8)
    return figure


def _plain(axis: Axis) -> None:
    """Name places of a logarithmic axis by their numbers: formulas are not set here."""
    low, high = axis.get_data_interval()
    few = low > 0 and np.log10(high / low) <= _FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if few else (1.0,), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda place, _: f"{place:g}"))
    axis.set_minor_formatter(NullFormatter())
