"""Histograms that a run has stored: counts and weights."""

import math
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedboard.simulations.drawing.figures import Plot, finish
from fedboard.simulations.drawing.json_values import JsonObject, numbers, object_or_empty
from fedboard.simulations.drawing.svg import DASHES, SERIES, LineEnd, label_line_ends, new_figure
from fedboard.simulations.drawing.table import Table
from fedboard.simulations.drawing.wording import number, setting

_AXIS_NAMES = {"counts": "ratings per item", "weights": "weight"}
_NAMES = {
    ("counts", "noisy"): "noisy counts (released)",
    ("counts", "exact"): "exact counts (private)",
    ("weights", "items"): "item weights (released)",
    ("weights", "entries"): "weights of ratings (private)",
}
_RELEASED = frozenset({("counts", "noisy"), ("weights", "items")})
"""Histograms of what was released anyway; any other is taken to be private data."""

Histogram = tuple[list[float], list[float]]


def distribution_plots(distributions: JsonObject) -> list[Plot]:
    """One figure for each group of histograms (``counts``, ``weights``) that holds a usable one."""
    plots = []
    for group, entries in distributions.items():
        found = {name: _histogram(object_or_empty(entry)) for name, entry in object_or_empty(entries).items()}
        held_out = not all((group, name) in _RELEASED for name, entry in found.items() if entry is not None)
        histograms = {
            _NAMES.get((group, name), name): entry for name, entry in found.items() if entry is not None
        }
        if histograms:
            plots.append(_plot(group, histograms, held_out=held_out))
    return plots


def _histogram(entry: JsonObject) -> Histogram | None:
    """Edges and values, if they fit together, edges ascend and not all bins are empty."""
    edges = [edge for edge in numbers(entry.get("edges")) if edge is not None]
    values = [value for value in numbers(entry.get("values")) if value is not None]
    ascending = all(low < high for low, high in pairwise(edges))
    fits = len(edges) == len(values) + 1 and ascending and sum(values) > 0
    return (edges, values) if fits else None


def _plot(group: str, histograms: dict[str, Histogram], *, held_out: bool) -> Plot:
    figure = new_figure(7.4, 2.8)
    axes = figure.add_subplot()
    _draw(axes, histograms)
    axes.set_xlabel(_AXIS_NAMES.get(group, group))
    return finish(
        figure,
        slug=f"distribution-{''.join(letter if letter.isalnum() else '-' for letter in group)}",
        title=f"Distribution of {group}",
        reading=_reading(histograms),
        held_out=held_out,
        table=_table(histograms),
    )


def _draw(axes: Axes, histograms: dict[str, Histogram]) -> None:
    """Shares, not numbers: one group may hold a few thousand items and a million ratings."""
    logarithmic = all(edges[0] > 0 for edges, _ in histograms.values())
    ends = []
    for place, (name, histogram) in enumerate(histograms.items()):
        edges, heights = _per_doubling(histogram) if logarithmic else _per_bin(histogram)
        colour, dashes = SERIES[place % len(SERIES)], DASHES[place % len(SERIES)]
        axes.stairs(heights, edges, color=colour, linestyle=dashes, linewidth=1.6)
        if len(histograms) == 1:
            axes.stairs(heights, edges, color=colour, fill=True, alpha=0.18)
        ends.append(LineEnd(height=heights[-1], text=name, colour=colour))
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda position, _: setting(position)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("share of values, %\nper doubling" if logarithmic else "share of values in bin, %")
    axes.set_ylim(bottom=0)
    label_line_ends(axes, ends)


def _per_bin(histogram: Histogram) -> Histogram:
    edges, values = histogram
    return edges, [100 * value / sum(values) for value in values]


def _per_doubling(histogram: Histogram) -> Histogram:
    """Shares divided by the width of the bin on a log2 axis, so that other bins give the same height.

    Values that are (nearly) all equal become one bin of one doubling around them.
    """
    edges, values = histogram
    if edges[-1] < 1.01 * edges[0]:
        return [edges[0] / math.sqrt(2), edges[0] * math.sqrt(2)], [100.0]
    widths = [math.log2(high / low) for low, high in pairwise(edges)]
    return edges, [100 * value / sum(values) / width for value, width in zip(values, widths, strict=True)]


def _reading(histograms: dict[str, Histogram]) -> str:
    parts = []
    for name, (edges, values) in histograms.items():
        half, most = (_below(edges, values, share) for share in (0.5, 0.95))
        parts.append(
            f"{name}: half of {number(sum(values))} lie below {number(half, 3)}, 95 % below {number(most, 3)}"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _below(edges: list[float], values: list[float], share: float) -> float:
    """Upper edge of the first bin up to which at least that share of the values lies."""
    reached = np.cumsum(values) >= share * sum(values) * (1 - 1e-12)
    return edges[int(np.argmax(reached)) + 1]


def _table(histograms: dict[str, Histogram]) -> Table:
    rows = [
        (name, f"{number(low)} – {number(high)}", number(value))
        for name, (edges, values) in histograms.items()
        for (low, high), value in zip(pairwise(edges), values, strict=True)
    ]
    return Table(headers=("Histogram", "Bin", "Number"), rows=tuple(rows), text_columns=frozenset({0, 1}))
