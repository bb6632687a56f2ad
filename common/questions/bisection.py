"""A quantile by bisection: several rounds, each of which halves what is left of the candidates by two noised sums.

A round asks each user for her weight up to the candidate in the middle and for the rest, a row >= 0 of sum at most
her bound. Of n candidates ``ceil(log2 n)`` rounds leave one. The noise of a histogram over all of them adds up over
n numbers, this one's over the rounds: with 201 candidates a rank error of about a tenth.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.normal_quantiles import quantile_of_logarithm
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.questions.answer import CONFIDENCE, Answer
from fedboard.common.questions.collection import gaussian_total
from fedboard.common.questions.quantile import QuantileQuestion, weighted

WIDTH = 2
"""Numbers that a user gives in a round."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """The candidates that are left, by their first and their last number. Public."""

    first: int
    last: int

    @property
    def middle(self) -> int:
        """Up to which weight is asked for."""
        return (self.first + self.last) // 2

    @property
    def settled(self) -> bool:
        """Whether one is left."""
        return self.first == self.last


@dataclass(frozen=True, slots=True)
class Bisection:
    """A question about a quantile, asked in rounds. Every field is public."""

    question: QuantileQuestion

    @property
    def n_rounds(self) -> int:
        """After which one candidate is left."""
        return math.ceil(math.log2(len(self.question.candidates)))

    @property
    def start(self) -> Bracket:
        """All candidates."""
        return Bracket(0, len(self.question.candidates) - 1)

    def rows(self, cohort: Cohort, bracket: Bracket) -> IntArray:
        """Each user's row, int64, shape (n_users, 2), sum <= ``ROW_BOUND``. Private."""
        histogram = self.question.rows(cohort)
        below = histogram[:, : bracket.middle + 1].sum(axis=1)
        return np.stack([below, histogram.sum(axis=1) - below], axis=1)

    def release(self, name: str, *, noise_multiplier: float, adjacency: Adjacency) -> GaussianRelease:
        """The release through which the two sums of one round leave."""
        question = self.question
        return gaussian_total(
            name,
            width=WIDTH,
            bound=question.bound,
            adjacency=adjacency,
            noise_multiplier=noise_multiplier,
            covers=f"weight up to a candidate and above it, for the {question.title}{weighted(question)}",
        )

    def narrowed(self, bracket: Bracket, noised: FloatArray) -> Bracket:
        """What is left after a round.

        Args:
            bracket: that the round asked about.
            noised: float64, shape (2,), the round's sums with their noise. Public.
        """
        share = float(self.question.target.ratio)
        reached = (1.0 - share) * float(noised[0]) - share * float(noised[1]) >= 0.0
        if reached:
            return Bracket(bracket.first, bracket.middle)
        return Bracket(bracket.middle + 1, bracket.last)

    def read(self, bracket: Bracket, *, deviation: float) -> Answer:
        """What follows from what is left. Where rounds were lost that is several, and the interval is theirs.

        Each round took ``B - q T`` with noise for a number >= 0 or < 0. With probability ``CONFIDENCE`` no noise of
        them all was larger than the rank error, so the candidate that is left misses the quantile by no more.

        Args:
            bracket: after the last round.
            deviation: of the noise in each sum, in their unit; > 0.
        """
        candidates, share = self.question.candidates, float(self.question.target.ratio)
        beyond = -quantile_of_logarithm(math.log((1.0 - CONFIDENCE) / (2.0 * self.n_rounds)))
        ends = (candidates[bracket.first], candidates[bracket.last])
        return Answer(
            value=candidates[bracket.middle],
            interval=None if bracket.settled else ends,
            rank_error=float(deviation * math.hypot(1.0 - share, share) * beyond),
            noise=f"Gaussian, deviation {deviation:.6g} on each of two sums in each of {self.n_rounds} rounds",
        )
