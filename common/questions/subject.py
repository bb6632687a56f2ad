"""What a question is about: numbers that a user has, of which all together weigh at most a public bound."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import PrivacyError

ROW_BOUND = 1 << 20
"""Largest sum of one user's row, grid units; stands for the weight of all her numbers."""


class Subject(StrEnum):
    """Which numbers."""

    RATINGS = "ratings"
    """Her ratings; where she has more than the bound h, each weighs h over their number."""
    COUNTS = "counts"
    """How many ratings she has, if any: one number of weight 1."""
    NORMS = "norms"
    """L2 norm of her ratings less the centre of the scale, if any: one number of weight 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of the users of a cohort, in the order of the users. Private."""

    users: IndexArray
    """int32, shape (n_numbers,), ascending."""
    values: FloatArray
    """float64, shape (n_numbers,)."""
    weights: FloatArray
    """float64, shape (n_numbers,); those of a user sum to at most the subject's bound, up to rounding."""
    n_users: int


def numbers_of(subject: Subject, cohort: Cohort, *, bound: float, centre: float) -> Numbers:
    """What the users of a cohort have to say. A user's part depends on her own row alone.

    Args:
        subject: public.
        cohort: private.
        bound: h, of ratings; the other subjects have weight 1. Public.
        centre: of the rating scale. Public.

    Raises:
        PrivacyError: a rating is not finite; which one is not said.
    """
    if not np.isfinite(cohort.ratings).all():
        raise PrivacyError("ratings must be finite numbers; NaN or infinity was refused")
    own, counts = cohort.user_of_entry(), cohort.counts
    if subject is Subject.RATINGS:
        weights = np.minimum(1.0, bound / np.maximum(counts, 1))[own]
        return Numbers(
            users=own, values=cohort.ratings.astype(np.float64), weights=weights, n_users=cohort.n_users
        )
    present = np.flatnonzero(counts).astype(np.int32)
    if subject is Subject.COUNTS:
        values = counts[present].astype(np.float64)
    else:
        squares = (cohort.ratings.astype(np.float64) - centre) ** 2
        values = np.sqrt(np.bincount(own, weights=squares, minlength=cohort.n_users))[present]
    return Numbers(users=present, values=values, weights=np.ones(present.size), n_users=cohort.n_users)
