"""The two splits over ratings and over users, by when ratings were given."""

from dataclasses import replace

import numpy as np

from fedboard.common.arrays import BoolArray
from fedboard.common.errors import InputError
from fedboard.simulations.data.ratings import KeyedRatings, Ratings
from fedboard.simulations.data.splits.parts import HeldOut, RatingSplit, UserSplit
from fedboard.simulations.data.splits.times import TimeRule


def rows_of(ratings: Ratings) -> KeyedRatings:
    """All ratings with their times.

    Raises:
        InputError: the data set has no times, or brings a test part of its own.
    """
    if ratings.test is not None:
        raise InputError(
            f"{ratings.name} brings a test part of its own, so it is not split by time: leave out split.test_from "
            "and split.leave_last."
        )
    if ratings.times is None or not ratings.times.any():
        raise InputError(
            f"{ratings.name} does not say when anything was rated, or that all was at 0, so it cannot be split by "
            "time: load it with times, or leave out split.test_from and split.leave_last."
        )
    return ratings.keyed()


def split_ratings_by_time(ratings: Ratings, rule: TimeRule) -> RatingSplit:
    """Split over ratings, by when they were given.

    Guarantee: as of ``rule.parts``.

    Args:
        ratings: the data set, with times. Private.
        rule: which are held out. Public.

    Raises:
        InputError: no times, or a test part that the data set brings.
    """
    rows = rows_of(ratings)
    learnt, validated, tested = rule.parts(rows)
    return RatingSplit(
        train=rows.cohort(learnt),
        train_and_validation=rows.cohort(~tested),
        validation=rows.some(validated),
        test=rows.some(tested),
        rule=rule,
        rows=rows,
    )


def split_lists_by_time(
    ratings: Ratings, rule: TimeRule, *, positive_above: float = 3.5, minimum_positives: int = 5
) -> UserSplit:
    """Split the positives of each user by when they were given: she is learnt from, and judged on what followed.

    Positives and who has enough of them are as for ``split_users``. For validation a user's history is her training
    part, for the test that and her validation part; judged is who has a history and something to find.

    Guarantee: what becomes of a user depends on the rule, her id and her own ratings alone.

    Args:
        ratings: the data set, with times. Private.
        rule: which are held out, of the positives. Public.
        positive_above: ratings above it count; every use does. Public.
        minimum_positives: >= 2. Public.

    Raises:
        InputError: no times, or a test part that the data set brings.
    """
    every = rows_of(ratings)
    kept = ratings.positive(positive_above)
    counts = np.bincount(ratings.users[kept], minlength=ratings.n_users)
    kept &= (counts >= minimum_positives)[ratings.users]
    rows = replace(
        every,
        **{name: getattr(every, name)[kept] for name in ("users", "items", "values", "times")},
    )
    learnt, validated, tested = rule.parts(rows)
    return UserSplit(
        train=rows.ones(learnt),
        validation=_judged(rows, learnt, validated),
        test=_judged(rows, ~tested, tested),
        rule=rule,
        rows=rows,
    )


def _judged(rows: KeyedRatings, known: BoolArray, hidden: BoolArray) -> HeldOut:
    n_users = rows.user_keys.size
    both = np.bincount(rows.users[known], minlength=n_users) > 0
    both &= np.bincount(rows.users[hidden], minlength=n_users) > 0
    users = np.flatnonzero(both).astype(np.int32)
    number = np.zeros(n_users, dtype=np.int32)
    number[users] = np.arange(users.size, dtype=np.int32)
    theirs = both[rows.users]
    own = replace(rows, users=number[rows.users], user_keys=rows.user_keys[users])
    return HeldOut(users=users, history=own.ones(known & theirs), target=own.ones(hidden & theirs))
