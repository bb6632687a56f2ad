"""What a question is about: numbers that a user has, of which all together weigh at most a public bound.

A question collects one row of whole numbers >= 0 a user, of a sum that the aggregator checks; its answer says how
far the noise may have moved it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, cast

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.pure import keeps_l1_bound

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


CONFIDENCE = 0.95
"""Of every interval and error that an answer states."""


class Mechanism(StrEnum):
    """Where an answer's randomness comes from."""

    PURE = "pure"
    """Laplace noise for means, the exponential mechanism for quantiles: delta 0; epsilons of an account add up."""
    GAUSSIAN = "gaussian"
    """Gaussian noise: composes tightly with boards and with many other questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is published. Every field is public."""

    value: float
    interval: tuple[float, float] | None
    """Holds the answer without noise with probability ``CONFIDENCE``; None where only a rank error is known."""
    rank_error: float | None
    """Of quantiles: with that probability the answer misses the quantile by no more than this total weight of
    numbers, each user's as weighted.
    """
    noise: str
    """Kind and size of the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The shape of the rows and the bound that is enforced on them; how their sum leaves is up to a release."""

    rows: ClassVar[int] = 1
    l2_bound: ClassVar[int] = ROW_BOUND
    participation: ClassVar[None] = None

    name: str
    width: int
    """Numbers in a row."""

    def keeps_bound(self, rows: IntArray) -> BoolArray:
        """Which rows have no negative number and a sum of at most ``ROW_BOUND``, which bounds their L2 norm too."""
        kept: BoolArray = keeps_l1_bound(rows, ROW_BOUND) & np.all(rows >= 0, axis=1)
        return kept

    def request(self) -> Request:
        """What the runtime asks the users."""
        # Runtimes and protocols read of a release its shape and what it enforces, not its noise.
        return Request(source=SumSource.TOTAL, release=cast(GaussianRelease, self))


def gaussian_total(
    name: str, *, width: int, bound: float, adjacency: Adjacency, noise_multiplier: float, covers: str
) -> GaussianRelease:
    """The release through which a sum of such rows leaves with Gaussian noise.

    Args:
        name: of the release.
        width: numbers in a row.
        bound: what a row of sum ``ROW_BOUND`` weighs.
        adjacency: what neighbouring means.
        noise_multiplier: z.
        covers: one phrase for ledger and certificate.

    Raises:
        PrivacyError: it would be no privacy at all.
    """
    return GaussianRelease(
        name=name,
        rows=1,
        width=width,
        layout="vector",
        grid_step=bound / ROW_BOUND,
        l2_bound=ROW_BOUND,
        same_sign=True,
        adjacency=adjacency,
        noise_multiplier=noise_multiplier,
        covers=covers,
    )


def whole_rows(weights: IntArray, *, n_users: int, width: int) -> IntArray:
    """Check the bound on the device, after rounding.

    Args:
        weights: int64, ``n_users * width`` numbers. Private.
        n_users: number of rows.
        width: numbers in a row.
    """
    rows = weights.reshape(n_users, width)
    excess = np.maximum(rows.sum(axis=1) - ROW_BOUND, 0)
    if excess.any():  # rounding of a sum: a unit
        rows[np.arange(n_users), rows.argmax(axis=1)] -= excess
    return rows
