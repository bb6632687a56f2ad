"""How numbers and names are written: the same in tables, in captions and on axes."""

import math
from collections.abc import Iterable
from itertools import pairwise

from fedboard.simulations.judging.metrics.metric import Better, Metric, RatingMetric
from fedboard.simulations.judging.metrics.registry import METRICS, PARTS, metric_of

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
    for short in (m for m in METRICS if m.label.lower() == m.name):  # abbreviations, such as NDCG
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


def capital(text: str) -> str:
    """Begins a sentence."""
    return text[:1].upper() + text[1:]


def _unit_of(metric: Metric) -> str:
    if isinstance(metric, RatingMetric):
        return f" ({metric.unit})" if metric.unit else ""
    return "@k"


def reading_order(names: Iterable[str]) -> list[str]:
    """Metric names without repeats: final ones before validation, in the order of the registry, then the rest."""
    unique = dict.fromkeys(names)

    def place(name: str) -> tuple[bool, int]:
        metric = metric_of(name)
        return name.startswith("validation"), len(METRICS) if metric is None else METRICS.index(metric)

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


def number(value: float | None, digits: int = 4) -> str:
    """A number with that many significant digits, without needless exponents; a dash for None.

    Large whole numbers are written out in groups of three; very small ones as ``1e-05``.
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}".replace(",", "\u202f")
    if abs(value) < 1e-3:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.0f}" if value == int(value) else f"{value:.{decimals}f}"


def setting(value: float) -> str:
    """A number that a person chose, as she wrote it: 2.5, 20, 1e-05."""
    return f"{value:.10g}"


def fixed(value: float | None, decimals: int = 4) -> str:
    """A number with a fixed count of decimals, so that a column lines up; a dash for None."""
    return "–" if value is None else f"{value:.{decimals}f}"


def percent(share: float | None, decimals: int = 1) -> str:
    """A share of one as a percentage; a dash for None, ``< 0.1 %`` for what would round to nothing."""
    if share is None:
        return "–"
    smallest = 10.0**-decimals
    if 0 < 100 * share < smallest / 2:
        return f"< {smallest:g} %"
    return f"{100 * share:.{decimals}f} %"


def byte_count(count: float | None) -> str:
    """A number of bytes in the binary unit that fits it; a dash for None."""
    if count is None:
        return "–"
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def duration(seconds: float | None) -> str:
    """Seconds as ``12.3 s``, ``4 min 10 s`` or ``2 h 05 min``; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


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


def listing(parts: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _count(value: float) -> str:
    if abs(value) < 10_000:
        return f"{value:.0f}"
    return f"{value / 1000:.3g}k"
