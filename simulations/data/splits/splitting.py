"""The two splits that publications use: over ratings for rating prediction, over users for top-k lists.

What is held out never gives anything to a release, so a split is part of the mechanism. Each rating falls by a
coin of its own user and item, each user by a coin of their own (``coins``), or by when it was given (``times``).
What is done with a user's ratings looks at their ratings alone. So users are split block by block, or all at once,
as one block: whoever is added to a data set or removed from it, everybody else's ratings stay in their parts.
Shares are therefore expected, not exact, and so is the number of users held out.

Splits depend neither on the order of rows in a file nor on numbers of users and items. Users and items without
training ratings keep their numbers.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, Float32Array, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.data.ratings import KeyedRatings
from fedboard.simulations.data.splits.coins import SplitRule
from fedboard.simulations.data.splits.parts import HeldOut, RatingSplit, UserSplit
from fedboard.simulations.data.splits.times import Parts, TimeRule

_COMPILED_FROM = 1 << 16
"""Ratings from which on loading the compiler takes less than it saves."""
DEFAULT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSplitting:
    """A split over ratings (the ML-10M protocol: 80/10/10), of some users at a time. Public.

    Guarantee: which part a rating falls into depends on the rule, its user's id and its item's id alone, or on when
    that user rated what.

    Row numbers of what it gives are those of the block; ``first_row`` of the block is the first one's number.
    """

    rule: SplitRule | TimeRule

    def train(self, block: Cohort, item_keys: BitArray) -> Cohort:
        """Return what the board is learnt from, compiled where there are many ratings; by coins alone. Private.

        Args:
            block: all ratings of some users, with their keys. Private.
            item_keys: of the catalogue, uint64, shape (n_items,), see ``id_keys``. Public.
        """
        rows = KeyedRatings(block=block, item_keys=item_keys)
        assert isinstance(self.rule, SplitRule)
        if block.n_ratings < _COMPILED_FROM or not has_compiler():
            return block.where(_parts(rows, self.rule)[0])
        from fedboard.simulations.data.splits import compiled_coins  # takes numba half a second

        indptr, items, ratings = _whole(block)
        user, item = self.rule.coins.halves(block.keys, item_keys)
        arc = np.array(self.rule.held_out_arc(), dtype=np.uint64)
        ends, chosen, values = np.empty_like(indptr), np.empty_like(items), np.empty_like(ratings)
        compiled_coins.fill_learnt(indptr, items, ratings, *user, *item, arc, ends, chosen, values)
        kept = slice(0, int(ends[-1]))
        return replace(block, indptr=ends, items=chosen[kept], ratings=values[kept])

    def split(self, block: Cohort, item_keys: BitArray, times: IntArray | None = None) -> RatingSplit:
        """Return all parts of a block, which share nothing. Private.

        Args:
            block: as of ``train``.
            item_keys: as of ``train``.
            times: when each rating was given, where that decides; int64, shape (n_ratings,). Private.
        """
        rows = KeyedRatings(block=block, item_keys=item_keys, times=times)
        learnt, validated, tested = _parts(rows, self.rule)
        train = block.where(learnt)
        return RatingSplit(
            train=train,
            train_and_validation=block.where(~tested) if validated.any() else train,
            validation=rows.some(validated),
            test=rows.some(tested),
            rule=self.rule,
            rows=None if times is None else rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSplitting:
    """A split of positive feedback: by coins whole users are held out (the protocol of Liang et al. for ML-20M), by
    time each user's later positives. Public.

    Ratings above ``positive_above`` become 1.0, all others are dropped, and so are users with fewer than
    ``minimum_positives`` of them. By coins, a held-out user with n positives has floor((1 - history) n), at least
    one and not all, as target: those with the smallest coins. By time a user is learnt from, and judged on what
    followed: for validation their history is their training part, for the test that and their validation part;
    judged is who has a history and something to find.

    Guarantee: what becomes of a user depends on the rule, their id and their own ratings alone.

    Row numbers as of ``RatingSplitting``.

    Reference: D. Liang et al. (2018), Variational autoencoders for collaborative filtering, arXiv:1802.05814.
    """

    rule: SplitRule | TimeRule
    """With coins its shares are those of users with enough positives."""
    positive_above: float = 3.5
    """Ratings above it count."""
    presence: bool = False
    """Every entry counts."""
    minimum_positives: int = 5
    """>= 2."""
    history: float = 0.8
    """Share of a held-out user's positives that a model may look at, in (0, 1)."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: nobody would be held out, or nothing of theirs.
        """
        shares = (self.rule.validation, self.rule.test) if isinstance(self.rule, SplitRule) else (1.0, 1.0)
        if not (min(shares) > 0 and self.minimum_positives >= 2 and 0 < self.history < 1):
            raise InputError(
                "a split over users needs shares of validation and test > 0, minimum_positives >= 2 and "
                f"0 < history < 1, got {shares[0]:g}, {shares[1]:g}, {self.minimum_positives} and {self.history:g}."
            )

    def train(self, block: Cohort, item_keys: BitArray) -> Cohort:
        """Return what the board is learnt from, arguments as of ``RatingSplitting.train``. Private."""
        rows = KeyedRatings(block=block, item_keys=item_keys)
        positive = self._positive(rows)
        return rows.ones(positive & self._users(rows, positive)[0][rows.users])

    def split(self, block: Cohort, item_keys: BitArray, times: IntArray | None = None) -> UserSplit:
        """Return all parts of a block, arguments as of ``RatingSplitting.split``. Private."""
        rows = KeyedRatings(block=block, item_keys=item_keys, times=times)
        positive = self._positive(rows)
        if times is not None:
            return self._by_time(rows, positive, times)
        learning, validated, tested = self._users(rows, positive)
        return UserSplit(
            train=rows.ones(positive & learning[rows.users]),
            validation=self._held_out(rows, positive, validated),
            test=self._held_out(rows, positive, tested),
            rule=self.rule,
        )

    def _positive(self, rows: KeyedRatings) -> BoolArray:
        """Which ratings count: positive ones of users who have enough of them."""
        block = rows.block
        found = np.ones(block.n_ratings, np.bool_)
        if not self.presence:
            found = np.asarray(block.ratings > np.float32(self.positive_above))
        enough = np.bincount(rows.users[found], minlength=block.n_users) >= self.minimum_positives
        kept: BoolArray = found & enough[rows.users]
        return kept

    def _users(self, rows: KeyedRatings, positive: BoolArray) -> Parts:
        """Of whom is learnt, who is for validation, and who for the test: bool, shape (n_users,)."""
        assert isinstance(self.rule, SplitRule)
        has_any = np.bincount(rows.users[positive], minlength=rows.block.n_users) > 0
        learning, validated, tested = self.rule.parts(self.rule.coins.of_users(rows.block.keys))
        return has_any & learning, has_any & validated, has_any & tested

    def _held_out(self, rows: KeyedRatings, positive: BoolArray, whom: BoolArray) -> HeldOut:
        """Divide the positives of some users into history and target."""
        assert isinstance(self.rule, SplitRule)
        target = positive & whom[rows.users]
        users, items = rows.users[target], rows.block.items[target]
        counts = np.bincount(users, minlength=rows.block.n_users)
        # The small number keeps 0.2 * 5, a little below 1 in floating point, from becoming 0.
        hidden = np.maximum(np.floor((1 - self.history) * counts + 1e-9), 1)
        words = self.rule.coins.of_ratings(rows.block.keys, rows.item_keys, users, items)
        rank = np.empty(users.size, dtype=np.int64)
        rank[np.lexsort((words, users))] = np.arange(users.size) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        known = target.copy()
        target[target] = rank < np.minimum(hidden, counts - 1)[users]
        return _judged(rows, known & ~target, target)

    def _by_time(self, rows: KeyedRatings, positive: BoolArray, times: IntArray) -> UserSplit:
        kept = replace(rows, block=rows.block.where(positive), times=times[positive])
        learnt, validated, tested = _parts(kept, self.rule)
        return UserSplit(
            train=kept.ones(learnt),
            validation=_judged(kept, learnt, validated),
            test=_judged(kept, ~tested, tested),
            rule=self.rule,
            rows=kept,
        )


Splitting: TypeAlias = RatingSplitting | UserSplitting


def _parts(rows: KeyedRatings, rule: SplitRule | TimeRule) -> Parts:
    """Training, validation, test: bool, as many as ratings."""
    if isinstance(rule, SplitRule):
        block = rows.block
        return rule.parts(rule.coins.of_ratings(block.keys, rows.item_keys, rows.users, block.items))
    return rule.parts_of(rows)


def _judged(rows: KeyedRatings, known: BoolArray, hidden: BoolArray) -> HeldOut:
    """Those users who have both something that is known and something that is to be found."""
    n_users = rows.block.n_users
    both = np.bincount(rows.users[known], minlength=n_users) > 0
    both &= np.bincount(rows.users[hidden], minlength=n_users) > 0
    users = np.flatnonzero(both)

    def theirs(chosen: BoolArray) -> Cohort:
        ones = rows.ones(chosen & both[rows.users])  # nobody else has any
        ends = np.append(ones.indptr[users], ones.n_ratings)
        return replace(ones, indptr=ends, user_keys=ones.keys[users], first_row=0)

    return HeldOut(users=users.astype(np.int32), history=theirs(known), target=theirs(hidden))


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
