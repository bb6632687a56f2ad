"""What is recommended, whoever likes it: coverage and Gini index of all lists together, novelty of their items.

None of them says whether anybody is served well: lists drawn at random cover the most, are the most even and the
most novel. They are read beside a metric of what was found. Coverage and Gini depend on how many lists there are,
so they compare models on one split, not splits. They look at the lists of all users at once, novelty at exact
training counts: not private, for judging simulations only.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.simulations.evaluation.metrics.metric import Better, JudgedLists, ListMetric, Means


def covered(times: IntArray) -> float:
    """Coverage@k: share of the catalogue that is among the first k of at least one list.

    Args:
        times: how often each item is listed; int64, shape (n_items,).

    Reference: M. Ge, C. Delgado-Battenfeld, D. Jannach (2010), Beyond accuracy: evaluating recommender systems by
    coverage and serendipity (catalogue coverage).
    """
    return float(np.count_nonzero(times) / times.size)


def unevenness(times: IntArray) -> float:
    """Gini index of how often each item of the catalogue is among the first k of a list.

    With c the times that the n items are listed, ascending, and j from 1: sum (2 j - n - 1) c_j / (n sum c). 0
    where all items are listed equally often, 1 - 1 / n where one item has every place, NaN where all lists are
    empty.

    Args:
        times: how often each item is listed; int64, shape (n_items,).

    Reference: P. Castells, N. Hurley, S. Vargas (2015), Novelty and diversity in recommender systems, Recommender
    Systems Handbook, chapter 26 (there over n - 1, so that it ends at 1; here the index itself).
    """
    ascending = np.sort(times).astype(np.float64)
    n_items, listed = ascending.size, float(ascending.sum())
    if listed == 0:
        return float("nan")
    return float((2 * np.arange(1, n_items + 1) - n_items - 1) @ ascending / (n_items * listed))


class TimesListed:
    """How often each item is among the first k, and a number that follows from it."""

    def __init__(self, of_times: Callable[[IntArray], float], *, k: int, n_groups: int) -> None:
        """Nothing seen yet; ``of_times`` is a function of a module."""
        self._of_times, self._k, self._n_groups = of_times, k, n_groups
        self._times: IntArray | None = None

    def add(self, seen: JudgedLists) -> None:
        """Take in a block of users."""
        first, n_items = seen.lists[:, : self._k], seen.targets.n_items
        cells = seen.groups.astype(np.int64)[:, None] * n_items + first
        times = np.bincount(cells[first >= 0], minlength=self._n_groups * n_items)
        self._take(times.reshape(self._n_groups, n_items))

    def merge(self, other: "TimesListed") -> None:
        """Take in another's."""
        if other._times is not None:
            self._take(other._times)

    def value(self) -> float:
        """Of the lists of all users."""
        return float("nan") if self._times is None else self._of_times(self._times.sum(axis=0))

    def values(self) -> FloatArray:
        """Of the lists of each group alone."""
        if self._times is None:
            return np.full(self._n_groups, np.nan)
        return np.array([self._of_times(times) for times in self._times])

    def _take(self, times: IntArray) -> None:
        if self._times is None:
            self._times = times
        else:
            self._times += times


class Surprise(Means):
    """Novelty@k: how little was to be expected of the items on the lists, in bits: mean of -log2 p(item).

    p(item) is its share of all training ratings, (count + 1) / (sum of counts + n_items); the 1 gives items that
    nobody rated a finite value. First the mean over each list, then over the users whose list is not empty.

    Reference: S. Vargas, P. Castells (2011), Rank and relevance in novelty and diversity metrics for recommender
    systems (expected free discovery, without discounts; the 1 that is added is ours).
    """

    def __init__(self, *, k: int, n_groups: int) -> None:
        """Nothing seen yet."""
        super().__init__(n_groups)
        self._k = k

    def add(self, seen: JudgedLists) -> None:
        """Take in a block of users."""
        first, counts = seen.lists[:, : self._k], seen.counts
        bits = np.log2(float(counts.sum()) + counts.size) - np.log2(counts + 1.0)
        listed = first >= 0
        lengths = listed.sum(axis=1)
        sums = np.where(listed, bits[first], 0.0).sum(axis=1)
        asked = lengths > 0
        self.add_values(sums[asked] / lengths[asked], seen.groups[asked])


METRICS = (
    ListMetric(
        name="coverage",
        label="coverage",
        means="the share of the catalogue that is among the first k of anybody's list",
        better=Better.HIGHER,
        at=(20,),
        of=partial(TimesListed, covered),
    ),
    ListMetric(
        name="novelty",
        label="novelty",
        means="how rarely the items on the lists were rated in training, in bits; most for lists drawn at random",
        better=Better.HIGHER,
        at=(20,),
        of=Surprise,
    ),
    ListMetric(
        name="gini",
        label="Gini",
        means="how unevenly the lists spread over the catalogue: 0 if all items are listed equally often",
        better=Better.LOWER,
        at=(20,),
        of=partial(TimesListed, unevenness),
    ),
)
