"""What a split leaves: rows to learn from, rows to be judged on, and by which rule they fell."""

from dataclasses import dataclass

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.data.ratings import KeyedRatings, Triples
from fedboard.simulations.data.splits.coins import SplitRule
from fedboard.simulations.data.splits.times import TimeRule


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
    rule: SplitRule | TimeRule | None = None
    """How ratings fell, by coins or by time; None where they fell in another way, which secret noise refuses."""
    rows: KeyedRatings | None = None
    """All of them with their times, where they fell by time, so that this can be recomputed."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldOut:
    """Users to judge by, each with a known and a hidden part; where users fell by coins the board never saw them.
    Private.
    """

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
    """One row per user of the data set, all ratings 1.0; empty for dropped users, and those held out by coins."""
    validation: HeldOut
    """For choosing hyper-parameters."""
    test: HeldOut
    """For the reported result."""
    rule: SplitRule | TimeRule | None = None
    """How users, or their positives, fell; None where they fell in another way, which secret noise refuses."""
    rows: KeyedRatings | None = None
    """All positives with their times, where they fell by time, so that this can be recomputed."""
