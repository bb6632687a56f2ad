"""Weighted empirical risk minimisation (Algorithm 2) with a DP solver: the regularised minimiser, perturbed.

    F(theta) = sum_i c_i log(1 + exp(-y_i <theta, x_i>)) + ridge / 2 |theta|^2,    |x_i| <= 1, y_i in {-1, 1}

F is ridge-strongly convex. Exchanging one user's data changes its gradient by at most 2 L W, where L = 1 bounds the
gradient of one loss and W the total weight of a user, and so moves the minimiser by at most 2 L W / ridge: with d
the move, ``ridge |d|^2 <= <grad F'(t) - grad F(t), d>`` by strong convexity and the optimality of both, on any
convex set. Gaussian noise covers that. How far from the minimiser rounding may leave the solver is bounded
beforehand by public numbers (rows, features, ridge) and covered too; whether the solver ends does not depend on the
data, and only where that bound is too large is a question refused.

Reference: Epasto et al. (2020), sec. 4; Chaudhuri, Monteleoni and Sarwate (2011), JMLR 12, lemma 7 and corollary 8
(output perturbation).
"""

import math
from dataclasses import dataclass

import numpy as np

from fedboard import Ledger
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from research.epasto.bounding import PublicSizes

_UNITS = 1 << 30
"""The move that an exact minimiser makes, grid units."""
_ULP = 2.0**-52
_ROUNDINGS_OF_SOLVERS = 128
"""Backward error of Cholesky factors, in ulp times d^2; theirs are smaller."""
_STOP = 8.0
"""Newton stops at a gradient of so many times its rounding; near the minimiser it reaches 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRisk:
    """The question. Every field is public."""

    sizes: PublicSizes
    bound: float
    """h > 0: values beyond which a user weighs no more."""
    ridge: float
    """Strength of the regulariser; > 0."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: the ridge is outside its range.
        """
        if not 0 < self.ridge < math.inf:
            raise InputError(f"ridge must be a finite number > 0, got {self.ridge}")

    @property
    def move(self) -> float:
        """Half the largest move of the minimiser, ``W / ridge``: L is 1."""
        return float(self.sizes.user_weights(self.bound).max()) / self.ridge

    def shortfall(self, width: int) -> float:
        """Bound on how far from the minimiser the solver ends, in units of ``move``; from public numbers alone.

        A gradient is a sum over n rows, each of length L at most; whatever the order of summation, it is off by at
        most ``(n + d) L ulp``. A margin is off by d ulp of ``|theta| <= sqrt(2 log 2 / ridge)``.

        Args:
            width: d, number of features. Public.

        Raises:
            InputError: there are too many rows or features, or the ridge is too small, for 64-bit numbers.

        Reference: Higham (2002), Accuracy and stability of numerical algorithms, sec. 3.1, 10.1.
        """
        share = (1.0 + _STOP) * self._rounding(width) / float(self.sizes.user_weights(self.bound).max())
        if max(share, 8.0 * _STOP * self._rounding(width) / self.ridge) > 1.0:
            raise InputError(
                f"{int(self.sizes.sizes.sum())} rows of {width} features and ridge {self.ridge:g} are beyond what "
                "64-bit numbers can solve closely enough; use a larger ridge, or fewer rows"
            )
        return share

    def _rounding(self, width: int) -> float:
        """Bound on the rounding of a gradient of F, in units of L."""
        roundings = (
            self.sizes.sizes.sum() + _ROUNDINGS_OF_SOLVERS * width**2 + 2 * width / math.sqrt(self.ridge)
        )
        return _ULP * (1.0 + self.ridge) * float(roundings)

    def release(self, name: str, *, width: int, noise_multiplier: float) -> GaussianRelease:
        """The release that publishes the minimiser; its noise is ``noise_multiplier * 2 move`` on each number.

        Raises:
            InputError: as for ``shortfall``.
        """
        return GaussianRelease(
            name=name,
            rows=1,
            width=width,
            layout="vector",
            grid_step=self.move / _UNITS,
            l2_bound=_UNITS + math.ceil(_UNITS * self.shortfall(width) + math.sqrt(width)),
            same_sign=False,
            adjacency=Adjacency.REPLACE_VALUES,
            noise_multiplier=noise_multiplier,
            covers="minimiser of the weighted logistic risk; how many rows each user has is public because "
            f"{self.sizes.public_because}",
        )

    def minimise(self, features: FloatArray, labels: FloatArray, users: IntArray) -> FloatArray:
        """The minimiser without noise, float64, shape (d,). Private.

        Args:
            features: shape (n, d); rows longer than 1 are scaled to length 1. Private.
            labels: shape (n,), -1 or 1. Private.
            users: int, shape (n,), whose row it is. Public.

        Raises:
            InputError: as for ``shortfall``; or the users have other numbers of rows than declared, or a logistic
                label is not -1 or 1.
            PrivacyError: a number is not finite.
        """
        self.sizes.require_counts_of(users)
        self.shortfall(features.shape[1])
        if not (np.isfinite(features).all() and np.isfinite(labels).all()):
            raise PrivacyError("features and labels must be finite; NaN or infinity was refused")
        largest = np.abs(features).max(axis=1, keepdims=True, initial=1.0)  # its square might overflow
        shrunk = features / largest
        rows = shrunk / np.maximum(np.linalg.norm(shrunk, axis=1, keepdims=True), 1.0 / largest)
        weights = self.sizes.value_weights(self.bound)[users]
        if not np.isin(labels, (-1.0, 1.0)).all():
            raise InputError("labels must be -1 or 1")
        close_enough = _STOP * self._rounding(features.shape[1])
        return _logistic(rows, labels, weights, self.ridge, close_enough)

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
            noise_multiplier: relative to the sensitivity; see ``fedboard account --epsilon``.
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
    rows: FloatArray, labels: FloatArray, weights: FloatArray, ridge: float, close_enough: float
) -> FloatArray:
    """Newton, each step shortened by a factor of its own length: where ``|gradient| <= close_enough``.

    Moving by d changes the curvature by factors within ``exp(-d)`` and ``exp(d)``, since ``|x_i| <= 1``. So a step
    s times ``log(1 + |s|) / |s|`` lowers F by at least ``ridge ((1 + u) log(1 + u) - u)``, u the gradient's length
    in the norm of the inverse curvature over sqrt ridge. With u >= 1/4 that can happen ``24 / ridge`` times at
    most, as F begins at log 2 and stays above 0; from u < 1/4 on the next u is at most ``1.2 u^2``. No values of F
    are compared, so rounding cannot end it early: it ends for all data.

    Reference: Bach (2010), doi:10.1214/09-EJS521, prop. 1; Sun and Tran-Dinh (2019), doi:10.1007/s10107-018-1282-4,
    theorem 2.
    """
    from scipy.linalg import cho_factor, cho_solve

    theta = np.zeros(rows.shape[1])
    while True:
        share = 0.5 - 0.5 * np.tanh(0.5 * labels * (rows @ theta))  # 1 / (1 + exp(margin))
        gradient = ridge * theta - rows.T @ (weights * share * labels)
        if not float(np.linalg.norm(gradient)) > close_enough:
            return theta
        curvature = (rows.T * (weights * share * (1 - share))) @ rows + ridge * np.eye(theta.size)
        step = cho_solve(cho_factor(curvature), gradient)
        length = float(np.linalg.norm(step))
        theta = theta - (math.log1p(length) / length) * step
