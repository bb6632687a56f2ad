"""Weighted empirical risk minimisation (Algorithm 2) by noisy gradients, each step a release of its own.

    theta_t+1 = box( theta_t - eta_t (sum_i c_i clip(grad loss(theta_t, x_i, y_i)) + noise) ),   loss logistic

A user's rows weigh W_j together, so that her part of a step is no longer than ``clip W``, W the largest W_j. All
rows take part in all steps: nothing rests on a secret sample. What is given back is the mean of the later states:
post-processing.

Reference: Epasto et al. (2020), sec. 4 and appendix E.2; Bassily, Smith and Thakurta (2014), arXiv:1405.7085,
Algorithm 1, which takes one user a step instead, and theorem 2.4 for the step lengths.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedboard import Ledger
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.checks import require_whole
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from research.epasto.bounding import PublicSizes

_UNITS = 1 << 30
"""The longest part of one user in a step, grid units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyDescent:
    """The question. Every field is public."""

    sizes: PublicSizes
    bound: float
    """h > 0: values beyond which a user weighs no more."""
    steps: int = 30
    """T."""
    reach: float = 8.0
    """How far the minimiser is expected; steps are ``reach / sqrt(t)`` over the length of a noisy gradient."""
    box: float = 10.0
    """Largest absolute coefficient."""
    clip: float = 1.0
    """Bound on the gradient of one row."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range.
        """
        require_whole("steps", self.steps)
        for name in ("bound", "reach", "box", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a finite number > 0, got {getattr(self, name)}")

    @property
    def longest(self) -> float:
        """Bound on one user's part of a step, ``clip W``."""
        return self.clip * float(self.sizes.user_weights(self.bound).max())

    def release(self, name: str, step: int, *, width: int, noise_multiplier: float) -> GaussianRelease:
        """The release of one step, with the noise that ``steps`` of them together need.

        Args:
            name: of the answer.
            step: from 1.
            width: d, number of features.
            noise_multiplier: of the whole answer.
        """
        return GaussianRelease(
            name=f"{name}-{step}",
            rows=1,
            width=width,
            layout="vector",
            grid_step=self.longest / _UNITS,
            l2_bound=_UNITS + 1,
            same_sign=False,
            adjacency=Adjacency.REPLACE_VALUES,
            noise_multiplier=noise_multiplier * math.sqrt(self.steps),
            covers="gradient of the weighted logistic risk; how many rows each user has is public because "
            f"{self.sizes.public_because}",
        )

    def parts(self, theta: FloatArray, features: FloatArray, labels: FloatArray, users: IntArray) -> IntArray:
        """Each user's weighted, clipped gradient on the grid, int64, shape (n_users, d). Private.

        Args:
            theta: float64, shape (d,). Public: released before.
            features: shape (n, d). Private.
            labels: shape (n,), -1 or 1. Private.
            users: int, shape (n,), whose row it is. Public.

        Raises:
            PrivacyError: a part is longer than the bound, or not finite; whose is not said.
        """
        lengths = np.maximum(np.linalg.norm(features, axis=1), 1e-300)
        share = 0.5 - 0.5 * np.tanh(0.5 * labels * (features @ theta))  # 1 / (1 + exp(margin))
        kept = np.minimum(share, self.clip / lengths) * self.sizes.value_weights(self.bound)[users]
        rows = -(kept * labels)[:, None] * features
        summed = np.stack([np.bincount(users, column, self.sizes.sizes.size) for column in rows.T], axis=1)
        fractions = summed / self.longest
        norms = np.linalg.norm(fractions, axis=1, keepdims=True)
        if not np.all(norms <= 1.0 + 1e-9):
            raise PrivacyError("a gradient exceeds its bound or is not finite")
        units: IntArray = np.trunc(fractions / np.maximum(norms, 1.0) * _UNITS).astype(np.int64)
        return units

    def answer(
        self,
        features: FloatArray,
        labels: FloatArray,
        users: IntArray,
        *,
        name: str,
        noise_multiplier: float,
        ledger: Ledger,
        noise: NoiseSource,
    ) -> FloatArray:
        """Book and draw step by step, and return the mean of the later half of the states, shape (d,).

        Args:
            features: as for ``parts``, rows of any length. Private.
            labels: as for ``parts``. Private.
            users: as for ``parts``. Public.
            name: of the answer; its releases are ``NAME-1``, ``NAME-2``, ...
            noise_multiplier: of all steps together; see ``fedboard account --epsilon``.
            ledger: pays; its adjacency must be ``replace-values``.
            noise: where the draws come from.

        Raises:
            InputError: the users have other numbers of rows than declared, or a label is not -1 or 1.
            PrivacyError: a number is not finite.
            BudgetExceededError: the budget does not cover a step.
        """
        self.sizes.require_counts_of(users)
        if not (np.isfinite(features).all() and np.isfinite(labels).all()):
            raise PrivacyError("features and labels must be finite; NaN or infinity was refused")
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise InputError("labels of the logistic loss must be -1 or 1")
        width = features.shape[1]
        theta, later = np.zeros(width), np.zeros(width)
        for step in range(1, self.steps + 1):
            release = self.release(name, step, width=width, noise_multiplier=noise_multiplier)
            total = self.parts(theta, features, labels, users).sum(axis=0)
            gradient = release.book(ledger, noise).publish(total[None, :])[0]
            spread = release.noise_stddev * release.grid_step
            length = math.sqrt(self.clip**2 + width * spread**2)
            theta = np.clip(theta - self.reach / (length * math.sqrt(step)) * gradient, -self.box, self.box)
            if step > self.steps // 2:
                later += theta
        found: FloatArray = later / (self.steps - self.steps // 2)
        return found
