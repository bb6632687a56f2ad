"""Weighted empirical risk minimisation (Algorithm 2) with a DP solver: the regularised minimiser, perturbed.

    F(theta) = sum_i c_i loss(theta, x_i, y_i) + ridge / 2 |theta|^2,    |x_i| <= 1

F is ridge-strongly convex. Exchanging one user's data changes its gradient by at most 2 L W, where L bounds the
gradient of one loss and W the total weight of a user, and so moves the minimiser by at most 2 L W / ridge: with d
the move, ``ridge |d|^2 <= <grad F'(t) - grad F(t), d>`` by strong convexity and the optimality of both, on any
convex set. Gaussian noise covers that. What the solver leaves is measured and added to the bound.

Reference: Epasto et al. (2020), sec. 4; Chaudhuri, Monteleoni and Sarwate (2011), JMLR 12, lemma 7 and corollary 8
(output perturbation).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.bounding.sizes import PublicSizes
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger import Ledger
from fedboard.common.privacy.noise import NoiseSource
from fedboard.common.privacy.release import GaussianRelease

Loss = Literal["logistic", "squared"]

_UNITS = 1 << 30
"""The move that an exact minimiser makes, grid units."""
_SLACK = 1 << 12
"""Grid units for what the solver leaves and for rounding to the grid."""
_MOST_STEPS = 200
_SMALLEST_STEP = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRisk:
    """The question. Every field is public."""

    sizes: PublicSizes
    bound: float
    """h > 0: values beyond which a user weighs no more."""
    loss: Loss
    """"logistic": ``log(1 + exp(-y <theta, x>))``, y in {-1, 1}; "squared": ``(<theta, x> - y)^2 / 2``."""
    ridge: float
    """Strength of the regulariser; > 0."""
    radius: float | None = None
    """Of the ball in which theta is sought; squared loss only, where it bounds the gradient."""
    label_bound: float | None = None
    """Largest absolute label; squared loss only."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range, missing, or of the other loss.
        """
        if self.loss not in ("logistic", "squared"):
            raise InputError(f"the loss must be logistic or squared, got {self.loss!r}")
        if not 0 < self.ridge < math.inf:
            raise InputError(f"ridge must be a finite number > 0, got {self.ridge}")
        limits = (self.radius, self.label_bound)
        if self.loss == "logistic" and limits != (None, None):
            raise InputError("radius and label_bound belong to the squared loss")
        if self.loss == "squared" and not all(limit is not None and 0 < limit < math.inf for limit in limits):
            raise InputError(
                "the squared loss needs a finite radius and label_bound > 0: they bound its gradient"
            )

    @property
    def gradient_bound(self) -> float:
        """L: 1, or for the squared loss ``radius + label_bound``."""
        return 1.0 if self.loss == "logistic" else float(self.radius or 0) + float(self.label_bound or 0)

    @property
    def move(self) -> float:
        """Half the largest move of the minimiser, ``L W / ridge``."""
        return self.gradient_bound * float(self.sizes.user_weights(self.bound).max()) / self.ridge

    def release(self, name: str, *, width: int, noise_multiplier: float) -> GaussianRelease:
        """The release that publishes the minimiser; its noise is ``noise_multiplier * 2 move`` on each number."""
        return GaussianRelease(
            name=name,
            rows=1,
            width=width,
            layout="vector",
            grid_step=self.move / _UNITS,
            l2_bound=_UNITS + _SLACK,
            same_sign=False,
            adjacency=Adjacency.REPLACE_VALUES,
            noise_multiplier=noise_multiplier,
            covers=f"minimiser of the weighted {self.loss} risk; how many rows each user has is public because "
            f"{self.sizes.public_because}",
        )

    def minimise(self, features: FloatArray, labels: FloatArray, users: IntArray) -> FloatArray:
        """The minimiser without noise, float64, shape (d,). Private.

        Args:
            features: shape (n, d); rows longer than 1 are scaled to length 1. Private.
            labels: shape (n,); squared: clipped to the label bound; logistic: -1 or 1. Private.
            users: int, shape (n,), whose row it is. Public.

        Raises:
            InputError: the users have other numbers of rows than declared, or a logistic label is not -1 or 1.
            PrivacyError: a number is not finite, or the solver did not come close enough for its bound to hold.
        """
        self.sizes.require_counts_of(users)
        if not (np.isfinite(features).all() and np.isfinite(labels).all()):
            raise PrivacyError("features and labels must be finite; NaN or infinity was refused")
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        rows = features / np.maximum(lengths, 1.0)
        weights = self.sizes.value_weights(self.bound)[users]
        if self.loss == "logistic":
            if not np.isin(labels, (-1.0, 1.0)).all():
                raise InputError("labels of the logistic loss must be -1 or 1")
            theta, left = _logistic(rows, labels, weights, self.ridge)
        else:
            limit = float(self.label_bound or 0)
            theta, left = _squared(
                rows, np.clip(labels, -limit, limit), weights, self.ridge, float(self.radius or 0)
            )
        if not left + math.sqrt(theta.size) * self.move / _UNITS <= self.move * _SLACK / _UNITS:
            raise PrivacyError("the solver did not come close enough to the minimiser; use a larger ridge")
        return theta

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
        """Book, draw, and return the private minimiser, float64, shape (d,).

        Args:
            features: as for ``minimise``. Private.
            labels: as for ``minimise``. Private.
            users: as for ``minimise``. Public.
            name: of the release.
            noise_multiplier: relative to the sensitivity; see ``fedboard account noise``.
            ledger: pays; its adjacency must be ``replace-values``.
            noise: where the draws come from.

        Raises:
            BudgetExceededError: the budget does not cover it.
        """
        theta = self.minimise(features, labels, users)
        release = self.release(name, width=theta.size, noise_multiplier=noise_multiplier)
        units = np.rint(theta / release.grid_step).astype(np.int64)
        found: FloatArray = release.book(ledger, noise).publish(units[None, :])[0]
        return found


def _logistic(
    rows: FloatArray, labels: FloatArray, weights: FloatArray, ridge: float
) -> tuple[FloatArray, float]:
    """Newton with step halving: the minimiser, and ``|gradient| / ridge``, which bounds its distance from it."""

    def risk(theta: FloatArray) -> float:
        losses = np.logaddexp(0.0, -labels * (rows @ theta))
        return float(weights @ losses) + 0.5 * ridge * float(theta @ theta)

    theta = np.zeros(rows.shape[1])
    for _ in range(_MOST_STEPS):
        share = 0.5 - 0.5 * np.tanh(0.5 * labels * (rows @ theta))  # 1 / (1 + exp(margin))
        gradient = ridge * theta - rows.T @ (weights * share * labels)
        curvature = (rows.T * (weights * share * (1 - share))) @ rows + ridge * np.eye(theta.size)
        step = np.linalg.solve(curvature, gradient)
        size, before = 1.0, risk(theta)
        while size > _SMALLEST_STEP and risk(theta - size * step) > before - 0.25 * size * float(
            gradient @ step
        ):
            size *= 0.5
        if size <= _SMALLEST_STEP:
            break  # as low as rounding lets it be seen
        theta = theta - size * step
    return theta, float(np.linalg.norm(gradient)) / ridge


def _squared(
    rows: FloatArray, labels: FloatArray, weights: FloatArray, ridge: float, radius: float
) -> tuple[FloatArray, float]:
    """Ridge regression in a ball by its eigenvectors; the minimiser and a bound on its distance from the exact one.

    With a multiplier ``nu >= 0`` and the residual r = gradient + nu theta, that distance e keeps
    ``ridge e^2 <= |r| e + nu |theta| (radius - |theta|)``.
    """
    values, vectors = np.linalg.eigh((rows.T * weights) @ rows)
    target = rows.T @ (weights * labels)
    turned, low, high = vectors.T @ target, 0.0, 0.0

    def solved(multiplier: float) -> FloatArray:
        found: FloatArray = vectors @ (turned / (np.maximum(values, 0.0) + ridge + multiplier))
        return found

    if float(np.linalg.norm(solved(0.0))) > radius:
        high = float(np.linalg.norm(target)) / radius
        for _ in range(_MOST_STEPS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if float(np.linalg.norm(solved(middle))) > radius else (low, middle)
    theta = solved(high)
    residual = rows.T @ (weights * (rows @ theta - labels)) + (ridge + high) * theta
    length = float(np.linalg.norm(theta))
    slack = high * length * max(radius - length, 0.0)
    return theta, float(np.linalg.norm(residual)) / ridge + math.sqrt(slack / ridge)


__all__ = ["Loss", "WeightedRisk"]
