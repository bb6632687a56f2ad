"""Weights: how one user's budget is shared among her items. Squares of a user's weights add to at most 1."""

import math
from enum import StrEnum
from importlib import import_module

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.kernels import unit_rows
from fedboard.common.per_user.weightings.weighting import Draw, Released, Weighting


class WeightScheme(StrEnum):
    """The known ways to share a user's budget among her items: a line here, a file each in ``weightings/``."""

    UNIFORM = "uniform"
    TAIL = "tail"
    ADAPTIVE = "adaptive"
    ADAPTIVE_CLIPPED = "adaptive-clipped"
    ADAPTIVE_OVERCOUNT = "adaptive-overcount"

    @property
    def weighting(self) -> Weighting:
        """What its file says: of the same name, ``_`` for ``-``."""
        module = import_module(f"fedboard.common.per_user.weightings.{self.value.replace('-', '_')}")
        return module.WEIGHTING  # type: ignore[no-any-return]

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
    weighting = scheme.weighting
    if weighting.choose is not None:
        if items_per_user is None or items_per_user < 1:
            raise InputError(f"{scheme} weights need items_per_user >= 1")
        chosen = weighting.choose(Draw(cohort=cohort, omega=omega, items_per_user=items_per_user, seed=seed))
        if np.bincount(cohort.user_of_entry()[chosen], minlength=1).max() > items_per_user:
            raise PrivacyError(f"{scheme} weights chose more than {items_per_user} items of a user")
        return np.where(chosen, 1.0 / math.sqrt(items_per_user), 0.0)
    indptr = cohort.indptr - cohort.indptr[0]
    return unit_rows(indptr, cohort.items, omega, spend_all=weighting.spend_all, backend=backend)


def _scheme(scheme: WeightScheme | str) -> WeightScheme:
    try:
        return WeightScheme(scheme)
    except ValueError:
        raise InputError(f"weights must be one of {', '.join(WeightScheme)}, got {scheme!r}") from None
