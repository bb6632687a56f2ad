"""Where in the list the finds are: mean reciprocal rank and mean average precision."""

import numpy as np

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.judging.metrics.metric import Better, ListMetric
from fedboard.simulations.judging.metrics.ranking import hits_at_k


def mrr_at_k(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    """MRR@k: mean over users of 1 / place of the first held-out item of the list, 0 where the first k hold none.

    Places count from 1. Users without held-out items are left out of the mean. Arguments and errors as in
    ``recall_at_k``.

    Returns:
        In [0, 1]. Not private: simulation only.

    Reference: E. M. Voorhees (1999), The TREC-8 question answering track report.
    """
    hits = hits_at_k(recommended, targets, k)
    first = np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0)
    return float(np.mean(first[targets.counts > 0]))


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
    hits = hits_at_k(recommended, targets, k)
    precision = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    asked = targets.counts > 0
    found = np.where(hits, precision, 0.0).sum(axis=1)
    return float(np.mean(found[asked] / np.minimum(targets.counts[asked], k)))


METRICS = (
    ListMetric(
        name="mrr",
        label="MRR",
        means="one over the place of the first held-out item on a user's list, 0 where her first k have none",
        better=Better.HIGHER,
        at=(10,),
        of=mrr_at_k,
    ),
    ListMetric(
        name="map",
        label="MAP",
        means="the precision of the list down to each held-out item on it, averaged over those that it could hold",
        better=Better.HIGHER,
        at=(10,),
        of=map_at_k,
    ),
)
