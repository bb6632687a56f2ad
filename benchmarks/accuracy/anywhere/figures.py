"""The gaps that the benchmark measures, against what the sets look like."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fedboard.common.privacy.ledger.durable import settle
from research.shared.drawing import house_style, new_figure

NO_PRIVACY = "inf"


def draw(found: Mapping[str, Any], method: str, beside: Path) -> None:
    """Two rows of panels: RMSE over that of the best floor, and over the best model without privacy.

    Args:
        found: the summary.
        method: whose gaps are drawn.
        beside: ``.svg`` and ``.png`` go beside this file.
    """
    gaps = {
        "RMSE over the best floor": _to_floor(found),
        "RMSE over no privacy": _to_no_privacy(found, method),
    }
    if not any(gaps.values()):
        return
    with house_style():
        figure = new_figure(11.0, 7.5)
        grid = figure.add_gridspec(2, 2)
        for row, (title, points) in enumerate(gaps.items()):
            for column, (key, label) in enumerate(
                (("users", "users"), ("ratings_per_user", "ratings a user"))
            ):
                axes = figure.add_subplot(grid[row, column])
                for epsilon in sorted({point[1] for point in points}, key=float):
                    own = [(found["sets"][name]["explicit"][key], y) for name, e, y in points if e == epsilon]
                    own.sort()
                    axes.plot(*zip(*own, strict=True), "o", label=f"epsilon {epsilon}")
                axes.axhline(1.0, linewidth=0.8, color="black")
                _log_axis(axes, [found["sets"][name]["explicit"][key] for name, _, _ in points])
                axes.set_xlabel(label)
                axes.set_ylabel(f"{method}: {title}")
                if points:
                    axes.legend()
        settle(figure)
        for suffix in (".svg", ".png"):
            metadata = {"Date": None} if suffix == ".svg" else None
            figure.savefig(beside.with_suffix(suffix), facecolor="white", dpi=140, metadata=metadata)


def _log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, in plain numbers."""
    axes.set_xscale("log")
    low, high = (min(values) / 1.3, max(values) * 1.3) if values else (1.0, 10.0)
    axes.set_xlim(low, high)
    ticks = [step * 10.0**power for power in range(-1, 9) for step in (1, 2, 5)]
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))


def _to_floor(found: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    return [(entry["set"], entry["epsilon"], entry["ratio"]) for entry in found["ratios"]]


def _to_no_privacy(found: Mapping[str, Any], method: str) -> list[tuple[str, str, float]]:
    points = []
    for name, of_set in found["rmse"].items():
        ceilings = [row[NO_PRIVACY] for row in of_set.values() if NO_PRIVACY in row]
        for epsilon, value in of_set.get(method, {}).items():
            if ceilings and min(ceilings) > 0:
                points.append((name, epsilon, value / min(ceilings)))
    return points
