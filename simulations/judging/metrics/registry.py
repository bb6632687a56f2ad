"""The metrics that runs state, in the order in which they are read: one line for each file that computes some."""

from importlib import import_module
from typing import Final

from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.judging.metrics.metric import ListMetric, Metric, RatingMetric

_FILES = (
    "rating",
    "ranking",
    "first_hits",
    "beyond_accuracy",
)
"""Files beside this one, each with its ``METRICS``. Of each kind of feedback the first metric decides."""

PARTS: Final = {"test": "test", "validation": "validation", "train": "training"}
"""What a metric is judged on, in records and for people."""
METRICS: Final[tuple[Metric, ...]] = tuple(
    metric
    for file in _FILES
    for metric in import_module(f"fedboard.simulations.judging.metrics.{file}").METRICS
)
RATING_METRICS: Final = tuple(metric for metric in METRICS if isinstance(metric, RatingMetric))
LIST_METRICS: Final = tuple(metric for metric in METRICS if isinstance(metric, ListMetric))


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
    of_kind: tuple[Metric, ...] = RATING_METRICS if feedback is Feedback.EXPLICIT else LIST_METRICS
    return tuple(name for metric in of_kind for name in metric.names(part))


def main_metrics(part: str) -> tuple[str, ...]:
    """The same of each kind of feedback: of any one run one of them is there."""
    return tuple(main_metric(feedback, part) for feedback in Feedback)


def metric_of(name: str) -> Metric | None:
    """The metric that a name in a record is of: ``test_rmse``, ``recall@50``, also ``als_rmse``; else None."""
    asked = name.lower()
    part, _, rest = asked.partition("_")
    own = (rest if part in PARTS else asked).partition("@")[0]
    exact = (metric for metric in METRICS if metric.name == own)
    return next(exact, None) or next((metric for metric in METRICS if metric.name in asked), None)
