"""Weights: how one user's budget is shared among her items. Squares of a user's weights add to at most 1.

Reference: Krichene et al. (2023), arXiv:2302.07975, sec. 4 and app. B (adaptive); Chien et al. (2021) (sampled).
"""

import math
from enum import StrEnum

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution_bounding.mixing import mix64
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.kernels.sums import unit_rows

_KEY_BITS = 48
_KEY_MASK = np.uint64((1 << _KEY_BITS) - 1)
_ROWS_PER_BLOCK = 1 << (64 - _KEY_BITS)


class WeightScheme(StrEnum):
    """The known ways to share a user's budget among her items: a case each in ``item_weights``.

    A user's weights are her items' omega, scaled so that their squares add to 1 where they would add to more; or
    ``1 / sqrt k`` on k of her items. No omega can make them add to more.
    """

    UNIFORM = "uniform"
    """K items of each user at random (Chien et al. 2021)."""
    TAIL = "tail"
    """The k items of each user with the smallest private counts (Chien et al. 2021)."""
    ADAPTIVE = "adaptive"
    """``max(n, 1)^-mu``; each user's whole budget is spent."""
    ADAPTIVE_CLIPPED = "adaptive-clipped"
    """Krichene et al. (2023), eq. 11, 12 and 16: one scale for all, clipped where a user exceeds the budget."""
    ADAPTIVE_OVERCOUNT = "adaptive-overcount"
    """Krichene et al. (2023), eq. 19 and 20: the same with counts increased by their accuracy s."""

    @property
    def samples(self) -> bool:
        """Whether only k items of each user take part."""
        return self in (WeightScheme.UNIFORM, WeightScheme.TAIL)

    @property
    def needs_population(self) -> bool:
        """Whether it looks at the number of users, which is then released. Such weights are on scale already;
        with others, users whose squares add to less than 1 are scaled up.
        """
        return self in (WeightScheme.ADAPTIVE_CLIPPED, WeightScheme.ADAPTIVE_OVERCOUNT)


def item_weights(
    scheme: WeightScheme | str,
    noisy_counts: FloatArray,
    *,
    exponent: float = 0.25,
    population: float | None = None,
    mean_budget: float = 1.0,
    accuracy: float = 0.0,
) -> FloatArray:
    """Item weights omega from released counts: post-processing, public.

    Args:
        scheme: one of ``WeightScheme``.
        noisy_counts: float64, shape (n_items,), released counts; floored at 1 here. Public.
        exponent: mu in [0, 1].
        population: n > 0, number of users, public or released; the clipped schemes need it.
        mean_budget: b > 0 (beta-bar of the paper), mean of ``sum omega^2`` over users before clipping.
        accuracy: s >= 0, error bound of the counts, for adaptive-overcount. Public.

    Returns:
        float64, shape (n_items,), > 0.

    Raises:
        InputError: a parameter is missing or out of range.
        PrivacyError: a count is not finite.

    Reference: Krichene et al. (2023), arXiv:2302.07975, sec. 4 and app. B.
    """
    scheme = _scheme(scheme)
    if not np.isfinite(noisy_counts).all():
        raise PrivacyError("released counts must be finite")
    if not 0 <= exponent <= 1 or not 0 <= accuracy < math.inf:
        raise InputError(f"exponent must be in [0, 1] and accuracy >= 0, got {exponent} and {accuracy}")
    counts = np.maximum(noisy_counts, 1.0)
    match scheme:
        case WeightScheme.UNIFORM:
            return np.ones(counts.size)
        case WeightScheme.TAIL:  # 1 / (1 + rank of the count, smallest first), so that larger means rarer
            return 1.0 / (1.0 + _ranks(noisy_counts))
        case WeightScheme.ADAPTIVE:
            return np.asarray(counts**-exponent, dtype=np.float64)
        case WeightScheme.ADAPTIVE_OVERCOUNT:
            counts += accuracy
    if population is None or not 0 < population < math.inf or not 0 < mean_budget < math.inf:
        raise InputError(f"{scheme} weights need population > 0 and mean_budget > 0")
    # omega_i = n_i^-mu / sqrt(sum n^(1 - 2 mu) / (n b)), so that sum n_i omega_i^2 = n b.
    scale = math.sqrt(population * mean_budget / math.fsum(counts ** (1.0 - 2.0 * exponent)))
    return np.asarray(counts**-exponent * scale, dtype=np.float64)


def entry_weights(
    scheme: WeightScheme | str,
    cohort: Cohort,
    omega: FloatArray,
    *,
    items_per_user: int | None = None,
    seed: int | None = None,
    backend: str = "numpy",
) -> FloatArray:
    """Weight w_ij of each rating of a cohort. Private.

    Guarantee: the squares of a user's weights add to at most 1 (within rounding; truncation to the grid and
    ``check_rows`` make it exact), and her weights depend on her own row and key, omega and the seed
    alone, however the users are split into cohorts.

    Args:
        scheme: one of ``WeightScheme``.
        cohort: the users. Private.
        omega: float64, shape (n_items,), from ``item_weights`` of the same scheme. Public.
        items_per_user: k >= 1, for uniform and tail; users with fewer items get 1 / sqrt k on each. Public.
        seed: 0 <= seed < 2^64, for uniform: draws the sample from seed, user key and item.
        backend: which kernels compute; never changes what is computed.

    Returns:
        float64, shape (n_ratings,), in [0, 1].

    Raises:
        InputError: a parameter is missing or out of range.
        PrivacyError: a weighting chose too many items.
    """
    scheme = _scheme(scheme)
    if omega.shape != (cohort.n_items,) or not (np.isfinite(omega) & (omega > 0)).all():
        raise InputError(f"omega must hold {cohort.n_items} finite numbers > 0, one per item")
    if scheme.samples:
        if items_per_user is None or items_per_user < 1:
            raise InputError(f"{scheme} weights need items_per_user >= 1")
        if scheme is WeightScheme.TAIL:  # ranks are distinct, so a tie between items goes to the lower number
            keys = _ranks(-omega).astype(np.uint64)[cohort.items]
        elif seed is None or not 0 <= seed < 1 << 64:
            raise InputError("uniform weights need a seed in 0..2^64 - 1")
        else:
            keys = _random_keys(cohort, seed)
        chosen = _smallest_in_row(cohort, keys, items_per_user)
        if np.bincount(cohort.user_of_entry()[chosen], minlength=1).max() > items_per_user:
            raise PrivacyError(f"{scheme} weights chose more than {items_per_user} items of a user")
        return np.where(chosen, 1.0 / math.sqrt(items_per_user), 0.0)
    indptr, spend_all = cohort.indptr - cohort.indptr[0], not scheme.needs_population
    return unit_rows(indptr, cohort.items, omega, spend_all=spend_all, backend=backend)


def _scheme(scheme: WeightScheme | str) -> WeightScheme:
    try:
        return WeightScheme(scheme)
    except ValueError:
        raise InputError(f"weights must be one of {', '.join(WeightScheme)}, got {scheme!r}") from None


def _ranks(values: FloatArray) -> FloatArray:
    """Rank of each value, smallest first, ties by position; float64, 0 to size - 1."""
    ranks = np.empty(values.size, dtype=np.float64)
    ranks[np.argsort(values, kind="stable")] = np.arange(values.size)
    return ranks


def _smallest_in_row(cohort: Cohort, keys: BitArray, number: int) -> BoolArray:
    """Mark the ``number`` smallest keys of each row; keys are below 2^48 and distinct within a row.

    Sorting one word of (row in its block, key) and reading each row's threshold is several times faster than
    a sort that carries positions.
    """
    chosen = np.empty(cohort.n_ratings, dtype=np.bool_)
    for start in range(0, cohort.n_users, _ROWS_PER_BLOCK):
        block = cohort.rows(start, min(start + _ROWS_PER_BLOCK, cohort.n_users))
        first = int(cohort.indptr[start] - cohort.indptr[0])
        row_of = block.user_of_entry()
        words = keys[first : first + block.n_ratings] | (row_of.astype(np.uint64) << np.uint64(_KEY_BITS))
        ranked = np.sort(words)
        last = block.indptr[:-1] + np.minimum(block.counts, number) - 1
        threshold = ranked[np.maximum(last, 0)] if ranked.size else np.zeros(block.n_users, dtype=np.uint64)
        chosen[first : first + block.n_ratings] = words <= threshold[row_of]
    return chosen


def _random_keys(cohort: Cohort, seed: int) -> BitArray:
    """Keys below 2^48 that order each row at random: a function of seed, the user's key and the item.

    Items of one row get distinct keys, since adding a row constant and mixing are both one to one.
    """
    row_keys = mix64(mix64(np.array([seed], dtype=np.uint64)) + cohort.keys) & _KEY_MASK
    return _mix48(np.repeat(row_keys, cohort.counts) + cohort.items.astype(np.uint64))


def _mix48(words: BitArray) -> BitArray:
    """A one to one mix of 48-bit words: odd multipliers and right shifts, as in ``mix64``. Works in
    place.
    """
    for multiplier in (0xBF58476D1CE5, 0x94D049BB1331, 0x9E3779B97F4B):
        words &= _KEY_MASK
        words ^= words >> np.uint64(25)
        words *= np.uint64(multiplier)
    words &= _KEY_MASK
    words ^= words >> np.uint64(25)
    return words
