"""The comparison as a picture: bytes, seconds and errors of prediction, a line for each protocol."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from fedboard.simulations.drawing.svg import MARKERS, MUTED, SERIES, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _ROW, _REST = 9.6, 0.34, 1.5
_SIZE = 36.0
_WORST = 1.2
"""Errors beyond so many times the least one are written, not drawn."""
_BYTES = (("bytes_up_per_user", "up"), ("bytes_down_per_user", "down"))
_SECONDS = (("client_seconds", "a client"), ("server_seconds", "all servers"))


def draw(record: Mapping[str, Any]) -> "Figure":
    """One figure for one algorithm; inside ``house_style``.

    Args:
        record: an entry of ``algorithms`` of the comparison's record.
    """
    lines: Mapping[str, Mapping[str, Any]] = record["protocols"]
    epsilons = list(dict.fromkeys(e for line in lines.values() for e in line["rmse_by_epsilon"]))
    figure = new_figure(_WIDTH, _REST + _ROW * len(lines))
    panels = figure.subplots(1, 3 if epsilons else 2, sharey=True)
    _costs(panels[0], list(lines.values()), _BYTES, "Bytes of a user and round", "B")
    _costs(panels[1], list(lines.values()), _SECONDS, "CPU time of a round", "s")
    if epsilons:
        _errors(panels[2], list(lines.values()), epsilons)
    panels[0].set_yticks(range(len(lines)), list(lines))
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    guessed = any(any(line.get("extrapolated", {}).values()) for line in lines.values())
    if guessed:
        panels[1].annotate(
            "open: extrapolated", (1, 0.02), xycoords="axes fraction", ha="right", color=MUTED, fontsize=8
        )
    return figure


def _costs(
    axes: "Axes",
    lines: Sequence[Mapping[str, Any]],
    keys: Sequence[tuple[str, str]],
    title: str,
    unit: str,
) -> None:
    for series, (key, name) in enumerate(keys):
        known = [(row, line) for row, line in enumerate(lines) if line[key] is not None]
        colours = ["none" if line["extrapolated"][key] else SERIES[series] for _, line in known]
        _dots(axes, [(line[key], row) for row, line in known], series, name, colours)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=10.0, numticks=6))
    axes.xaxis.set_major_formatter(EngFormatter(unit=unit))
    _finish(axes, title)


def _errors(axes: "Axes", lines: Sequence[Mapping[str, Any]], epsilons: Sequence[str]) -> None:
    everything = [rmse for line in lines for rmse in line["rmse_by_epsilon"].values() if rmse is not None]
    most = _WORST * min(everything, default=1.0)
    for series, epsilon in enumerate(epsilons):
        found = [(line["rmse_by_epsilon"].get(epsilon), row) for row, line in enumerate(lines)]
        known = [(rmse, row) for rmse, row in found if rmse is not None and rmse <= most]
        colour = SERIES[series % len(SERIES)]
        _dots(axes, known, series, f"epsilon {epsilon}", [colour] * len(known))
    for row, line in enumerate(lines):
        beyond = [f"{rmse:.2f}" for rmse in line["rmse_by_epsilon"].values() if rmse and rmse > most]
        if beyond:
            place: dict[str, Any] = {
                "xycoords": axes.get_yaxis_transform(),
                "ha": "right",
                "va": "bottom",
                "fontsize": 8,
            }
            axes.annotate(f"{', '.join(beyond)} \N{RIGHTWARDS ARROW}", (1, row), color=MUTED, **place)
    _finish(axes, "Test RMSE")


def _dots(
    axes: "Axes", points: Sequence[tuple[float, int]], series: int, name: str, colours: Sequence[str]
) -> None:
    across, down = [x for x, _ in points], [y for _, y in points]
    edge = SERIES[series % len(SERIES)]
    marker = MARKERS[series % len(MARKERS)]
    axes.scatter(across, down, s=_SIZE, marker=marker, c=colours, edgecolors=edge)
    axes.scatter([], [], s=_SIZE, marker=marker, color=edge, label=name)


def _finish(axes: "Axes", title: str) -> None:
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, axis="both")
    axes.margins(x=0.12)
    axes.set_title(title)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False, fontsize=8.5)
