"""A quantile of what users have, by weighted rank, where even how much they have is private.

Each user gives the weight of her numbers by public candidate, a row >= 0 of sum at most her bound. With B the
weight up to a candidate and T all weight, a candidate is as good as ``B - q T`` is near 0; a user who comes or goes
moves that by at most ``max(q, 1 - q)`` times her weight, whatever T is, so T is neither divided by nor released.

Reference: Epasto et al. (2020), Algorithm 4 (there T is public and 1).

By bisection it takes several rounds, each of which halves what is left of the candidates by two noised sums. A
round asks each user for her weight up to the candidate in the middle and for the rest, a row >= 0 of sum at most
her bound. Of n candidates ``ceil(log2 n)`` rounds leave one. The noise of a histogram over all of them adds up
over n numbers, this one's over the rounds: with 201 candidates a rank error of about a tenth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.normal_quantiles import quantile_of_logarithm
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.pure import ExponentialRelease
from fedboard.common.queries.collection import (
    CONFIDENCE,
    ROW_BOUND,
    Answer,
    Collection,
    Mechanism,
    Subject,
    gaussian_total,
    numbers_of,
    whole_rows,
)
from fedboard.common.queries.mean import require_bound

_FINEST_TARGET = 10_000
MOST_CANDIDATES = 1 << 12
_SAME = 1e-6
"""Part of the gap above a candidate that still counts as the candidate: ratings are float32."""


@dataclass(frozen=True, slots=True)
class Target:
    """A share q in (0, 1) as a ratio of small whole numbers, so that ranks are compared exactly. Public."""

    share: float

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: not in (0, 1).
        """
        if not 0.0 < self.share < 1.0 or self.ratio in (0, 1):
            raise InputError(f"the share of a quantile must be in (0, 1), to 1/10000, got {self.share}")

    @property
    def ratio(self) -> Fraction:
        """The nearest ratio with a denominator of at most 10 000."""
        return Fraction(self.share).limit_denominator(_FINEST_TARGET)

    def penalties(self, histogram: Sequence[int]) -> list[int]:
        """How far each cell is from containing the quantile: ``max(B_before - q T, q T - B, 0)``, times a constant.

        B is the weight up to and with the cell, T all weight. A cell that the quantile lies in has 0, also where
        many values are equal; where all values differ this is the rank's distance from q, up to one weight.

        Args:
            histogram: whole weights by cell, ascending cells. Private.
        """
        numerator, denominator = self.ratio.as_integer_ratio()
        wanted, before, found = numerator * sum(histogram), 0, []
        for weight in histogram:
            after = before + denominator * weight
            found.append(max(before - wanted, wanted - after, 0))
            before = after
        return found

    def sensitivity(self, largest_weight: int, adjacency: Adjacency) -> int:
        """Largest change of a penalty when a user of at most this total weight comes, goes or is exchanged.

        A user of total weight t with b of it up to a cell moves ``B - q T`` by ``b - q t``, which lies in
        ``[-q t, (1 - q) t]``: coming or going by at most ``max(q, 1 - q) t``, exchanged by at most t.
        """
        numerator, denominator = self.ratio.as_integer_ratio()
        if adjacency is Adjacency.ADD_REMOVE:
            return max(numerator, denominator - numerator) * largest_weight
        return denominator * largest_weight


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileQuestion:
    """What is the q-th quantile? Every field is public."""

    subject: Subject
    target: Target
    candidates: tuple[float, ...]
    """The possible answers, ascending. A number belongs to the first that is not below it, or to the last."""
    bound: float = 1.0
    """h: ratings beyond which a user weighs no more; 1 for the other subjects."""
    centre: float = 0.0
    """Of the rating scale; for norms."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range.
        """
        candidates = np.array(self.candidates, dtype=np.float64)
        if not 2 <= candidates.size <= MOST_CANDIDATES or not np.isfinite(candidates).all():
            raise InputError(
                f"a quantile needs 2 to {MOST_CANDIDATES} finite candidates, got {candidates.size}"
            )
        if not np.all(np.diff(candidates) > 0):
            raise InputError("the candidates of a quantile must be ascending")
        require_bound(self.subject, self.bound)

    @property
    def title(self) -> str:
        """What it asks, in a few words."""
        return f"{self.target.share:g} quantile of {self.subject}"

    def collection(self, name: str) -> Collection:
        """What each user gives."""
        return Collection(name=name, width=len(self.candidates))

    def rows(self, cohort: Cohort) -> IntArray:
        """Each user's row, int64, shape (n_users, n_candidates), sum <= ``ROW_BOUND``. Private."""
        numbers = numbers_of(self.subject, cohort, bound=self.bound, centre=self.centre)
        candidates, width = np.array(self.candidates), len(self.candidates)
        reach = candidates + _SAME * np.append(np.diff(candidates), 0.0)
        cells = np.searchsorted(reach, numbers.values, side="left")
        places = numbers.users.astype(np.int64) * width + np.minimum(cells, width - 1)
        weights = np.bincount(places, weights=numbers.weights, minlength=numbers.n_users * width)
        units = np.trunc(weights * (ROW_BOUND / self.bound)).astype(np.int64)
        return whole_rows(units, n_users=numbers.n_users, width=width)

    def release(
        self, name: str, mechanism: Mechanism, *, noise_multiplier: float, adjacency: Adjacency
    ) -> ExponentialRelease | GaussianRelease:
        """The release through which the answer, or the histogram that it is read from, leaves."""
        if mechanism is Mechanism.PURE:
            return ExponentialRelease(
                name=name,
                candidates=len(self.candidates),
                score_sensitivity=self.target.sensitivity(ROW_BOUND, adjacency),
                adjacency=adjacency,
                noise_multiplier=noise_multiplier,
                covers=f"{self.title}{weighted(self)}",
            )
        return gaussian_total(
            name,
            width=len(self.candidates),
            bound=self.bound,
            adjacency=adjacency,
            noise_multiplier=noise_multiplier,
            covers=f"weight by candidate, for the {self.title}{weighted(self)}",
        )

    def answer(
        self,
        sums: IntArray,
        *,
        name: str,
        mechanism: Mechanism,
        noise_multiplier: float,
        ledger: Ledger,
        noise: NoiseSource,
    ) -> Answer:
        """Book, draw, and say what follows; arguments and failures as ``MeanQuestion.answer``."""
        adjacency = ledger.budget.adjacency
        release = self.release(name, mechanism, noise_multiplier=noise_multiplier, adjacency=adjacency)
        if isinstance(release, ExponentialRelease):
            penalties = self.target.penalties([int(weight) for weight in sums.ravel()])
            chosen = release.book(ledger, noise).choose(penalties)
            scale = release.score_scale * self._weight_of_penalty
            error = scale * math.log(len(self.candidates) / (1.0 - CONFIDENCE))
            told = f"exponential mechanism, e times less likely for each {scale:.6g} of missed weight"
            return Answer(value=self.candidates[chosen], interval=None, rank_error=error, noise=told)
        noised = release.book(ledger, noise).publish(sums.reshape(1, -1))[0]
        return self.read(noised, deviation=release.noise_stddev * release.grid_step)

    def read(self, noised: FloatArray, *, deviation: float) -> Answer:
        """What follows from the histogram with Gaussian noise.

        Args:
            noised: float64, shape (n_candidates,). Public.
            deviation: of the noise in each number, in their unit; > 0.
        """
        return Answer(
            value=self.candidates[self._nearest(noised)],
            interval=None,
            rank_error=self._gaussian_error(deviation),
            noise=f"Gaussian, deviation {deviation:.6g} on the weight of each candidate",
        )

    @property
    def _weight_of_penalty(self) -> float:
        return self.bound / (ROW_BOUND * self.target.ratio.denominator)

    def _nearest(self, histogram: FloatArray) -> int:
        """The candidate whose noised penalty is least."""
        after = np.cumsum(histogram) - float(self.target.ratio) * histogram.sum()
        before = after - histogram
        return int(np.argmin(np.maximum(before, -after)))

    def _gaussian_error(self, deviation: float) -> float:
        """Twice what no noised ``B - q T`` of any candidate misses by, with probability ``CONFIDENCE``."""
        n, share = len(self.candidates), float(self.target.ratio)
        largest = deviation * math.sqrt(n) * max(share, 1.0 - share)
        return 2.0 * largest * -quantile_of_logarithm(math.log((1.0 - CONFIDENCE) / (2.0 * n)))


def weighted(question: QuantileQuestion) -> str:
    """How much a user weighs at most, for the end of a phrase; empty where that is one number."""
    if question.subject is not Subject.RATINGS:
        return ""
    return f", no user weighing more than {question.bound:g} ratings"


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
