"""Rating prediction: root mean squared error and mean absolute error, overall and per popularity bucket."""

from collections.abc import Callable
from functools import partial

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.simulations.evaluation.metrics.metric import Better, JudgedRatings, Means, RatingMetric


class ErrorMeans(Means):
    """Means of a function of the errors; by group of users, or by bucket of items."""

    def __init__(
        self,
        n_groups: int,
        *,
        each: Callable[[FloatArray], FloatArray],
        of_mean: Callable[[FloatArray], FloatArray] = np.positive,
        by_item: bool = False,
    ) -> None:
        """Nothing seen yet.

        Args:
            n_groups: or buckets, where ``by_item``.
            each: of errors, in stars; a function of a module.
            of_mean: makes the metric of a mean; likewise.
            by_item: whether ratings are told apart by their items.
        """
        super().__init__(n_groups)
        self._each, self._of_mean, self._by_item = each, of_mean, by_item

    def add(self, seen: JudgedRatings) -> None:
        """Take in a block of users."""
        values = self._each(seen.predicted - seen.actual)
        self.add_values(values, seen.buckets if self._by_item else seen.groups)

    def value(self) -> float:
        """Of all ratings."""
        return float(self._of_mean(np.array(super().value())))

    def values(self) -> FloatArray:
        """Of each group or bucket."""
        return self._of_mean(super().values())


_rmse = partial(ErrorMeans, each=np.square, of_mean=np.sqrt)

METRICS = (
    RatingMetric(
        name="rmse",
        label="RMSE",
        unit="stars",
        means="how far predictions are from held-out ratings: root mean square, so that large errors weigh more",
        better=Better.LOWER,
        of=_rmse,
        sliced=partial(_rmse, by_item=True),
    ),
    RatingMetric(
        name="mae",
        label="MAE",
        unit="stars",
        means="how far predictions are from held-out ratings, on average",
        better=Better.LOWER,
        of=partial(ErrorMeans, each=np.abs),
    ),
)
