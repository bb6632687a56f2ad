"""How figures of papers are drawn: matplotlib without pyplot, as SVG and PNG."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from fedboard.common.arrays import FloatArray

INK, MUTED, GRID, SURFACE = "#1b1e23", "#5d646e", "#d9dde3", "#fefefd"
SERIES = ("#0072b2", "#c44e00", "#007f5f", "#a2478a", "#7a6200", "#4c5b70")
"""Blue, vermilion, green, purple, olive, slate: apart for the colour-blind, dark enough for text on white."""
_PNG_DOTS_PER_INCH = 160
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 2)), (0, (6, 2, 1, 2)), (0, (1.5, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "fedboard",
    "text.color": INK,
    # Names come from files: a dollar sign in one is a dollar sign.
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}
_LABEL_POINTS = 12.0
_LABEL_AWAY = 17.0
"""Points from the end of a line to its label; a thin line leads there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineEnd:
    """A direct label: which line, at which height, in which colour."""

    height: float
    """In data units of the axes."""
    text: str
    colour: str


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and write inside this: sets matplotlib's options and puts the caller's back afterwards."""
    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, laid out so that outside labels fit; no pyplot knows of it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def label_line_ends(axes: Axes, ends: Sequence[LineEnd]) -> None:
    """Write each line's name at its right end, pushed apart where they would overlap.

    Call after everything is drawn: it freezes the vertical limits.
    """
    if not ends:
        return
    axes.set_ylim(axes.get_ylim())
    to_fraction = axes.transScale + axes.transLimits
    heights = np.array([to_fraction.transform((axes.get_xlim()[0], end.height))[1] for end in ends])
    tall = _height_points(axes)
    for end, height, placed in zip(ends, heights, spread_apart(heights, _LABEL_POINTS / tall), strict=True):
        axes.annotate(
            end.text,
            xy=(1.0, end.height),
            xycoords=axes.get_yaxis_transform(),
            xytext=(_LABEL_AWAY, (placed - height) * tall),
            textcoords="offset points",
            color=end.colour,
            va="center",
            fontsize=8.5,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": end.colour, "linewidth": 0.6, "shrinkA": 2, "shrinkB": 2},
        )


def spread_apart(positions: FloatArray, gap: float) -> list[float]:
    """Move positions as little as a simple sweep can so that neighbours are at least ``gap`` apart.

    Overlapping neighbours form a block, which is centred on the mean of what its members asked for.
    """
    order = np.argsort(positions, kind="stable")
    blocks: list[list[int]] = []
    for index in order:
        blocks.append([int(index)])
        while len(blocks) > 1 and _top(positions, blocks[-2], gap) + gap > _bottom(
            positions, blocks[-1], gap
        ):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    placed = [0.0] * len(positions)
    for block in blocks:
        for place, index in enumerate(block):
            placed[index] = _bottom(positions, block, gap) + place * gap
    return placed


def settle(figure: Figure) -> None:
    """Lay the figure out once and for all, so that writing it in several formats does not repeat that."""
    figure.draw_without_rendering()
    figure.set_layout_engine(
        None
    )  # "none" would leave a placeholder, for which writing draws everything twice


def pictures(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as ``stem.svg`` and ``stem.png``."""
    paths = [stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")]
    settle(figure)
    figure.savefig(paths[0], facecolor="white", metadata={"Date": None})
    figure.savefig(paths[1], facecolor="white", dpi=_PNG_DOTS_PER_INCH)
    return paths


def _height_points(axes: Axes) -> float:
    """Height of the axes in points before the layout, near enough to space labels without laying out twice."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("axes must belong to a figure")
    return float(72 * axes.get_position().height * figure.get_size_inches()[1])


def _bottom(positions: FloatArray, block: list[int], gap: float) -> float:
    return float(np.mean(positions[block])) - gap * (len(block) - 1) / 2


def _top(positions: FloatArray, block: list[int], gap: float) -> float:
    return _bottom(positions, block, gap) + gap * (len(block) - 1)
