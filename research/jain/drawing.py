"""The figure of this paper: population error of several methods against epsilon."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from fedboard.simulations.drawing.svg import DASHES, MARKERS, SERIES, LineEnd, label_line_ends, new_figure


def key_of(number: float) -> str:
    """How an epsilon, or another number, is named in results."""
    return f"{number:g}"


def errors_against_epsilon(
    errors: Mapping[str, Mapping[str, float]],
    epsilons: Sequence[float],
    names: Mapping[str, str],
    *,
    title: str,
) -> Figure:
    """A line for each method, on logarithmic axes.

    Args:
        errors: mean squared errors by method and ``key_of`` epsilon.
        epsilons: where.
        names: which methods, and what their lines are called.
        title: of the figure.
    """
    figure = new_figure(7.6, 3.8)
    axes = figure.subplots()
    ends = []
    for place, (method, name) in enumerate(names.items()):
        values = [errors[method][key_of(epsilon)] for epsilon in epsilons]
        axes.plot(epsilons, values, color=SERIES[place], marker=MARKERS[place], linestyle=DASHES[place])
        ends.append(LineEnd(height=values[-1], text=name, colour=SERIES[place]))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda error, _: f"{error:g}"))
    axes.set_xticks(epsilons, [key_of(epsilon) for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("epsilon per user")
    axes.set_ylabel("population mean squared error")
    axes.set_title(title)
    label_line_ends(axes, ends)
    return figure
