"""Figures over the rounds of a run: metrics, and bytes per client."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedboard.simulations.drawing.figures import Plot, finish
from fedboard.simulations.drawing.json_values import JsonObject, number_or_none, object_or_empty
from fedboard.simulations.drawing.svg import (
    DASHES,
    MARKERS,
    MUTED,
    SERIES,
    LineEnd,
    label_line_ends,
    new_figure,
)
from fedboard.simulations.drawing.table import Table
from fedboard.simulations.drawing.wording import (
    byte_count,
    direction,
    fixed,
    listing,
    metric_label,
    number,
    reading_order,
)
from fedboard.simulations.report.run_files import Model, RunRecord
from fedboard.simulations.report.tables import board_number

_MOST_PANELS = 3
_BYTE_SERIES = {
    "max": "largest",
    "p95": "95 % of clients below",
    "p50": "half of clients below",
    "mean": "mean",
}

Points = list[tuple[float, float]]


def metric_plot(record: RunRecord) -> Plot | None:
    """Each metric over the rounds, one panel a metric; None where no round has one."""
    series = {name: _metric_points(record.rounds, name) for name in _round_metrics(record.rounds)}
    shown = {name: points for name, points in series.items() if points}
    if not shown:
        return None
    shown = dict(list(shown.items())[:_MOST_PANELS])
    figure = new_figure(7.4, 3.0)
    for place, (name, points) in enumerate(shown.items(), start=1):
        axes = figure.add_subplot(1, len(shown), place)
        axes.set_title((", " if len(shown) == 1 else "\n").join([metric_label(name), direction(name)]))
        _draw_metric(axes, name, points, record.baselines)
    return finish(
        figure,
        slug="rounds",
        title="Held-out metrics after each round",
        reading=_metric_reading(shown),
        held_out=True,
        table=_points_table({metric_label(name): points for name, points in shown.items()}, fixed),
    )


def bytes_plot(record: RunRecord) -> Plot | None:
    """Bytes that one client sends and receives in each round; None where no round states them."""
    up = {key: _byte_points(record.rounds, key) for key in _BYTE_SERIES}
    down = _down_points(record.rounds)
    series = {f"up: {_BYTE_SERIES[key]}": points for key, points in up.items() if points}
    if down:
        series["down: the board"] = down
    if not series:
        return None
    figure = new_figure(7.4, 3.1)
    _draw_bytes(figure.add_subplot(), series)
    return finish(
        figure,
        slug="bytes",
        title="Bytes per client and round",
        reading=_bytes_reading(up, down),
        held_out=True,
        table=_points_table(series, byte_count),
    )


def _round_metrics(rounds: Sequence[JsonObject]) -> list[str]:
    return reading_order(name for entry in rounds for name in object_or_empty(entry.get("metrics")))


def _metric_points(rounds: Sequence[JsonObject], name: str) -> Points:
    return _points(rounds, [object_or_empty(entry.get("metrics")).get(name) for entry in rounds])


def _byte_points(rounds: Sequence[JsonObject], key: str) -> Points:
    return _points(rounds, [object_or_empty(entry.get("bytes_up_per_client")).get(key) for entry in rounds])


def _down_points(rounds: Sequence[JsonObject]) -> Points:
    return _points(rounds, [entry.get("bytes_down_per_client") for entry in rounds])


def _points(rounds: Sequence[JsonObject], values: Sequence[object]) -> Points:
    """(number of the round's board, value); a round without the value has no point."""
    pairs = [
        (board_number(entry), number_or_none(value)) for entry, value in zip(rounds, values, strict=True)
    ]
    return [(place, value) for place, value in pairs if place is not None and value is not None]


def _draw_metric(axes: Axes, name: str, points: Points, baselines: Sequence[Model]) -> None:
    places, values = zip(*points, strict=True)
    axes.plot(places, values, color=SERIES[0], marker=MARKERS[0])
    ends = [LineEnd(height=values[-1], text=f"this run {fixed(values[-1])}", colour=SERIES[0])]
    for baseline in baselines:
        if name in baseline.metrics:
            level = baseline.metrics[name]
            axes.axhline(level, color=MUTED, linestyle=DASHES[1], linewidth=1.1)
            ends.append(LineEnd(height=level, text=f"{baseline.name} {fixed(level)}", colour=MUTED))
    axes.set_xlabel("board")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    label_line_ends(axes, ends)


def _draw_bytes(axes: Axes, series: dict[str, Points]) -> None:
    ends = []
    for place, (name, points) in enumerate(series.items()):
        rounds, sizes = zip(*points, strict=True)
        style = place % len(SERIES)
        axes.plot(rounds, sizes, color=SERIES[style], marker=MARKERS[style], linestyle=DASHES[style])
        ends.append(LineEnd(height=sizes[-1], text=name, colour=SERIES[style]))
    _byte_axis(axes, [size for points in series.values() for _, size in points])
    axes.set_xlabel("board")
    axes.set_ylabel("bytes per client")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    label_line_ends(axes, ends)


def _byte_axis(axes: Axes, sizes: Sequence[float]) -> None:
    """Powers of four on a logarithmic axis where sizes differ widely, else a plain axis from zero."""
    smallest, largest = min(sizes), max(sizes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: byte_count(size)))
    if smallest <= 0 or largest < 20 * smallest:
        axes.set_ylim(0, largest * 1.1 or 1)
        return
    axes.set_yscale("log", base=2)
    exponents = np.arange(np.floor(np.log2(smallest)), np.ceil(np.log2(largest)) + 1)
    step = max(1, round(exponents.size / 6))
    axes.set_yticks(2.0 ** exponents[::step])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: byte_count(size)))
    axes.minorticks_off()


def _points_table(series: dict[str, Points], text: Callable[[float | None], str]) -> Table:
    rounds = sorted({place for points in series.values() for place, _ in points})
    columns = [dict(points) for points in series.values()]
    return Table(
        headers=("Board", *series),
        rows=tuple((number(place), *(text(column.get(place)) for column in columns)) for place in rounds),
    )


def _metric_reading(shown: dict[str, Points]) -> str:
    parts = []
    for name, points in shown.items():
        (first_board, first), (last_board, last) = points[0], points[-1]
        if len(points) == 1:
            parts.append(f"{metric_label(name)} is {fixed(first)} at board {number(first_board)}")
        else:
            parts.append(
                f"{metric_label(name)} goes from {fixed(first)} at board {number(first_board)} "
                f"to {fixed(last)} at board {number(last_board)} ({direction(name)})"
            )
    return f"{listing(parts)}."


def _bytes_reading(up: dict[str, Points], down: Points) -> str:
    parts = []
    if up["p50"] and up["max"]:
        typical = max(size for _, size in up["p50"])
        largest = max(size for _, size in up["max"])
        parts.append(
            f"in the heaviest round half of the clients send at most {byte_count(typical)} "
            f"and the largest sends {byte_count(largest)}"
        )
    elif up["mean"]:
        parts.append(
            f"a client sends {byte_count(max(size for _, size in up['mean']))} in the heaviest round"
        )
    if down:
        parts.append(f"each receives at most {byte_count(max(size for _, size in down))} a round")
    text = "; ".join(parts) or "bytes per client, round by round"
    return f"{text[:1].upper()}{text[1:]}."
