"""Panels of lines: how the experiments draw nearly everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from research.shared.drawing import DASHES, MARKERS, MUTED, SERIES, LineEnd, label_line_ends, new_figure

EXPONENTS = (0.0, 1 / 8, 1 / 4, 1 / 3, 1 / 2, 1.0)
"""mu of weights, in the figures that go through several."""
_WIDTH, _HEIGHT, _COLUMNS = 4.6, 3.1, 3
_MOST_MARKERS = 24
_LABELLED = (1.0, 2.0, 5.0)
"""Multiples of a power of ten that a logarithmic axis names."""
Line = tuple[Sequence[float], Sequence[float]]
"""Places across, and heights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One set of axes."""

    title: str
    lines: Mapping[str, Sequence[float | None]]
    """By name, a value for each of its places; None where there is none."""
    places: Sequence[float] | Mapping[str, Sequence[float]] = ()
    """Of all lines, or of each by its name."""
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


def line_panels(panels: Mapping[str, Mapping[str, Line]], *, across: str, up: str, log: str = "") -> Figure:
    """Panels by title that have their axes alike; ``log`` names those that are logarithmic, "x", "y" or "xy"."""
    return draw_panels(
        [
            Panel(
                title=title,
                lines={name: heights for name, (_, heights) in lines.items()},
                places={name: places for name, (places, _) in lines.items()},
                across=across,
                up=up,
                log="y" in log,
                log_across="x" in log,
            )
            for title, lines in panels.items()
        ]
    )


def _draw(axes: Axes, panel: Panel) -> None:
    places: Sequence[float] | Mapping[str, Sequence[float]] = panel.places
    if panel.ticks is not None:
        places = range(len(panel.ticks))
        axes.set_xticks(places, list(panel.ticks))
    ends = []
    for number, (name, values) in enumerate(panel.lines.items()):
        own = places[name] if isinstance(places, Mapping) else places
        known = [(x, y) for x, y in zip(own, values, strict=True) if y is not None]
        if not known:
            continue
        style = number % len(SERIES)
        marker = MARKERS[style] if len(known) <= _MOST_MARKERS else ""
        axes.plot(*zip(*known, strict=True), color=SERIES[style], marker=marker, linestyle=DASHES[style])
        ends.append(LineEnd(height=known[-1][1], text=name, colour=SERIES[style]))
    if panel.level is not None:
        axes.axhline(panel.level[1], color=MUTED, linewidth=1.0)
        ends.append(LineEnd(height=panel.level[1], text=panel.level[0], colour=MUTED))
    if panel.log:
        axes.set_yscale("log")
        _plain(axes.yaxis)
    if panel.log_across:
        axes.set_xscale("log")
        _plain(axes.xaxis)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.across)
    axes.set_ylabel(panel.up)
    label_line_ends(axes, ends)


def _plain(axis: Axis) -> None:
    """Name places of a logarithmic axis by their numbers: formulas are not set here."""
    axis.set_major_locator(LogLocator(subs=_LABELLED, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}" if at >= 1000 else f"{at:g}"))
    axis.set_minor_formatter(NullFormatter())


def as_text(exponent: float) -> str:
    """``1/3`` for a third, as the paper's axes have it."""
    return str(Fraction(exponent).limit_denominator(64))
