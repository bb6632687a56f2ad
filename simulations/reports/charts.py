"""The charts that only a simulation has: metrics over rounds, head and tail, few ratings and many."""

from collections.abc import Iterable, Sequence

from fedboard.common.reports.charts import Chart, Line, Scale, chart
from fedboard.common.reports.wording import (
    JsonObject,
    fixed,
    number,
    number_or_none,
    object_or_empty,
)
from fedboard.simulations.evaluation.metrics.registry import main_metrics
from fedboard.simulations.reports.run_files import Model
from fedboard.simulations.reports.wording import bucket_names, direction, metric_label, reading_order

_MOST_METRICS, _MOST_LINES = 3, 6
_ALONG_ITEMS = "items by popularity, as many in each (ratings per item below)"
_ALONG_USERS = "users by activity, as many in each (ratings per user below)"
_OF_ITEMS = ("the least rated items", "the most rated")
_OF_USERS = ("users with the fewest ratings", "those with the most")

Points = list[tuple[float, float]]


def metric_charts(rounds: Sequence[JsonObject], baselines: Sequence[Model]) -> list[Chart]:
    """Each metric over the rounds, beside models without privacy; the first few metrics."""
    judged = [object_or_empty(entry.get("metrics")) for entry in rounds]
    names = reading_order(name for metrics in judged for name in metrics)
    series = {name: _points(rounds, (metrics.get(name) for metrics in judged)) for name in names}
    shown = [(name, points) for name, points in series.items() if points]
    return [_metric_chart(name, points, baselines) for name, points in shown[:_MOST_METRICS]]


def _metric_chart(name: str, points: Points, baselines: Sequence[Model]) -> Chart:
    reached = {model.name: model.metrics[name] for model in baselines if name in model.metrics}
    levels = [
        Line(name=f"{other} {fixed(value)}", points=[(points[0][0], value)], level=True)
        for other, value in reached.items()
    ]
    (first_board, first), (last_board, last) = points[0], points[-1]
    reading = f"{metric_label(name)} is {fixed(first)} at board {number(first_board)}."
    if len(points) > 1:
        reading = (
            f"{metric_label(name)} goes from {fixed(first)} at board {number(first_board)} to {fixed(last)} "
            f"at board {number(last_board)} ({direction(name)})."
        )
    return chart(
        [Line(name="this run", points=points), *levels[: _MOST_LINES - 1]],
        slug=f"rounds-{_slug(name)}",
        title=f"Held-out metrics after each round: {metric_label(name)}",
        reading=reading,
        held_out=True,
        x=Scale(label="board", whole=True),
        y=Scale(label=metric_label(name)),
    )


def _points(rounds: Sequence[JsonObject], values: Iterable[object]) -> Points:
    """(number of the board that a round ended with, value); round 0 ends with board 1."""
    pairs = [
        (number_or_none(entry.get("round")), number_or_none(value))
        for entry, value in zip(rounds, values, strict=True)
    ]
    return [(place + 1, value) for place, value in pairs if place is not None and value is not None]


def slice_charts(run: Model, baselines: Sequence[Model], edges: list[float | None]) -> list[Chart]:
    """One chart for each metric that the run states per bucket of items.

    Args:
        run: the run's own metrics.
        baselines: models to draw beside it; those without the metric are left out.
        edges: training counts between which the buckets lie, n_buckets + 1 numbers, or empty.
    """
    return [
        _sliced(
            metric,
            [(model.name, model.sliced[metric]) for model in (run, *baselines) if metric in model.sliced],
            bucket_names(edges, len(values)),
            kind="slices",
            title="by item popularity",
            along=_ALONG_ITEMS,
            of=_OF_ITEMS,
        )
        for metric, values in run.sliced.items()
    ]


def activity_charts(run: Model, baselines: Sequence[Model], edges: list[float | None]) -> list[Chart]:
    """One chart of the metric that decides, by how many ratings a user is known by; none where it is not stated.

    Args:
        run: the run's own metrics.
        baselines: models to draw beside it; those without the metric are left out.
        edges: numbers of ratings between which the groups lie, n_groups + 1 numbers, or empty.
    """
    metric = next((name for name in main_metrics("test") if name in run.by_activity), None)
    if metric is None:
        return []
    values = run.by_activity[metric]
    lines = [
        (model.name, model.by_activity[metric]) for model in (run, *baselines) if metric in model.by_activity
    ]
    names = bucket_names(edges, len(values), ends=("few", "many"))
    title = "by users' activity"
    return [_sliced(metric, lines, names, kind="activity", title=title, along=_ALONG_USERS, of=_OF_USERS)]


def _sliced(
    metric: str,
    lines: Sequence[tuple[str, list[float | None]]],
    names: Sequence[str],
    *,
    kind: str,
    title: str,
    along: str,
    of: tuple[str, str],
) -> Chart:
    own = lines[0][1]
    fitting = [(name, values) for name, values in lines if len(values) == len(own)][:_MOST_LINES]
    reading = f"{metric_label(metric)} is {fixed(own[0])} on {of[0]} and {fixed(own[-1])} on {of[1]}"
    reading += f" ({direction(metric)})"
    if len(fitting) > 1:
        other, values = fitting[1]
        reading += f"; {other} has {fixed(values[0])} and {fixed(values[-1])}"
    drawn = [
        Line(name=name, points=[(float(k), value) for k, value in enumerate(values) if value is not None])
        for name, values in fitting
    ]
    return chart(
        drawn,
        slug=f"{kind}-{_slug(metric)}",
        title=f"{metric_label(metric)} {title}",
        reading=f"{reading}.",
        held_out=True,
        x=Scale(label=along, names=names),
        y=Scale(label=metric_label(metric), zero=direction(metric).startswith("higher")),
    )


def _slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)
