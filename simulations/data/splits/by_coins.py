"""The two splits that publications use: over ratings for rating prediction, over users for top-k lists.

What is held out never gives anything to a release, so a split is part of the mechanism. Each rating falls by a coin
of its own user and item, each user by a coin of her own (``coins``), and what is done
with a user's ratings looks at her ratings alone: whoever is added to a data set or removed from it, everybody
else's ratings stay in their parts. So shares are expected, not exact, and so is the number of users held out.

Splits depend neither on the order of rows in a file nor on numbers of users and items. Users and items without
training ratings keep their numbers.
"""

from dataclasses import replace

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, Float32Array, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.data.ratings import KeyedRatings, Ratings, Triples, sorted_cohort
from fedboard.simulations.data.splits.coins import Fold, SplitCoins
from fedboard.simulations.data.splits.parts import HeldOut, RatingSplit, SplitRule, UserSplit

_COMPILED_FROM = 1 << 16
"""Ratings from which on loading the compiler takes less than it saves."""
DEFAULT_SHARE = 0.1
DEFAULT_HISTORY = 0.8
FEWEST_POSITIVES = 5


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
    rule = rule_of_ratings(seed=seed, validation=validation, test=test, fold=fold, own_test=own)
    return ratings_split_by(ratings.keyed(), rule, test=ratings.test)


def rule_of_ratings(
    *,
    seed: int,
    validation: float | None = None,
    test: float | None = None,
    fold: Fold | None = None,
    own_test: bool = False,
) -> SplitRule:
    """By which coins ``split_ratings`` goes. Public.

    Raises:
        InputError: shares below 0, or that leave nothing to learn from.
    """
    wanted = test if fold is None else fold.share
    return SplitRule(
        coins=SplitCoins(seed),
        validation=(0.0 if own_test else DEFAULT_SHARE) if validation is None else validation,
        test=0.0 if own_test else DEFAULT_SHARE if wanted is None else wanted,
        fold=fold,
    )


def ratings_split_by(rows: KeyedRatings, rule: SplitRule, *, test: Triples | None = None) -> RatingSplit:
    """The same of any users' ratings; ``test`` is a part that the data set brings of its own. Private."""
    learnt, validated, tested = _parts_of_ratings(rows, rule)
    train = rows.cohort(learnt)
    return RatingSplit(
        train=train,
        train_and_validation=train if rule.validation == 0 else rows.cohort(~tested),
        validation=rows.some(validated),
        test=rows.some(tested) if test is None else test,
        rule=rule,
    )


def ratings_learnt_by(rows: KeyedRatings, rule: SplitRule) -> Cohort:
    """The training part of ``ratings_split_by`` alone. Private."""
    return rows.cohort(_parts_of_ratings(rows, rule)[0])


def _parts_of_ratings(rows: KeyedRatings, rule: SplitRule) -> tuple[BoolArray, BoolArray, BoolArray]:
    return rule.parts(rule.coins.of_ratings(rows.user_keys, rows.item_keys, rows.users, rows.items))


def split_users(
    ratings: Ratings,
    *,
    seed: int,
    validation: float = DEFAULT_SHARE,
    test: float = DEFAULT_SHARE,
    positive_above: float = 3.5,
    minimum_positives: int = FEWEST_POSITIVES,
    history: float = DEFAULT_HISTORY,
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
    return users_split_by(
        ratings.keyed(),
        ratings.positive(positive_above),
        rule,
        minimum_positives=minimum_positives,
        history=history,
    )


def rule_of_users(*, seed: int, share: float, fold: Fold | None = None) -> SplitRule:
    """By which coins ``split_users`` goes where ``share`` is both of validation and of test. Public.

    Raises:
        InputError: a share is out of range.
    """
    test = share if fold is None else fold.share
    _check_user_split(share, test, FEWEST_POSITIVES, DEFAULT_HISTORY)
    return SplitRule(coins=SplitCoins(seed), validation=share, test=test, fold=fold)


def users_split_by(
    rows: KeyedRatings,
    positive: BoolArray,
    rule: SplitRule,
    *,
    minimum_positives: int = FEWEST_POSITIVES,
    history: float = DEFAULT_HISTORY,
) -> UserSplit:
    """The same of any users' ratings, of which ``positive`` (bool, shape (n_ratings,)) count. Private."""
    learning, validated, tested = _parts_of_users(rows, positive, rule, minimum_positives)
    return UserSplit(
        train=rows.ones(positive & learning[rows.users]),
        validation=_held_out(rows, positive, validated, history, rule.coins),
        test=_held_out(rows, positive, tested, history, rule.coins),
        rule=rule,
    )


def users_learnt_by(
    rows: KeyedRatings, positive: BoolArray, rule: SplitRule, *, minimum_positives: int = FEWEST_POSITIVES
) -> Cohort:
    """The training part of ``users_split_by`` alone. Private."""
    learning = _parts_of_users(rows, positive, rule, minimum_positives)[0]
    return rows.ones(positive & learning[rows.users])


def _parts_of_users(
    rows: KeyedRatings, positive: BoolArray, rule: SplitRule, minimum_positives: int
) -> tuple[BoolArray, BoolArray, BoolArray]:
    eligible = np.bincount(rows.users[positive], minlength=rows.n_users) >= minimum_positives
    learning, validated, tested = (
        eligible & part for part in rule.parts(rule.coins.of_users(rows.user_keys))
    )
    return learning, validated, tested


def _check_user_split(validation: float, test: float, minimum_positives: int, history: float) -> None:
    if not (min(validation, test) > 0 and minimum_positives >= 2 and 0 < history < 1):
        raise InputError(
            "a split over users needs shares of validation and test > 0, minimum_positives >= 2 "
            f"and 0 < history < 1, got {validation:g}, {test:g}, {minimum_positives} and {history:g}."
        )


def _held_out(
    ratings: KeyedRatings, positive: BoolArray, whom: BoolArray, history: float, coins: SplitCoins
) -> HeldOut:
    """Divide the positives of some users into history and target."""
    users = np.flatnonzero(whom)
    row_of_user = np.full(ratings.n_users, -1, dtype=np.int32)
    row_of_user[users] = np.arange(users.size, dtype=np.int32)
    wanted = positive & whom[ratings.users]
    keys, items = ratings.user_keys[users], ratings.items[wanted]
    rows = row_of_user[ratings.users[wanted]]
    counts = np.bincount(rows, minlength=users.size)
    # The small number keeps 0.2 * 5, a little below 1 in floating point, from becoming 0.
    n_target = np.maximum(np.floor((1 - history) * counts + 1e-9), 1)
    words = coins.of_ratings(keys, ratings.item_keys, rows, items)
    smallest_first = np.lexsort((words, rows))
    rank = np.empty(rows.size, dtype=np.int64)
    rank[smallest_first] = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    hidden = rank < np.minimum(n_target, counts - 1)[rows]
    ones = np.ones(rows.size, dtype=np.float32)
    known, found = (
        sorted_cohort(rows[part], items[part], ones[part], user_keys=keys, n_items=ratings.item_keys.size)
        for part in (~hidden, hidden)
    )
    return HeldOut(users=users.astype(np.int32), history=known, target=found)


def learnt_of_block(block: Cohort, item_keys: BitArray, rule: SplitRule) -> Cohort:
    """``ratings_learnt_by`` of all ratings of some users, bit for bit, compiled where there are many. Private.

    Args:
        block: with the users' keys. Private.
        item_keys: uint64, shape (n_items,), see ``id_keys``. Public.
        rule: public.
    """
    _require_item_keys(block, item_keys)
    if block.n_ratings < _COMPILED_FROM or not has_compiler():
        return ratings_learnt_by(keyed_block(block, item_keys), rule)
    from fedboard.simulations.data.splits import compiled_coins  # takes numba half a second

    indptr, items, ratings = _whole(block)
    user, item = rule.coins.halves(block.keys, item_keys)
    arc = np.array(rule.held_out_arc(), dtype=np.uint64)
    ends, chosen, values = np.empty_like(indptr), np.empty_like(items), np.empty_like(ratings)
    compiled_coins.fill_learnt(indptr, items, ratings, *user, *item, arc, ends, chosen, values)
    kept = slice(0, int(ends[-1]))
    return replace(block, indptr=ends, items=chosen[kept], ratings=values[kept])


def _whole(block: Cohort) -> tuple[IntArray, IndexArray, Float32Array]:
    """The block's arrays as compiled code reads them, which looks at no bounds: nothing else may get past.

    Raises:
        InputError: rows that are not the whole of it, or items that are not in the catalogue.
    """
    indptr, items = np.ascontiguousarray(block.indptr, np.int64), np.ascontiguousarray(block.items, np.int32)
    if indptr[0] != 0 or indptr[-1] != items.size or np.any(np.diff(indptr) < 0):
        raise InputError(
            "a block of users needs rows that follow each other from its first rating to its last"
        )
    if items.min() < 0 or items.max() >= block.n_items:
        raise InputError("a block of users has an item that is not in the catalogue")
    return indptr, items, np.ascontiguousarray(block.ratings, np.float32)


def keyed_block(block: Cohort, item_keys: BitArray) -> KeyedRatings:
    """All ratings of some users with what their coins are thrown by.

    Raises:
        InputError: there is not a key for each item.
    """
    _require_item_keys(block, item_keys)
    return KeyedRatings(
        users=block.user_of_entry(),
        items=block.items,
        values=block.ratings,
        user_keys=block.keys,
        item_keys=item_keys,
        times=np.zeros(0, np.int64),
    )


def _require_item_keys(block: Cohort, item_keys: BitArray) -> None:
    if item_keys.shape != (block.n_items,):
        raise InputError("a split needs one key for each item of the catalogue")
