"""What a weighting says of itself. The file of each, beside this one, has it as ``WEIGHTING``."""

from collections.abc import Callable
from dataclasses import dataclass

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.cohort import Cohort


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
