"""Choosing a representation from a public net by the exponential mechanism: for tiny dimensions, any loss."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.checks import require
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.exponential import BookedChoice, ExponentialRelease
from fedboard.common.tasks.on_examples.examples import PaddedExamples
from fedboard.common.tasks.representation.config import RepresentationConfig
from fedboard.common.tasks.representation.local import bounded, fit_vectors, scores_of
from fedboard.common.tasks.representation.losses import LOSSES

CHOICE = "net-choice"
"""Name of the release."""
PENALTY_GRID = 1 << 16
"""Grid units of the largest penalty that one user can give."""
_LARGEST_NET = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NetChoice:
    """Alg. 4: ``P(U) ~ exp(-epsilon score(U) / (2 D))`` over a net, where a user's part of the score is within D.

    A user's score is the mean loss of her best vector on her clipped features, less the loss at 0, cut to
    ``[-D, 0]``: with a xi-Lipschitz loss ``D = xi L_f C`` cuts nothing.

    Reference: Jain et al. (2021), Alg. 4; McSherry and Talwar (2007).
    """

    settings: RepresentationConfig
    """Rank, loss, ridge, ``vector_bound`` C and adjacency; ``noise_multipliers[CHOICE]`` is 1 / epsilon."""
    feature_bound: float
    """L_f: norm to which ``U^T x`` is clipped; > 0. Public."""
    score_bound: float
    """D; > 0. Public."""
    net: FloatArray
    """Candidates, float64, shape (n, dimension, rank), orthonormal columns. Public."""

    def __post_init__(self) -> None:
        """Check both bounds.

        Raises:
            InputError: a bound is not a finite number > 0.
        """
        for name in ("feature_bound", "score_bound"):
            value = getattr(self, name)
            require(0 < value < math.inf, name, "a finite number > 0", value)

    def release(self) -> ExponentialRelease:
        """The choice, to be booked before it is made.

        Raises:
            PrivacyError: the settings hold no epsilon for it.
        """
        return ExponentialRelease(
            name=CHOICE,
            candidates=self.net.shape[0],
            score_sensitivity=PENALTY_GRID,
            adjacency=self.settings.adjacency,
            noise_multiplier=self.settings.noise_multipliers.get(CHOICE, 0.0),
            covers="one representation of a public net, by the loss that it leaves to each user",
        )

    def penalties(self, examples: PaddedExamples) -> IntArray:
        """What each user gives each candidate, int64, shape (n_users, n), in ``0..PENALTY_GRID``. Private."""
        scores = np.stack([self._scores(examples, candidate) for candidate in self.net], axis=1)
        cut = np.clip(np.nan_to_num(scores, nan=0.0), -self.score_bound, 0.0)
        grid: IntArray = np.floor((cut / self.score_bound + 1.0) * PENALTY_GRID).astype(np.int64)
        return grid

    def choose(self, blocks: Iterable[PaddedExamples], booked: BookedChoice) -> FloatArray:
        """Sum the penalties exactly, draw once.

        Args:
            blocks: all users, in any split. Private.
            booked: of ``release``, paid for.

        Returns:
            The chosen representation, float64, shape (dimension, rank). Public.
        """
        total = np.zeros(self.net.shape[0], dtype=np.int64)
        for block in blocks:
            total += self.penalties(block).sum(axis=0)
        chosen: FloatArray = self.net[booked.choose([int(penalty) for penalty in total])]
        return chosen

    def _scores(self, examples: PaddedExamples, candidate: FloatArray) -> FloatArray:
        """Mean loss of each user's best vector less that of 0, float64, shape (n_users,)."""
        inner = examples.features @ candidate
        norms = np.linalg.norm(inner, axis=2, keepdims=True)
        inner *= np.minimum(1.0, self.feature_bound / np.maximum(norms, self.feature_bound))
        clipped = PaddedExamples(features=inner, labels=examples.labels, used=examples.used)
        basis, loss = np.eye(candidate.shape[1]), LOSSES[self.settings.loss]
        vectors = bounded(fit_vectors(clipped, basis, self.settings), self.settings)
        scores = scores_of(clipped, basis, vectors)
        gained = loss.value(scores, examples.labels) - loss.value(np.zeros_like(scores), examples.labels)
        counts = np.maximum(examples.used.sum(axis=1), 1)
        mean: FloatArray = (gained * examples.used).sum(axis=1) / counts
        return mean


def stiefel_net(dimension: int, rank: int, radius: float) -> FloatArray:
    """A net of this Frobenius radius over matrices with orthonormal columns.

    The polar factors of those points of a grid of spacing ``h = radius / sqrt(d k)`` that lie within
    ``h sqrt(d k) / 2`` of their polar factor: every orthonormal U has a grid point within that distance, and the
    polar factor of a point is its nearest orthonormal matrix, so it is within twice the distance of U.

    Args:
        dimension: d. Public.
        rank: k <= d. Public.
        radius: phi, > 0. Public.

    Returns:
        float64, shape (n, dimension, rank).

    Raises:
        InputError: the grid would have more than 200,000 points; the net grows like ``radius^(-d k)``.
    """
    numbers = dimension * rank
    require(radius > 0 and 1 <= rank <= dimension, "net", "of radius > 0 and 1 <= rank <= dimension", radius)
    reach = math.ceil(math.sqrt(numbers) / radius)
    if (2 * reach + 1) ** numbers > _LARGEST_NET:
        raise InputError(
            f"a net of radius {radius:g} over {dimension} x {rank} matrices needs {2 * reach + 1}^{numbers} grid "
            "points; the exponential mechanism is for tiny sizes, take a larger radius"
        )
    axis = np.arange(-reach, reach + 1) * (radius / math.sqrt(numbers))
    grid = np.stack(np.meshgrid(*[axis] * numbers, indexing="ij"), axis=-1).reshape(-1, dimension, rank)
    left, values, right = np.linalg.svd(grid, full_matrices=False)
    near = np.linalg.norm(values - 1.0, axis=1) <= radius / 2 * (1 + 1e-9)
    net: FloatArray = left[near] @ right[near]
    return net
