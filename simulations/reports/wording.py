"""How metrics are called: the same in tables, in captions and on axes."""

from collections.abc import Iterable
from itertools import pairwise

from fedboard.common.reports.wording import capital
from fedboard.simulations.evaluation.metrics.metric import Better, Metric, RatingMetric
from fedboard.simulations.evaluation.metrics.registry import PARTS, known_metrics, metric_of

_COSTS = ("loss", "seconds", "error")
"""What is no metric of its own, and the better the less there is of it."""


def metric_label(name: str) -> str:
    """A metric's name as a person writes it: ``test_rmse`` -> ``Test RMSE (stars)``."""
    split, _, rest = name.partition("_")
    if rest and split in PARTS:
        return f"{PARTS[split].capitalize()} {_label(rest)}"
    label = _label(name)
    return label[:1].upper() + label[1:]


def metric_column(name: str) -> str:
    """The same where there is no room: ``test_rmse`` -> ``test RMSE``; lists as they are, ``recall@20``."""
    split, _, rest = name.partition("_")
    metric = metric_of(rest) if split in PARTS else None
    return name if metric is None or metric.name != rest else f"{PARTS[split]} {metric.label}"


def _label(name: str) -> str:
    """Without the part that is held out."""
    kind, at, length = name.partition("@")
    metric = metric_of(name)
    if metric is not None and metric.name == kind:
        if isinstance(metric, RatingMetric):
            return f"{metric.label} ({metric.unit})" if metric.unit else metric.label
        return f"{metric.label}{at}{length}" if at else metric.sliced_label or metric.label
    label = "time (s)" if name == "seconds" else name.replace("_", " ")
    for short in (m for m in known_metrics() if m.label.lower() == m.name):  # abbreviations, such as NDCG
        label = label.replace(short.name, short.label)
    return label


def definitions(names: Iterable[str], *, of_labels: bool = False) -> list[str]:
    """What the metrics of these records are, a sentence each, in reading order.

    Args:
        names: of metrics.
        of_labels: of a run on examples: it predicts labels in place of ratings.
    """
    found = dict.fromkeys(metric for name in reading_order(names) if (metric := metric_of(name)) is not None)
    return [
        f"{capital(metric.label)}{_unit_of(metric)}: {metric.means} ({direction(metric.name)})."
        if not of_labels
        else f"{capital(metric.label)}: {metric.means.replace('ratings', 'labels')} ({direction(metric.name)})."
        for metric in found
        if metric.means
    ]


def _unit_of(metric: Metric) -> str:
    if isinstance(metric, RatingMetric):
        return f" ({metric.unit})" if metric.unit else ""
    return "@k"


def reading_order(names: Iterable[str]) -> list[str]:
    """Metric names without repeats: final ones before validation, in the order of the registry, then the rest."""
    unique, known = dict.fromkeys(names), known_metrics()

    def place(name: str) -> tuple[bool, int]:
        metric = metric_of(name)
        return name.startswith("validation"), len(known) if metric is None else known.index(metric)

    return sorted(unique, key=place)


def lower_is_better(metric: str) -> bool:
    """Whether a smaller value of this metric is the better one; errors are, recall and overlap are not."""
    known = metric_of(metric)
    if known is not None:
        return known.better is Better.LOWER
    return any(word in metric.lower() for word in _COSTS)


def direction(metric: str) -> str:
    """``lower is better`` or ``higher is better``."""
    return "lower is better" if lower_is_better(metric) else "higher is better"


def arrow(metric: str) -> str:
    """The direction as a sign for table heads: ``↓`` lower is better, ``↑`` higher is better."""
    return "↓" if lower_is_better(metric) else "↑"


def bucket_names(
    edges: list[float | None], n_buckets: int, *, ends: tuple[str, str] = ("tail", "head")
) -> list[str]:
    """Axis names of the buckets, with the range of counts where it is known; ``ends`` name the first and last."""
    names = [f"{bucket}" for bucket in range(n_buckets)]
    names[0], names[-1] = f"{names[0]} ({ends[0]})", f"{names[-1]} ({ends[1]})"
    if len(edges) != n_buckets + 1 or any(edge is None for edge in edges):
        return names
    bounds = [edge for edge in edges if edge is not None]
    ranges = [f"{_count(low)}–{_count(high)}" for low, high in pairwise(bounds)]
    return [f"{name}\n{counts}" for name, counts in zip(names, ranges, strict=True)]


def _count(value: float) -> str:
    if abs(value) < 10_000:
        return f"{value:.0f}"
    return f"{value / 1000:.3g}k"
