"""Head and tail: metrics per popularity bucket and by users' activity, with the baselines beside."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from fedboard.simulations.drawing.figures import Plot, finish
from fedboard.simulations.drawing.svg import DASHES, MARKERS, SERIES, LineEnd, label_line_ends, new_figure
from fedboard.simulations.drawing.table import Table
from fedboard.simulations.drawing.wording import bucket_names, direction, fixed, lower_is_better, metric_label
from fedboard.simulations.judging.metrics.registry import main_metrics
from fedboard.simulations.report.run_files import Model

_MOST_LINES = len(SERIES)
_ALONG_ITEMS = "items sorted by training ratings, equal number of items per bucket (ratings per item below)"
_ALONG_USERS = "users sorted by known ratings, equal number of users per group (ratings per user below)"
_OF_ITEMS = ("the least rated items", "the most rated")

Line = tuple[str, list[float | None]]


def slice_plots(run: Model, baselines: Sequence[Model], edges: list[float | None]) -> list[Plot]:
    """One figure for each metric that the run states per bucket.

    Args:
        run: the run's own metrics.
        baselines: models to draw beside it; those without the metric are left out.
        edges: training counts between which the buckets lie, n_buckets + 1 numbers, or empty.
    """
    return [_slice_plot(name, values, baselines, edges) for name, values in run.sliced.items()]


def _slice_plot(
    metric: str, values: list[float | None], baselines: Sequence[Model], edges: list[float | None]
) -> Plot:
    lines: list[Line] = [("this run", values)]
    lines += [(model.name, model.sliced[metric]) for model in baselines if metric in model.sliced]
    lines = [line for line in lines if len(line[1]) == len(values)][:_MOST_LINES]
    names = bucket_names(edges, len(values))
    figure = new_figure(7.4, 3.2)
    draw_slices(figure.add_subplot(), metric, lines, names)
    return finish(
        figure,
        slug=f"slices-{_slug(metric)}",
        title=f"{metric_label(metric)} by item popularity",
        reading=_reading(metric, lines),
        held_out=True,
        table=_table(lines, names),
    )


def activity_plots(run: Model, baselines: Sequence[Model], edges: list[float | None]) -> list[Plot]:
    """One figure of the metric that decides, by how many ratings a user is known by; none where it is not stated.

    Args:
        run: the run's own metrics.
        baselines: models to draw beside it; those without the metric are left out.
        edges: numbers of ratings between which the groups lie, n_groups + 1 numbers, or empty.
    """
    metric = next((name for name in main_metrics("test") if name in run.by_activity), None)
    if metric is None:
        return []
    values = run.by_activity[metric]
    lines: list[Line] = [("this run", values)]
    lines += [(model.name, model.by_activity[metric]) for model in baselines if metric in model.by_activity]
    lines = [line for line in lines if len(line[1]) == len(values)][:_MOST_LINES]
    names = bucket_names(edges, len(values), ends=("few", "many"))
    figure = new_figure(7.4, 3.2)
    draw_slices(figure.add_subplot(), metric, lines, names, along=_ALONG_USERS)
    return [
        finish(
            figure,
            slug=f"activity-{_slug(metric)}",
            title=f"{metric_label(metric)} by users' activity",
            reading=_reading(metric, lines, of=("users with the fewest ratings", "those with the most")),
            held_out=True,
            table=_table(lines, names),
        )
    ]


def draw_slices(
    axes: Axes, metric: str, lines: Sequence[Line], names: Sequence[str], *, along: str = _ALONG_ITEMS
) -> None:
    """Draw one line per model over the buckets, named at its right end."""
    ends = []
    for place, (name, values) in enumerate(lines):
        style = place % len(SERIES)
        known = [(bucket, value) for bucket, value in enumerate(values) if value is not None]
        if not known:
            continue
        buckets, heights = zip(*known, strict=True)
        axes.plot(buckets, heights, color=SERIES[style], marker=MARKERS[style], linestyle=DASHES[style])
        ends.append(LineEnd(height=heights[-1], text=name, colour=SERIES[style]))
    axes.set_xticks(range(len(names)), list(names))
    axes.set_xlabel(along)
    axes.set_ylabel(f"{metric_label(metric)}\n{direction(metric)}")
    if not lower_is_better(metric):
        axes.set_ylim(bottom=0)
    label_line_ends(axes, ends)


def _reading(metric: str, lines: Sequence[Line], *, of: tuple[str, str] = _OF_ITEMS) -> str:
    own = lines[0][1]
    text = f"{metric_label(metric)} is {fixed(own[0])} on {of[0]} and {fixed(own[-1])} on {of[1]}"
    if len(lines) == 1:
        return f"{text} ({direction(metric)})."
    other, values = lines[1]
    return f"{text} ({direction(metric)}); {other} has {fixed(values[0])} and {fixed(values[-1])}."


def _table(lines: Sequence[Line], names: Sequence[str]) -> Table:
    return Table(
        headers=("Model", *(name.replace("\n", ": ") for name in names)),
        rows=tuple((name, *(fixed(value) for value in values)) for name, values in lines),
    )


def _slug(metric: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in metric)
