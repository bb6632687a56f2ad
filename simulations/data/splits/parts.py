"""What a split leaves: rows to learn from, rows to be judged on, and by which rule they fell."""

from dataclasses import dataclass

from fedboard.common.arrays import BitArray, BoolArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.ratings import KeyedRatings, Triples
from fedboard.simulations.data.splits.coins import Fold, SplitCoins, below, first_words
from fedboard.simulations.data.splits.times import TimeRule


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """By which coins a split was made, for whoever has to see that it holds. Public."""

    coins: SplitCoins
    validation: float
    """Probability of this part: of each rating, or of each user; in [0, 1)."""
    test: float
    """Likewise; with folds that of one of them."""
    fold: Fold | None = None
    """Which coins mean test; None: the smallest."""

    def __post_init__(self) -> None:
        """Check the shares.

        Raises:
            InputError: below 0, or they leave nothing to learn from.
        """
        if not (min(self.validation, self.test) >= 0 and self.validation + self.test < 1):
            raise InputError(
                "the shares of validation and test must be >= 0 and add up to less than 1, "
                f"got {self.validation:g} and {self.test:g}; lower them."
            )

    def parts(self, words: BitArray) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Which coins mean training, validation, test; bool. What is tested does not depend on the other share."""
        if self.fold is not None:
            test, held_out = self.fold.held_out(words, validation=self.validation)
        else:
            test, held_out = below(words, self.test), below(words, self.test + self.validation)
        return ~held_out, held_out & ~test, test

    def held_out_arc(self) -> tuple[int, int]:
        """Where on the circle of coins what is not learnt from lies, as ``parts`` has it: a word, and how many
        from it on; both below 2^64.
        """
        if self.fold is None:
            return 0, first_words(self.test + self.validation)
        return self.fold.arc(validation=self.validation)


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
