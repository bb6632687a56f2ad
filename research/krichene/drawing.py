"""Panels of lines: how this paper draws nearly everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from research.shared.drawing import (
    DASHES,
    MARKERS,
    MUTED,
    SERIES,
    LineEnd,
    label_line_ends,
    new_figure,
)

EXPONENTS = (0.0, 1 / 8, 1 / 4, 1 / 3, 1 / 2, 1.0)
"""Figures 3, 5 and 9."""
_WIDTH, _HEIGHT, _COLUMNS = 4.6, 3.1, 3
_LABELLED = (1.0, 2.0, 5.0)
"""Multiples of a power of ten that a logarithmic axis names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes."""

    title: str
    lines: Mapping[str, Sequence[float | None]]
    """By name, one value for each of ``places``; None where there is none."""
    places: Sequence[float]
    ticks: Sequence[str] | None = None
    """Names of the places, evenly spaced; None for a scale of numbers."""
    across: str
    """What is on the horizontal axis."""
    up: str
    log: bool = False
    """Logarithmic vertical axis."""
    log_across: bool = False
    """Logarithmic horizontal axis; for a scale of numbers."""
    level: tuple[str, float] | None = None
    """A value that does not depend on the place, with its name."""


def draw_panels(panels: Sequence[Panel]) -> Figure:
    """All panels, up to three in a row."""
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    figure = new_figure(_WIDTH * columns, _HEIGHT * rows)
    for place, panel in enumerate(panels):
        _draw(figure.add_subplot(rows, columns, place + 1), panel)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    places = list(range(len(panel.ticks))) if panel.ticks is not None else list(panel.places)
    ends = []
    for number, (name, values) in enumerate(panel.lines.items()):
        known = [(x, y) for x, y in zip(places, values, strict=True) if y is not None]
        if not known:
            continue
        style = number % len(SERIES)
        marker = MARKERS[style] if len(known) <= 24 else ""
        axes.plot(*zip(*known, strict=True), color=SERIES[style], marker=marker, linestyle=DASHES[style])
        ends.append(LineEnd(height=known[-1][1], text=name, colour=SERIES[style]))
    if panel.level is not None:
        axes.axhline(panel.level[1], color=MUTED, linewidth=1.0)
        ends.append(LineEnd(height=panel.level[1], text=panel.level[0], colour=MUTED))
    if panel.ticks is not None:
        axes.set_xticks(places, list(panel.ticks))
    if panel.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=_LABELLED))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    if panel.log_across:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(panel.title)
    axes.set_xlabel(panel.across)
    axes.set_ylabel(panel.up)
    label_line_ends(axes, ends)


def as_text(exponent: float) -> str:
    """``1/3`` for a third, as the paper's axes have it."""
    return str(Fraction(exponent).limit_denominator(64))
