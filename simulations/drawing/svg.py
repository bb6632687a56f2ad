"""How every figure is drawn: matplotlib's SVG writer without pyplot, in colours that the page can change."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from fedboard.common.arrays import FloatArray
from fedboard.common.reports.charts import Chart
from fedboard.common.reports.table import Table

INK, MUTED, GRID, SURFACE = "#1b1e23", "#5d646e", "#d9dde3", "#fefefd"
SERIES = ("#0072b2", "#c44e00", "#007f5f", "#a2478a", "#7a6200", "#4c5b70")
"""Blue, vermilion, green, purple, olive, slate: apart for the colour-blind, dark enough for text on white."""
_PNG_DOTS_PER_INCH = 160
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 2)), (0, (6, 2, 1, 2)), (0, (1.5, 1.5)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))

_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", SURFACE: "--surface"} | {
    colour: f"--series-{place}" for place, colour in enumerate(SERIES)
}
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
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


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


def to_svg(figure: Figure, *, slug: str, description: str) -> str:
    """The figure as an SVG element for an HTML page, without anything that points outside.

    Text stays text; colours become CSS variables with the light colour as fall-back; ids get the slug as
    prefix, so that many figures can share a page.

    Args:
        figure: drawn under ``house_style``.
        slug: short name, unique on the page.
        description: one sentence for those who cannot see the figure.
    """
    buffer = io.StringIO()
    # Straight to the SVG writer: savefig would draw everything a second time to find the layout.
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata=_NO_METADATA)
    text = buffer.getvalue()
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(?:xmlns(?::xlink)?|version)="[^"]*"', "", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{slug}-', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{slug}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable}, {colour})")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


def finish(figure: Figure, *, slug: str, title: str, reading: str, held_out: bool, table: Table) -> Chart:
    """Turn a drawn figure into a chart of a page, and let go of it."""
    svg = to_svg(figure, slug=slug, description=f"{title}. {reading}")
    return Chart(slug=slug, title=title, reading=reading, held_out=held_out, svg=svg, key=(), table=table)


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
