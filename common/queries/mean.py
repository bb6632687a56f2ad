"""The mean of what users have, smoothly bounded, where even how much they have is private.

Each user gives the weight of her numbers in two parts, split by where they lie in the public range: of a number x
of weight w, ``w (high - x) / (high - low)`` to the first and the rest to the second. Both are >= 0 and together at
most her bound, so one user moves the pair by at most that in L1, and in L2. The mean is ``low + (high - low) second
/ (first + second)``: nothing is divided by a private number of users before it is noised.

Reference: Epasto et al. (2020), sec. 3 (weights; their sizes are public, these are not).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.pure import LaplaceRelease
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

_STEPS = 20_001
"""Shares at which an interval is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanQuestion:
    """What is the mean? Every field is public."""

    subject: Subject
    low: float
    """Numbers below are raised to it."""
    high: float
    """Numbers above are lowered to it; > low."""
    bound: float = 1.0
    """h: ratings beyond which a user weighs no more; 1 for the other subjects."""
    centre: float = 0.0
    """Of the rating scale; for norms."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range.
        """
        if not -math.inf < self.low < self.high < math.inf:
            raise InputError(f"a question about a mean needs low < high, got {self.low} and {self.high}")
        require_bound(self.subject, self.bound)

    @property
    def title(self) -> str:
        """What it asks, in a few words."""
        return f"mean of {self.subject}"

    def collection(self, name: str) -> Collection:
        """What each user gives."""
        return Collection(name=name, width=2)

    def rows(self, cohort: Cohort) -> IntArray:
        """Each user's row, int64, shape (n_users, 2), sum <= ``ROW_BOUND``. Private."""
        numbers = numbers_of(self.subject, cohort, bound=self.bound, centre=self.centre)
        share = (np.clip(numbers.values, self.low, self.high) - self.low) / (self.high - self.low)
        parts = [
            np.bincount(numbers.users, weights=numbers.weights * part, minlength=numbers.n_users)
            for part in (1.0 - share, share)
        ]
        units = np.trunc(np.stack(parts, axis=1) * (ROW_BOUND / self.bound)).astype(np.int64)
        return whole_rows(units, n_users=numbers.n_users, width=2)

    def release(
        self, name: str, mechanism: Mechanism, *, noise_multiplier: float, adjacency: Adjacency
    ) -> LaplaceRelease | GaussianRelease:
        """The release through which the two sums leave."""
        covers = f"{self.title}, as two sums" + _bounded(self.subject, self.bound)
        step = self.bound / ROW_BOUND
        if mechanism is Mechanism.PURE:
            return LaplaceRelease(
                name=name,
                width=2,
                grid_step=step,
                l1_bound=ROW_BOUND,
                adjacency=adjacency,
                noise_multiplier=noise_multiplier,
                covers=covers,
            )
        return gaussian_total(
            name,
            width=2,
            bound=self.bound,
            adjacency=adjacency,
            noise_multiplier=noise_multiplier,
            covers=covers,
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
        """Book, draw, and say what follows.

        Args:
            sums: int64, exact sums of the users' rows. Private.
            name: of the release.
            mechanism: how the answer leaves.
            noise_multiplier: z; for the pure mechanism 1 / epsilon.
            ledger: pays; its adjacency is the release's.
            noise: where the draws come from.

        Raises:
            BudgetExceededError: the budget does not cover it.
        """
        adjacency = ledger.budget.adjacency
        release = self.release(name, mechanism, noise_multiplier=noise_multiplier, adjacency=adjacency)
        if isinstance(release, LaplaceRelease):
            noised = release.book(ledger, noise).publish(sums)
            scale = release.noise_scale * release.grid_step
            return self._told(
                noised, f"Laplace, scale {scale:.6g} on each of two sums", _beyond_laplace(scale)
            )
        noised = release.book(ledger, noise).publish(sums.reshape(1, 2))[0]
        return self.read(noised, deviation=release.noise_stddev * release.grid_step)

    def read(self, noised: FloatArray, *, deviation: float) -> Answer:
        """What follows from the two sums with Gaussian noise.

        Args:
            noised: float64, shape (2,). Public.
            deviation: of the noise in each, in their unit; > 0.
        """
        told = f"Gaussian, deviation {deviation:.6g} on each of two sums"
        return self._told(noised, told, _beyond_normal(deviation))

    def _told(
        self, noised: FloatArray, told: str, beyond: Callable[[FloatArray, FloatArray], FloatArray]
    ) -> Answer:
        first, second = (float(number) for number in noised)
        total = first + second
        share = min(max(second / total, 0.0), 1.0) if total > 0 else 0.5
        lower, upper = _interval(first, second, beyond)
        return Answer(
            value=self._at(share), interval=(self._at(lower), self._at(upper)), rank_error=None, noise=told
        )

    def _at(self, share: float) -> float:
        return float(self.low + (self.high - self.low) * share)


def require_bound(subject: Subject, bound: float) -> None:
    """Refuse a bound that makes no sense for the subject.

    Raises:
        InputError: not a finite number > 0, or another one than 1 where a user has a single number.
    """
    if not 0 < bound < math.inf:
        raise InputError(f"the bound on a user's ratings must be a finite number > 0, got {bound}")
    if subject is not Subject.RATINGS and bound != 1.0:
        raise InputError(f"a user has one number of {subject}, of weight 1; the bound is for ratings")


def _bounded(subject: Subject, bound: float) -> str:
    return f", no user weighing more than {bound:g} ratings" if subject is Subject.RATINGS else ""


def _interval(
    first: float, second: float, beyond: Callable[[FloatArray, FloatArray], FloatArray]
) -> tuple[float, float]:
    """The shares s for which the noise explains ``(1 - s) second - s first`` well enough (Fieller 1954).

    Without noise that is 0 at the true share, so the true share is kept with probability ``CONFIDENCE``.
    """
    shares = np.linspace(0.0, 1.0, _STEPS)
    kept = shares[beyond(shares, np.abs((1.0 - shares) * second - shares * first)) >= 1.0 - CONFIDENCE]
    if not kept.size:  # all the noise pushed one way
        edge = 1.0 if second > first else 0.0
        return edge, edge
    step = 1.0 / (_STEPS - 1)
    return max(float(kept[0]) - step, 0.0), min(float(kept[-1]) + step, 1.0)


def _beyond_laplace(scale: float) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """``P(|(1 - s) X - s Y| > t)`` for independent Laplace draws; at s = 1/2 their scales are set a hair apart."""

    def probability(shares: FloatArray, distances: FloatArray) -> FloatArray:
        large = scale * np.maximum(np.maximum(shares, 1.0 - shares), 0.5 + 1e-6)
        small = scale - large
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = np.where(small > 0, small * small * np.exp(-distances / small), 0.0)
        return (large * large * np.exp(-distances / large) - tail) / (large * large - small * small)

    return probability


def _beyond_normal(deviation: float) -> Callable[[FloatArray, FloatArray], FloatArray]:
    from scipy.special import ndtr  # devices, which read no answers, need none of it

    def probability(shares: FloatArray, distances: FloatArray) -> FloatArray:
        spread = deviation * np.sqrt(shares**2 + (1.0 - shares) ** 2)
        found: FloatArray = 2.0 * ndtr(-distances / spread)
        return found

    return probability
