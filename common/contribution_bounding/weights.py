"""Weights: how one user's budget is shared among her items. Squares of a user's weights add to at most 1.

Reference: Krichene et al. (2023), arXiv:2302.07975, sec. 4 and app. B (adaptive); Chien et al. (2021) (sampled).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution_bounding.mixing import mix64
from fedboard.common.errors import InputError, PrivacyError

_KEY_BITS = 48
_KEY_MASK = np.uint64((1 << _KEY_BITS) - 1)
_ROWS_PER_BLOCK = 1 << (64 - _KEY_BITS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Released:
    """What weights of items are made of: released counts and settings. Public."""

    noisy_counts: FloatArray
    """Shape (n_items,), finite; may be below 0."""
    exponent: float
    """mu in [0, 1]."""
    population: float | None
    """Number of users, > 0; there where the weighting ``needs_population``."""
    mean_budget: float
    """Mean of ``sum omega^2`` over users before clipping, > 0 where the weighting ``needs_population``."""
    accuracy: float
    """Error bound of the counts, >= 0."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Draw:
    """What is known where items of users are chosen, on their devices. Private."""

    cohort: Cohort
    """The users' ratings."""
    omega: FloatArray
    """Item weights, shape (n_items,). Public."""
    items_per_user: int
    """k >= 1. Public."""
    seed: int | None
    """Of the sample; None where none was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """One way to share a user's budget among her items.

    A user's weights are her items' omega, scaled so that their squares add to 1 where they would add to more; or,
    with ``choose``, ``1 / sqrt k`` on the items that it marks. Nothing here can make them add to more.
    """

    omega: Callable[[Released], FloatArray]
    """Weights of the items, float64, shape (n_items,), finite and > 0. Public."""
    choose: Callable[[Draw], BoolArray] | None = None
    """Marks up to k items of each user, shape (n_ratings,); None: all take part."""
    spend_all: bool = False
    """Whether users whose squares add to less than 1 are scaled up."""
    needs_population: bool = False
    """Whether ``omega`` looks at the number of users, which is then released. Such weights are on scale."""


class WeightScheme(StrEnum):
    """The known ways to share a user's budget among her items; what each is stands in ``WEIGHTINGS``."""

    UNIFORM = "uniform"
    TAIL = "tail"
    ADAPTIVE = "adaptive"
    ADAPTIVE_CLIPPED = "adaptive-clipped"
    ADAPTIVE_OVERCOUNT = "adaptive-overcount"

    @property
    def weighting(self) -> Weighting:
        """What it is."""
        return WEIGHTINGS[self]

    @property
    def samples(self) -> bool:
        """Whether only k items of each user take part."""
        return self.weighting.choose is not None

    @property
    def needs_population(self) -> bool:
        """Whether it looks at the number of users, which is then released."""
        return self.weighting.needs_population


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
    weighting = scheme.weighting
    if weighting.needs_population and (
        population is None or not 0 < population < math.inf or not 0 < mean_budget < math.inf
    ):
        raise InputError(f"{scheme} weights need population > 0 and mean_budget > 0")
    return weighting.omega(
        Released(
            noisy_counts=noisy_counts,
            exponent=exponent,
            population=population,
            mean_budget=mean_budget,
            accuracy=accuracy,
        )
    )


def entry_weights(
    scheme: WeightScheme | str,
    cohort: Cohort,
    omega: FloatArray,
    *,
    items_per_user: int | None = None,
    seed: int | None = None,
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

    Returns:
        float64, shape (n_ratings,), in [0, 1].

    Raises:
        InputError: a parameter is missing or out of range.
        PrivacyError: a weighting chose too many items.
    """
    scheme = _scheme(scheme)
    if omega.shape != (cohort.n_items,) or not (np.isfinite(omega) & (omega > 0)).all():
        raise InputError(f"omega must hold {cohort.n_items} finite numbers > 0, one per item")
    weighting = scheme.weighting
    if weighting.choose is not None:
        if items_per_user is None or items_per_user < 1:
            raise InputError(f"{scheme} weights need items_per_user >= 1")
        chosen = weighting.choose(Draw(cohort=cohort, omega=omega, items_per_user=items_per_user, seed=seed))
        if np.bincount(cohort.user_of_entry()[chosen], minlength=1).max() > items_per_user:
            raise PrivacyError(f"{scheme} weights chose more than {items_per_user} items of a user")
        return np.where(chosen, 1.0 / math.sqrt(items_per_user), 0.0)
    rows, weights = cohort.user_of_entry(), omega[cohort.items]
    norms = np.sqrt(np.bincount(rows, weights=weights * weights, minlength=cohort.n_users))  # in order
    if not weighting.spend_all:
        norms = np.maximum(norms, 1.0)
    return np.asarray(np.minimum(weights / norms[rows], 1.0))


def _scheme(scheme: WeightScheme | str) -> WeightScheme:
    try:
        return WeightScheme(scheme)
    except ValueError:
        raise InputError(f"weights must be one of {', '.join(WeightScheme)}, got {scheme!r}") from None


def _adaptive(released: Released) -> FloatArray:
    """``max(n, 1)^-mu``; each user's whole budget is spent."""
    counts = np.maximum(released.noisy_counts, 1.0)
    return np.asarray(counts**-released.exponent, dtype=np.float64)


def _clipped(released: Released) -> FloatArray:
    """Krichene et al. (2023), eq. 11, 12 and 16: one scale for all, clipped where a user exceeds the budget."""
    return _on_scale(np.maximum(released.noisy_counts, 1.0), released)


def _on_scale(counts: FloatArray, released: Released) -> FloatArray:
    """``omega_i = n_i^-mu / sqrt(sum n^(1 - 2 mu) / (n b))``, so that ``sum n_i omega_i^2 = n b``.

    Args:
        counts: n_i >= 1, float64, shape (n_items,).
        released: has the number of users and the mean budget.
    """
    assert released.population is not None
    total = math.fsum(counts ** (1.0 - 2.0 * released.exponent))
    scale = math.sqrt(released.population * released.mean_budget / total)
    return np.asarray(counts**-released.exponent * scale, dtype=np.float64)


def _overcount(released: Released) -> FloatArray:
    """Krichene et al. (2023), eq. 19 and 20: the same with counts increased by their accuracy s."""
    return _on_scale(np.maximum(released.noisy_counts, 1.0) + released.accuracy, released)


def _rarest(released: Released) -> FloatArray:
    """1 / (1 + rank of the count, smallest first), so that larger means rarer."""
    return 1.0 / (1.0 + _ranks(released.noisy_counts))


def _rarest_of_user(draw: Draw) -> BoolArray:
    """The k items of each user with the smallest private counts, 1 / sqrt k each (Chien et al. 2021)."""
    # Ranks of -omega are distinct, so a tie between items goes to the lower number.
    keys = _ranks(-draw.omega).astype(np.uint64)[draw.cohort.items]
    return _smallest_in_row(draw.cohort, keys, draw.items_per_user)


def _ranks(values: FloatArray) -> FloatArray:
    """Rank of each value, smallest first, ties by position; float64, 0 to size - 1."""
    ranks = np.empty(values.size, dtype=np.float64)
    ranks[np.argsort(values, kind="stable")] = np.arange(values.size)
    return ranks


def _equal(released: Released) -> FloatArray:
    return np.ones(released.noisy_counts.size)


def _random_of_user(draw: Draw) -> BoolArray:
    """K items of each user at random, 1 / sqrt k each (Chien et al. 2021)."""
    if draw.seed is None or not 0 <= draw.seed < 1 << 64:
        raise InputError("uniform weights need a seed in 0..2^64 - 1")
    return _smallest_in_row(draw.cohort, _random_keys(draw.cohort, draw.seed), draw.items_per_user)


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


WEIGHTINGS: dict[WeightScheme, Weighting] = {
    WeightScheme.UNIFORM: Weighting(omega=_equal, choose=_random_of_user),
    WeightScheme.TAIL: Weighting(omega=_rarest, choose=_rarest_of_user),
    WeightScheme.ADAPTIVE: Weighting(omega=_adaptive, spend_all=True),
    WeightScheme.ADAPTIVE_CLIPPED: Weighting(omega=_clipped, needs_population=True),
    WeightScheme.ADAPTIVE_OVERCOUNT: Weighting(omega=_overcount, needs_population=True),
}
"""A line for each member of ``WeightScheme``."""
