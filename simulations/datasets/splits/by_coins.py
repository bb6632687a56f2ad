"""The two splits that publications use: over ratings for rating prediction, over users for top-k lists.

What is held out never gives anything to a release, so a split is part of the mechanism. Each rating falls by a coin
of its own user and item, each user by a coin of her own (``fedboard.simulations.datasets.coins``), and what is done
with a user's ratings looks at her ratings alone: whoever is added to a data set or removed from it, everybody
else's ratings stay in their parts. So shares are expected, not exact, and so is the number of users held out.

Splits depend neither on the order of rows in a file nor on numbers of users and items. Users and items without
training ratings keep their numbers.
"""

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.coins import Fold, SplitCoins
from fedboard.simulations.datasets.id_keys import Kind, id_keys
from fedboard.simulations.datasets.ratings import Ratings, sorted_cohort
from fedboard.simulations.datasets.splits.parts import HeldOut, RatingSplit, SplitRule, UserSplit

DEFAULT_SHARE = 0.1


def split_ratings(
    ratings: Ratings,
    *,
    seed: int,
    validation: float | None = None,
    test: float | None = None,
    fold: Fold | None = None,
) -> RatingSplit:
    """Split over ratings, each by a coin of its own (the ML-10M protocol: 80/10/10).

    A data set that brings its own test part keeps it: ``test`` is then left aside, and ``validation`` is a
    share of its training ratings, by default none.

    Guarantee: which part a rating falls into depends on seed, shares, its user's id and its item's id alone.
    Not guaranteed: that a test part which the data set brings was made like that; it is not touched.

    Args:
        ratings: the data set. Private.
        seed: of the coins; >= 0. Public.
        validation: probability that a rating falls here, in [0, 1). Public.
        test: probability that it falls here, in [0, 1); default 0.1. Public.
        fold: which ratings are the test part, in place of ``test``. Public.

    Returns:
        Cohorts and triples that share nothing; of n ratings about ``test * n`` in the test part, not exactly.

    Raises:
        InputError: shares below 0, or that leave nothing to learn from; folds of a data set with a test part.
    """
    own = ratings.test is not None
    if own and fold is not None:
        raise InputError(
            f"{ratings.name} brings a test part of its own, so there are no folds of it: leave out split.folds."
        )
    wanted = test if fold is None else fold.share
    rule = SplitRule(
        coins=SplitCoins(seed),
        validation=(0.0 if own else DEFAULT_SHARE) if validation is None else validation,
        test=0.0 if own else DEFAULT_SHARE if wanted is None else wanted,
        fold=fold,
    )
    users, items = ratings.user_keys(), id_keys(ratings.item_ids.tolist(), Kind.ITEM)
    learnt, validated, tested = rule.parts(rule.coins.of_ratings(users, items, ratings.users, ratings.items))
    train = _cohort(ratings, learnt, users)
    return RatingSplit(
        train=train,
        train_and_validation=train if rule.validation == 0 else _cohort(ratings, ~tested, users),
        validation=ratings.some(validated),
        test=ratings.some(tested) if ratings.test is None else ratings.test,
        rule=rule,
    )


def split_users(
    ratings: Ratings,
    *,
    seed: int,
    validation: float = DEFAULT_SHARE,
    test: float = DEFAULT_SHARE,
    positive_above: float = 3.5,
    minimum_positives: int = 5,
    history: float = 0.8,
    fold: Fold | None = None,
) -> UserSplit:
    """Hold out whole users, each by a coin of her own (the protocol of Liang et al. for ML-20M).

    Ratings above ``positive_above`` become 1.0, all others are dropped, and so are users with fewer than
    ``minimum_positives`` of them. A held-out user with n positives has floor((1 - history) n), at least one
    and not all, as target: those with the smallest coins. A test part that the data set brings is not used.

    Guarantee: what becomes of a user depends on the seed, the shares, her id and her own ratings alone.

    Args:
        ratings: the data set. Private.
        seed: of the coins; >= 0. Public.
        validation: probability that a user is held out for validation, in (0, 1). Public.
        test: probability that she is held out for the test, in (0, 1). Public.
        positive_above: ratings above it count; every use does. Public.
        minimum_positives: >= 2. Public.
        history: share of a held-out user's positives that a model may look at, in (0, 1). Public.
        fold: which users are held out for the test, in place of ``test``. Public.

    Returns:
        Of n users with enough positives about ``test * n`` are in the test part, not exactly; perhaps none.

    Raises:
        InputError: an argument is out of range.

    Reference: D. Liang et al. (2018), Variational autoencoders for collaborative filtering, arXiv:1802.05814.
    """
    test = test if fold is None else fold.share
    _check_user_split(validation, test, minimum_positives, history)
    rule = SplitRule(coins=SplitCoins(seed), validation=validation, test=test, fold=fold)
    keys = ratings.user_keys()
    positive = ratings.positive(positive_above)
    eligible = np.bincount(ratings.users[positive], minlength=ratings.n_users) >= minimum_positives
    learning, validated, tested = (eligible & part for part in rule.parts(rule.coins.of_users(keys)))
    return UserSplit(
        train=_ones(ratings, positive & learning[ratings.users], keys),
        validation=_held_out(ratings, positive, validated, history, (rule.coins, keys)),
        test=_held_out(ratings, positive, tested, history, (rule.coins, keys)),
        rule=rule,
    )


def _check_user_split(validation: float, test: float, minimum_positives: int, history: float) -> None:
    if not (min(validation, test) > 0 and minimum_positives >= 2 and 0 < history < 1):
        raise InputError(
            "a split over users needs shares of validation and test > 0, minimum_positives >= 2 "
            f"and 0 < history < 1, got {validation:g}, {test:g}, {minimum_positives} and {history:g}."
        )


def _cohort(ratings: Ratings, chosen: BoolArray, user_keys: BitArray) -> Cohort:
    part = ratings.some(chosen)
    return sorted_cohort(part.users, part.items, part.values, user_keys=user_keys, n_items=ratings.n_items)


def _ones(ratings: Ratings, chosen: BoolArray, user_keys: BitArray) -> Cohort:
    """The chosen pairs as positive feedback, one row per user of the data set."""
    users, items = ratings.users[chosen], ratings.items[chosen]
    ones = np.ones(items.size, dtype=np.float32)
    return sorted_cohort(users, items, ones, user_keys=user_keys, n_items=ratings.n_items)


def _held_out(
    ratings: Ratings,
    positive: BoolArray,
    whom: BoolArray,
    history: float,
    drawn: tuple[SplitCoins, BitArray],
) -> HeldOut:
    """Divide the positives of some users into history and target."""
    (coins, every_key), users = drawn, np.flatnonzero(whom)
    row_of_user = np.full(ratings.n_users, -1, dtype=np.int32)
    row_of_user[users] = np.arange(users.size, dtype=np.int32)
    wanted = positive & whom[ratings.users]
    rows, items, keys = row_of_user[ratings.users[wanted]], ratings.items[wanted], every_key[users]
    counts = np.bincount(rows, minlength=users.size)
    # The small number keeps 0.2 * 5, a little below 1 in floating point, from becoming 0.
    n_target = np.maximum(np.floor((1 - history) * counts + 1e-9), 1)
    words = coins.of_ratings(keys, id_keys(ratings.item_ids.tolist(), Kind.ITEM), rows, items)
    smallest_first = np.lexsort((words, rows))
    rank = np.empty(rows.size, dtype=np.int64)
    rank[smallest_first] = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    hidden = rank < np.minimum(n_target, counts - 1)[rows]
    ones = np.ones(rows.size, dtype=np.float32)
    known, found = (
        sorted_cohort(rows[part], items[part], ones[part], user_keys=keys, n_items=ratings.n_items)
        for part in (~hidden, hidden)
    )
    return HeldOut(users=users.astype(np.int32), history=known, target=found)
