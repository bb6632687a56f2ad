"""The two splits that publications use: over ratings for rating prediction, over users for top-k lists.

Both depend on the seed and on the set of ratings alone, not on the order of rows in a file. Users and items
without training ratings keep their numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.ratings import Ratings, Triples, sorted_cohort

DEFAULT_SHARE = 0.1
_TRAIN, _VALIDATION, _TEST = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RatingSplit:
    """Ratings to learn from and ratings to be judged on; all cohorts have one row per user. Private."""

    train: Cohort
    """What the board is learnt from."""
    train_and_validation: Cohort
    """What user vectors are solved on for the test."""
    validation: Triples
    """For choosing hyper-parameters; may be empty."""
    test: Triples
    """For the reported result."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldOut:
    """Users that the board never saw, each with a known and a hidden part. Private."""

    users: IndexArray
    """int32, shape (n_held_out,): their user numbers, ascending; row k of both cohorts is ``users[k]``."""
    history: Cohort
    """What a model may look at; all ratings 1.0."""
    target: Cohort
    """What it has to find; all ratings 1.0, at least one per row."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UserSplit:
    """Positive feedback of users to learn from, and two sets of held-out users. Private."""

    train: Cohort
    """One row per user of the data set, all ratings 1.0; empty for held-out and for dropped users."""
    validation: HeldOut
    """For choosing hyper-parameters."""
    test: HeldOut
    """For the reported result."""


def split_ratings(
    ratings: Ratings, *, seed: int, validation: float | None = None, test: float | None = None
) -> RatingSplit:
    """Split over ratings at random, with exact shares (the ML-10M protocol: 80/10/10).

    A data set that brings its own test part keeps it: ``test`` is then left aside, and ``validation`` is a
    share of its training ratings, by default none.

    Args:
        ratings: the data set. Private.
        seed: chooses the split; >= 0. Public.
        validation: share of the ratings in [0, 1); default 0.1, or 0 beside an own test part.
        test: share of the ratings in [0, 1); default 0.1.

    Returns:
        Cohorts and triples that share nothing.

    Raises:
        InputError: shares below 0, or that leave nothing to learn from.
    """
    own = ratings.test is not None
    shares = (
        (0.0 if own else DEFAULT_SHARE) if validation is None else validation,
        0.0 if own else DEFAULT_SHARE if test is None else test,
    )
    if not (min(shares) >= 0 and sum(shares) < 1):
        raise InputError(
            "the shares of validation and test must be >= 0 and add up to less than 1, "
            f"got {shares[0]:g} and {shares[1]:g}; lower them."
        )
    part = _parts(ratings.n_ratings, shares, np.random.default_rng([_seed(seed), 0]))
    everything = part != _TEST
    drawn_test = _triples(ratings, part == _TEST)
    train = _cohort(ratings, part == _TRAIN)
    return RatingSplit(
        train=train,
        train_and_validation=train if shares[0] == 0 else _cohort(ratings, everything),
        validation=_triples(ratings, part == _VALIDATION),
        test=drawn_test if ratings.test is None else ratings.test,
    )


def split_users(
    ratings: Ratings,
    *,
    seed: int,
    held_out_validation: int,
    held_out_test: int,
    positive_above: float = 3.5,
    minimum_positives: int = 5,
    history: float = 0.8,
) -> UserSplit:
    """Hold out whole users at random (the ML-20M protocol of Liang et al.).

    Ratings above ``positive_above`` become 1.0, all others are dropped, and so are users with fewer than
    ``minimum_positives`` of them. A held-out user with n positives has floor((1 - history) n), at least one
    and not all, as target. A test part that the data set brings is not used.

    Args:
        ratings: the data set. Private.
        seed: chooses users and targets; >= 0. Public.
        held_out_validation: number of users; >= 1.
        held_out_test: number of users; >= 1.
        positive_above: ratings above it count. Public.
        minimum_positives: >= 2.
        history: share of a held-out user's positives that a model may look at, in (0, 1).

    Raises:
        InputError: an argument is out of range, or too few users remain to learn from.

    Reference: D. Liang et al. (2018), Variational autoencoders for collaborative filtering, arXiv:1802.05814.
    """
    _check_user_split(held_out_validation, held_out_test, minimum_positives, history)
    positive = ratings.values > np.float32(positive_above)
    counts = np.bincount(ratings.users[positive], minlength=ratings.n_users)
    eligible = np.flatnonzero(counts >= minimum_positives)
    held_out = held_out_validation + held_out_test
    if held_out >= eligible.size:
        raise InputError(
            f"{held_out} users are to be held out, but only {eligible.size} have {minimum_positives} or more "
            f"ratings above {positive_above:g}, and some must remain to learn from; hold out fewer."
        )
    rng = np.random.default_rng([_seed(seed), 1])
    drawn = rng.permutation(eligible)[:held_out]
    learning = np.zeros(ratings.n_users, dtype=np.bool_)
    learning[eligible] = True
    learning[drawn] = False
    return UserSplit(
        train=_ones(ratings, positive & learning[ratings.users]),
        validation=_held_out(ratings, positive, drawn[:held_out_validation], history, rng),
        test=_held_out(ratings, positive, drawn[held_out_validation:], history, rng),
    )


def _check_user_split(validation: int, test: int, minimum_positives: int, history: float) -> None:
    if min(validation, test) < 1 or minimum_positives < 2 or not 0 < history < 1:
        raise InputError(
            "a split over users needs held_out_validation >= 1, held_out_test >= 1, minimum_positives >= 2 "
            f"and 0 < history < 1, got {validation}, {test}, {minimum_positives} and {history:g}."
        )


def _seed(seed: int) -> int:
    if seed < 0:
        raise InputError(f"the seed of a split must be >= 0, got {seed}; give another.")
    return seed


def _parts(n_ratings: int, shares: tuple[float, float], rng: np.random.Generator) -> NDArray[np.int8]:
    """Which part each rating falls into; one byte a rating, exact numbers."""
    n_validation, n_test = (round(share * n_ratings) for share in shares)
    part = np.zeros(n_ratings, dtype=np.int8)
    part[:n_test] = _TEST
    part[n_test : n_test + n_validation] = _VALIDATION
    if not (part == _TRAIN).any():
        raise InputError(f"{n_ratings} ratings are too few to split; give more, or smaller shares.")
    rng.shuffle(part)
    return part


def _triples(ratings: Ratings, chosen: BoolArray) -> Triples:
    return Triples(users=ratings.users[chosen], items=ratings.items[chosen], values=ratings.values[chosen])


def _cohort(ratings: Ratings, chosen: BoolArray) -> Cohort:
    part = _triples(ratings, chosen)
    return sorted_cohort(
        part.users, part.items, part.values, n_users=ratings.n_users, n_items=ratings.n_items
    )


def _ones(ratings: Ratings, chosen: BoolArray) -> Cohort:
    """The chosen pairs as positive feedback, one row per user of the data set."""
    users, items = ratings.users[chosen], ratings.items[chosen]
    ones = np.ones(items.size, dtype=np.float32)
    return sorted_cohort(users, items, ones, n_users=ratings.n_users, n_items=ratings.n_items)


def _held_out(
    ratings: Ratings, positive: BoolArray, users: IntArray, history: float, rng: np.random.Generator
) -> HeldOut:
    """Divide the positives of some users into history and target."""
    users = np.sort(users)
    row_of_user = np.full(ratings.n_users, -1, dtype=np.int32)
    row_of_user[users] = np.arange(users.size, dtype=np.int32)
    wanted = positive & (row_of_user[ratings.users] >= 0)
    rows, items = row_of_user[ratings.users[wanted]], ratings.items[wanted]
    counts = np.bincount(rows, minlength=users.size)
    # The small number keeps 0.2 * 5, a little below 1 in floating point, from becoming 0.
    n_target = np.maximum(np.floor((1 - history) * counts + 1e-9), 1)
    shuffled = np.lexsort((rng.random(rows.size), rows))
    rank = np.empty(rows.size, dtype=np.int64)
    rank[shuffled] = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    hidden = rank < np.minimum(n_target, counts - 1)[rows]
    ones = np.ones(rows.size, dtype=np.float32)
    known, found = (
        sorted_cohort(rows[part], items[part], ones[part], n_users=users.size, n_items=ratings.n_items)
        for part in (~hidden, hidden)
    )
    return HeldOut(users=users.astype(np.int32), history=known, target=found)


__all__ = ["HeldOut", "RatingSplit", "Triples", "UserSplit", "split_ratings", "split_users"]
