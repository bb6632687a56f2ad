"""The frontier drawn: a metric against epsilon, and below it the metric by popularity at each epsilon."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fedboard.common.reports.wording import setting
from fedboard.simulations.drawing.svg import (
    DASHES,
    MARKERS,
    MUTED,
    SERIES,
    LineEnd,
    label_line_ends,
    new_figure,
)
from fedboard.simulations.drawing.wording import direction, metric_label
from fedboard.simulations.sweeps.frontier_data import (
    Result,
    Summary,
    algorithms,
    epsilons,
    mean_slices,
    sliced_metric,
    summarise,
)

_PANELS_PER_ROW = 3

Slices: TypeAlias = dict[str, list[float | None]]
Panel: TypeAlias = tuple[float | None, Slices]
Style: TypeAlias = dict[str, Any]


def frontier_figure(results: Sequence[Result], metric: str) -> Figure:
    """Draw the frontier; the lower panels only where the results have a sliced metric.

    Call under ``house_style``.
    """
    sliced = sliced_metric(results, metric)
    panels = _slice_panels(results, sliced) if sliced is not None else []
    n_rows = math.ceil(len(panels) / _PANELS_PER_ROW)
    figure = new_figure(8.2, 3.7 + 2.5 * n_rows)
    grid = GridSpec(1 + n_rows, _PANELS_PER_ROW, figure=figure, height_ratios=[1.45] + [1.0] * n_rows)
    styles = series_styles(results)
    draw_frontier(figure.add_subplot(grid[0, :]), results, metric, styles)
    if sliced is not None:
        _draw_slice_panels(figure, grid, panels, sliced, styles)
    return figure


def _slice_panels(results: Sequence[Result], sliced: str) -> list[Panel]:
    """(epsilon, slices by algorithm) for each panel; non-private slices are repeated in each as reference."""
    reference = mean_slices(results, sliced, None)
    panels: list[Panel] = []
    for epsilon in epsilons(results):
        own = mean_slices(results, sliced, epsilon)
        if own:
            panels.append((epsilon, own | {name: row for name, row in reference.items() if name not in own}))
    return panels or ([(None, reference)] if reference else [])


def draw_frontier(axes: Axes, results: Sequence[Result], metric: str, styles: Mapping[str, Style]) -> None:
    """Draw a metric against epsilon: a curve with spread per algorithm, a level per model without privacy.

    Args:
        axes: empty.
        results: of one data set.
        metric: which one.
        styles: from ``series_styles``; those of algorithms that have no such metric are not used.
    """
    summaries = summarise(results, metric)
    ends = []
    for name, style in styles.items():
        own = [summary for summary in summaries if summary.algorithm == name and summary.epsilon is not None]
        if own:
            ends.append(_draw_curve(axes, sorted(own, key=_epsilon), style))
    levels = [summary for summary in summaries if summary.epsilon is None]
    ends += [_draw_level(axes, summary) for summary in levels]
    _epsilon_axis(axes, epsilons(results))
    axes.set_title(f"{metric_label(metric)} against epsilon, {direction(metric)}")
    label_line_ends(axes, ends)


def _draw_curve(axes: Axes, summaries: Sequence[Summary], style: Style) -> LineEnd:
    places = [_epsilon(summary) for summary in summaries]
    means = [summary.mean for summary in summaries]
    spreads = [summary.spread or 0.0 for summary in summaries]
    axes.errorbar(places, means, yerr=spreads, capsize=3, elinewidth=1.2, **style)
    return LineEnd(height=means[-1], text=summaries[0].algorithm, colour=style["color"])


def _draw_level(axes: Axes, summary: Summary) -> LineEnd:
    axes.axhline(summary.mean, color=MUTED, linestyle=DASHES[1], linewidth=1.1)
    if summary.spread is not None:
        axes.axhspan(
            summary.mean - summary.spread, summary.mean + summary.spread, color=MUTED, alpha=0.15, linewidth=0
        )
    return LineEnd(height=summary.mean, text=f"{summary.algorithm} (non-private)", colour=MUTED)


def _epsilon_axis(axes: Axes, places: Sequence[float]) -> None:
    """A logarithmic axis with a tick at each epsilon that was run; hidden where there is none."""
    if not places:
        axes.xaxis.set_visible(False)
        return
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda epsilon, _: setting(epsilon)))
    axes.set_xlim(places[0] / 1.25, places[-1] * 1.12)
    axes.set_xlabel("epsilon (logarithmic), smaller is more private")


def _draw_slice_panels(
    figure: Figure, grid: GridSpec, panels: Sequence[Panel], metric: str, styles: Mapping[str, Style]
) -> None:
    all_axes: list[Axes] = []
    for place, (epsilon, slices) in enumerate(panels):
        row, column = divmod(place, _PANELS_PER_ROW)
        axes = figure.add_subplot(grid[1 + row, column], sharey=all_axes[0] if all_axes else None)
        all_axes.append(axes)
        _draw_slices(axes, slices, styles)
        axes.set_title("non-private" if epsilon is None else f"epsilon {setting(epsilon)}")
        if column == 0:
            axes.set_ylabel(f"{metric_label(metric)}\nby item popularity")
        else:
            axes.tick_params(labelleft=False)
    for place, axes in enumerate(all_axes, start=1):
        if place % _PANELS_PER_ROW == 0 or place == len(panels):
            label_line_ends(axes, _ends(panels[place - 1][1], styles))


def _draw_slices(axes: Axes, slices: Slices, styles: Mapping[str, Style]) -> None:
    for name, values in slices.items():
        known = [(bucket, value) for bucket, value in enumerate(values) if value is not None]
        buckets, heights = zip(*known, strict=True) if known else ((), ())
        axes.plot(buckets, heights, markersize=4, linewidth=1.5, **styles[name])
    last = max(len(values) for values in slices.values()) - 1
    names = ["tail", *(f"{bucket}" for bucket in range(1, last)), "head"]
    axes.set_xticks(range(last + 1), names[: last + 1])


def _ends(slices: Slices, styles: Mapping[str, Style]) -> list[LineEnd]:
    last = {
        name: next((value for value in reversed(values) if value is not None), None)
        for name, values in slices.items()
    }
    return [
        LineEnd(height=value, text=name, colour=styles[name]["color"])
        for name, value in last.items()
        if value is not None
    ]


def series_styles(results: Sequence[Result]) -> dict[str, Style]:
    """Colour, marker and dashes of each algorithm; those without a guarantee are all muted."""
    private = {result.algorithm for result in results if result.epsilon is not None}
    styles: dict[str, Style] = {}
    for place, name in enumerate(algorithms(results)):
        index = place % len(SERIES)
        styles[name] = {
            "color": SERIES[index] if name in private else MUTED,
            # Colours repeat after a while; with another marker they are still told apart.
            "marker": MARKERS[(place + place // len(SERIES)) % len(MARKERS)],
            "linestyle": DASHES[index] if name in private else DASHES[1],
        }
    return styles


def _epsilon(summary: Summary) -> float:
    return math.inf if summary.epsilon is None else summary.epsilon
