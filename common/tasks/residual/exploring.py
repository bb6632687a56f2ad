"""Whether a round is to look for factors where there are none yet: from what is released and planned.

Post-processing, and what a round asks does not depend on it: it moves the budget between biases and factors.
"""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.update import USUAL_TRACE, ReleasedRound

_FACTORS_OVER_BIASES = 3.0  # in variance: directions that differ more than that are not looked for
_USUAL_TASTES = 0.3  # of a rating's variance: what factors may make of it
_LEAST_KNOWN = 0.5  # below it users' vectors are more noise than anything else


def share_known(variance: float, ratings_of_user: float) -> float:
    """How much of where a user stands her ratings tell, where factors make this much of a rating; in [0, 1).

    Reliability of what is fitted to them: one goes to her own bias, the others scatter around their predictions.

    Args:
        variance: of what factors make of a rating, in squared deviations of one.
        ratings_of_user: how many a user has.
    """
    told = max(ratings_of_user - 1.0, 0.0) * variance
    return told / (told + 1.0)


def worth_measuring(
    bias_variance: float,
    weighted_counts: FloatArray,
    noise_stddev: float,
    settings: ResidualConfig,
    *,
    ratings_of_user: float,
    spread: float,
) -> bool:
    """Whether a round with this noise could tell from it factors that differ a few times as much as the biases.

    If not, measuring along them would cost the biases information for nothing. The edge is that of equally noisy
    estimates, as many as carry the weight of the actual ones.

    Args:
        bias_variance: of the first coordinates, as they are known now.
        weighted_counts: c_i, float64, shape (n_items,).
        noise_stddev: of each number of the next round's ``linear``.
        settings: public.
        ratings_of_user: how many a user has: of what they do not tell of her nothing is in the sums.
        spread: deviation of a rating, in the unit of the first coordinates.
    """
    width = settings.width
    level = USUAL_TRACE * settings.vector_bound**2 / width
    noise = np.square(noise_stddev / (weighted_counts * level))
    weights = 1.0 / np.square(noise + bias_variance)
    weighted = weights * noise
    items = max(float(weighted.sum()) ** 2 / max(float(np.square(weighted).sum()), 1e-300), 1.0)
    signal = bias_variance * float(weights.sum()) / max(float(weighted.sum()), 1e-300)
    known = share_known(_FACTORS_OVER_BIASES * bias_variance / spread**2, ratings_of_user)
    if known < _LEAST_KNOWN:
        return False
    return bool(known * _FACTORS_OVER_BIASES * signal > (1.0 + np.sqrt(width / items)) ** 2 - 1.0)


def costs_little(
    released: ReleasedRound, noise_stddev: float, settings: ResidualConfig, *, ratings_of_user: float
) -> bool:
    """Whether the noise of a round is less than ratings scatter anyway, for the items that most ratings are of.

    Then factors may be looked for though nothing says that there are any: the biases lose next to nothing by it.

    Args:
        released: the last round.
        noise_stddev: of each number of the next round's ``linear``.
        settings: public.
        ratings_of_user: how many a user has; of two, no more than her own bias can be learnt.
    """
    counts = released.weighted_counts
    scatter = settings.noise_variance * released.spread**2 * released.mean_weights
    level = USUAL_TRACE * settings.vector_bound**2 / settings.width
    usual = float(np.average(scatter * counts, weights=counts))
    known = share_known(_USUAL_TASTES, ratings_of_user)
    return bool(known >= _LEAST_KNOWN and noise_stddev**2 < known * usual * level)
