"""Where in the list the finds are: mean reciprocal rank and mean average precision."""

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.evaluation.metrics.metric import Better, ListMetric, of_hits
from fedboard.simulations.evaluation.metrics.ranking import mean_over_users


def mrr_at_k(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    """MRR@k: mean over users of 1 / place of the first held-out item of the list, 0 where the first k hold none.

    Places count from 1. Users without held-out items are left out of the mean. Arguments and errors as in
    ``recall_at_k``.

    Returns:
        In [0, 1]. Not private: simulation only.

    Reference: E. M. Voorhees (1999), The TREC-8 question answering track report.
    """
    return mean_over_users(reciprocal_ranks, recommended, targets, k)


def map_at_k(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    """MAP@k: mean over users of the average precision of their first k.

    AP = (sum over the places r = 1..k that hold a held-out item of hits among the first r / r) / min(k, |target|):
    1 where held-out items fill the list, or all come first. Some divide by |target| instead, which no list of k
    can make 1 for a user with more. Users without held-out items are left out of the mean. Arguments and errors
    as in ``recall_at_k``.

    Returns:
        In [0, 1]. Not private: simulation only.

    Reference: C. D. Manning, P. Raghavan, H. Schuetze (2008), Introduction to information retrieval, section 8.4.
    """
    return mean_over_users(average_precisions, recommended, targets, k)


def reciprocal_ranks(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """1 / place of each user's first hit, 0 without one; as ``mrr_at_k`` averages them."""
    return np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0)


def average_precisions(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """Average precision of each user's list; as ``map_at_k`` averages them."""
    k = hits.shape[1]
    precision = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    found: FloatArray = np.where(hits, precision, 0.0).sum(axis=1) / np.minimum(held_out, k)
    return found


METRICS = (
    ListMetric(
        name="mrr",
        label="MRR",
        means="one over the place of the first held-out item on a user's list, 0 where her first k have none",
        better=Better.HIGHER,
        at=(10,),
        of=of_hits(reciprocal_ranks),
    ),
    ListMetric(
        name="map",
        label="MAP",
        means="the precision of the list down to each held-out item on it, averaged over those that it could hold",
        better=Better.HIGHER,
        at=(10,),
        of=of_hits(average_precisions),
    ),
)
