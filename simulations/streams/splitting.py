"""What is held out of a stream, block by block.

A user's part depends on her alone (``fedboard.simulations.data.splits.by_coins``), so that what any blocks give
together is what a split of the whole data set gives.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import BitArray, BoolArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.splits import RatingSplit, SplitRule, UserSplit
from fedboard.simulations.data.splits.by_coins import (
    DEFAULT_HISTORY,
    FEWEST_POSITIVES,
    keyed_block,
    learnt_of_block,
    ratings_split_by,
    rule_of_ratings,
    rule_of_users,
    users_learnt_by,
    users_split_by,
)
from fedboard.simulations.data.stream import UserStream
from fedboard.simulations.problem import fold_of, require_fitting_split


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSplitting:
    """``split_ratings``, of one block of users at a time. Public.

    Row numbers of what it gives are those of the block; ``first_row`` of the block is the first one's number.
    """

    rule: SplitRule

    def train(self, block: Cohort, item_keys: BitArray) -> Cohort:
        """What the board is learnt from. Private.

        Args:
            block: all ratings of some users, with their keys. Private.
            item_keys: of the catalogue, uint64, shape (n_items,), see ``id_keys``. Public.
        """
        return _placed(learnt_of_block(block, item_keys, self.rule), block)

    def split(self, block: Cohort, item_keys: BitArray) -> RatingSplit:
        """All parts of a block; arguments as of ``train``. Private."""
        split = ratings_split_by(keyed_block(block, item_keys), self.rule)
        return replace(
            split,
            train=_placed(split.train, block),
            train_and_validation=_placed(split.train_and_validation, block),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSplitting:
    """``split_users``, of one block of users at a time. Public. Row numbers as of ``RatingSplitting``."""

    rule: SplitRule
    positive_above: float
    """Ratings above it count."""
    presence: bool
    """Every entry counts."""
    minimum_positives: int = FEWEST_POSITIVES
    history: float = DEFAULT_HISTORY

    def train(self, block: Cohort, item_keys: BitArray) -> Cohort:
        """What the board is learnt from, arguments as of ``RatingSplitting.train``. Private."""
        rows, positive = keyed_block(block, item_keys), self._positive(block)
        learnt = users_learnt_by(rows, positive, self.rule, minimum_positives=self.minimum_positives)
        return _placed(learnt, block)

    def split(self, block: Cohort, item_keys: BitArray) -> UserSplit:
        """All parts of a block, arguments as of ``RatingSplitting.train``. Private."""
        split = users_split_by(
            keyed_block(block, item_keys),
            self._positive(block),
            self.rule,
            minimum_positives=self.minimum_positives,
            history=self.history,
        )
        return replace(split, train=_placed(split.train, block))

    def _positive(self, block: Cohort) -> BoolArray:
        if self.presence:
            return np.ones(block.items.size, np.bool_)
        return np.asarray(block.ratings > np.float32(self.positive_above))


@dataclass(frozen=True, slots=True)
class Everything:
    """All is learnt from, and nothing held out: of rows that were split before."""

    def train(self, block: Cohort, item_keys: BitArray) -> Cohort:
        """The block."""
        return block


Splitting: TypeAlias = RatingSplitting | UserSplitting


def splitting_of(config: SimulationConfig, stream: UserStream) -> Splitting:
    """The splitting that a configuration names.

    Raises:
        InputError: the split does not fit the feedback or the stream, or goes by time.
    """
    split, explicit = config.split, config.feedback is Feedback.EXPLICIT
    require_fitting_split(config, stream.name, presence=stream.presence)
    if split.by_time:
        raise InputError(
            "streamed ratings are split by coins, since blocks bring no times: leave out split.test_from and "
            "split.leave_last, or run without streaming"
        )
    fold = fold_of(config.split)
    if explicit:
        rule = rule_of_ratings(seed=split.seed, validation=split.validation, test=split.test, fold=fold)
        return RatingSplitting(rule=rule)
    return UserSplitting(
        rule=rule_of_users(seed=split.seed, share=split.held_out_users, fold=fold),
        positive_above=split.positive_above,
        presence=stream.presence,
    )


def _placed(part: Cohort, block: Cohort) -> Cohort:
    return replace(part, first_row=block.first_row)
