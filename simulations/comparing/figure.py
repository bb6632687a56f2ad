"""The comparison as a picture: bytes, seconds and errors of prediction, a line for each protocol."""

from collections.abc import Iterable, Mapping, Sequence
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
    """One figure for one algorithm; inside ``house_style``. Costs are those of each protocol's largest session.

    Args:
        record: an entry of ``algorithms`` of the comparison's record.
    """
    lines: Mapping[str, Mapping[str, Any]] = record["protocols"]
    epsilons = list(dict.fromkeys(e for line in lines.values() for e in line["rmse_by_epsilon"]))
    figure = new_figure(_WIDTH, _REST + _ROW * len(lines))
    panels = figure.subplots(1, 3 if epsilons else 2, sharey=True)
    _costs(panels[0], list(lines.values()), _BYTES, "Bytes of a user and round", "B")
    _costs(panels[1], list(lines.values()), _SECONDS, f"CPU time of a round, {_size(lines.values())}", "s")
    if epsilons:
        _errors(panels[2], list(lines.values()), epsilons)
    panels[0].set_yticks(range(len(lines)), list(lines))
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
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
        _dots(axes, [(line[key], row) for row, line in known], series, name)
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
        _dots(axes, known, series, f"epsilon {epsilon}")
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


def _dots(axes: "Axes", points: Sequence[tuple[float, int]], series: int, name: str) -> None:
    across, down = [x for x, _ in points], [y for _, y in points]
    colour, marker = SERIES[series % len(SERIES)], MARKERS[series % len(MARKERS)]
    axes.scatter(across, down, s=_SIZE, marker=marker, color=colour, label=name)


def _size(lines: Iterable[Mapping[str, Any]]) -> str:
    sizes = sorted({line["clients"] for line in lines if "clients" in line})
    return f"{' or '.join(f'{size:,}' for size in sizes)} clients"


def _finish(axes: "Axes", title: str) -> None:
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, axis="both")
    axes.margins(x=0.12)
    axes.set_title(title)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False, fontsize=8.5)
