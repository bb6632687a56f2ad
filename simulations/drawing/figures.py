"""A finished figure: what the page needs to show it, explain it and list its numbers."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from fedboard.simulations.drawing.svg import to_svg
from fedboard.simulations.drawing.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One figure of a page."""

    slug: str
    title: str
    reading: str
    """One sentence: what the figure shows in this run."""
    held_out: bool
    """Whether it shows something computed on private data outside the guarantee: then it is labelled so."""
    svg: str
    table: Table
    """The numbers behind the figure."""


def finish(figure: Figure, *, slug: str, title: str, reading: str, held_out: bool, table: Table) -> Plot:
    """Turn a drawn figure into SVG text and let go of it."""
    svg = to_svg(figure, slug=slug, description=f"{title}. {reading}")
    return Plot(slug=slug, title=title, reading=reading, held_out=held_out, svg=svg, table=table)
