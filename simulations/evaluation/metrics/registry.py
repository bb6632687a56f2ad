"""The metrics that runs state, in the order in which they are read.

One of your own is a ``RatingMetric`` or ``ListMetric`` that ``run.metrics`` names as ``path/to/file.py:NAME``, or
that an installed package brings under the entry points ``fedboard.metrics``.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Final

from fedboard.common.algorithms.shared.brought import entries_of, loaded
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics import beyond_accuracy, ranking, rating
from fedboard.simulations.evaluation.metrics.metric import ListMetric, Metric, RatingMetric
from fedboard.simulations.own_code import is_own, own_object

PARTS: Final = {"test": "test", "validation": "validation", "train": "training"}
"""What a metric is judged on, in records and for people."""
METRICS: Final[tuple[Metric, ...]] = (*rating.METRICS, *ranking.METRICS, *beyond_accuracy.METRICS)
"""In reading order; of each kind of feedback the first decides."""
RATING_METRICS: Final = tuple(metric for metric in METRICS if isinstance(metric, RatingMetric))
LIST_METRICS: Final = tuple(metric for metric in METRICS if isinstance(metric, ListMetric))
ENTRY_POINTS: Final = "fedboard.metrics"
"""Under which other packages bring theirs: each names a ``RatingMetric`` or ``ListMetric``."""
_OTHERS: dict[str, Metric] = {}
"""By name, those of others that this process has judged by: so that they have labels."""


def metrics_of(own: Sequence[str] = ()) -> tuple[Metric, ...]:
    """All by which models are judged: those of this package first, then what other packages bring.

    Args:
        own: more, each as ``package.module:NAME`` or ``path/to/file.py:NAME``, whose code then runs.

    Raises:
        InputError: one cannot be loaded, is no metric, or has the name of another.
    """
    brought = entries_of(ENTRY_POINTS, entry_points)
    others = [_checked(loaded(found, "metric"), name) for name, found in brought.items()]
    for choice in own:
        if not is_own(choice):
            raise InputError(f"run.metrics: name each as path/to/file.py:NAME, got {choice!r}")
        others.append(_checked(own_object(choice, "metric"), choice))
    names = [metric.name for metric in (*METRICS, *others)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"two metrics have the name {twice[0]!r}; give yours another")
    _OTHERS.update((metric.name, metric) for metric in others)
    return (*METRICS, *others)


def _checked(found: object, name: str) -> Metric:
    if not isinstance(found, RatingMetric | ListMetric):
        raise InputError(
            f"metric {name!r} must be a RatingMetric or ListMetric record, got {type(found).__name__}; see "
            "docs/guide/extending.md"
        )
    return found


def known_metrics() -> tuple[Metric, ...]:
    """Those of this package, and of others as far as this process has judged by them; in reading order."""
    return (*METRICS, *_OTHERS.values())


def main_metric(feedback: Feedback, part: str) -> str:
    """The metric that a run or search is about unless told, as records name it.

    Args:
        feedback: what a rating says.
        part: ``validation`` or ``test``.
    """
    of_kind = RATING_METRICS if feedback is Feedback.EXPLICIT else LIST_METRICS
    return of_kind[0].names(part)[0]


def metric_names(feedback: Feedback, part: str) -> tuple[str, ...]:
    """All that a run states of this feedback, as records name them.

    Args:
        feedback: what a rating says.
        part: ``validation`` or ``test``.
    """
    kind = RatingMetric if feedback is Feedback.EXPLICIT else ListMetric
    return tuple(name for metric in metrics_of() if isinstance(metric, kind) for name in metric.names(part))


def main_metrics(part: str) -> tuple[str, ...]:
    """The same of each kind of feedback: of any one run one of them is there."""
    return tuple(main_metric(feedback, part) for feedback in Feedback)


def metric_of(name: str) -> Metric | None:
    """The metric that a name in a record is of: ``test_rmse``, ``recall@50``, also ``als_rmse``; else None."""
    asked = name.lower()
    part, _, rest = asked.partition("_")
    own = (rest if part in PARTS else asked).partition("@")[0]
    exact = (metric for metric in known_metrics() if metric.name == own)
    return next(exact, None) or next((metric for metric in known_metrics() if metric.name in asked), None)
