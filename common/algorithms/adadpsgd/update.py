"""The item step of AdaDPSGD, with its learning rates: post-processing of releases.

Learning rates are those of noisy gradient descent on weighted tasks, by theorem 3.12 (a).
Weights here have squares that sum to at most 1 for each user, and noise of deviation z Gamma a step, so that T
steps have the Gaussian guarantee mu = sqrt(T) / z. The paper's weights are larger by sqrt(beta), beta = mu^2 / 2.

Reference: Krichene et al. (2023), theorem 3.12 and its proof in appendix A.4.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedboard.common.algorithms.adadpals.config import needs_population
from fedboard.common.algorithms.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request, SumSource
from fedboard.common.kernels.packed import unpack_symmetric
from fedboard.common.task import ReleasedSums


def lipschitz_rates(
    t: float, *, diameter: float, clip: float, noise_multiplier: float, rank: int, pull: FloatArray
) -> FloatArray:
    """Part (a): ``eta_i = |C| / (Gamma sqrt(c_i^2 + z^2 d) sqrt t)``, c_i = omega_i n_i.

    Args:
        t: number of the step, >= 1.
        diameter: |C| of the domain.
        clip: Gamma, bound on the gradient of one example.
        noise_multiplier: z of a step.
        rank: d.
        pull: c_i, sum of an item's weights, float64, shape (n_items,). Public.
    """
    bound = clip * np.sqrt(pull**2 + noise_multiplier**2 * rank)
    return np.asarray(diameter / (bound * math.sqrt(t)), dtype=np.float64)


def after_preparation(prepared: Board, released: ReleasedSums, settings: AdaDpsgdConfig) -> Board:
    """The board of the preparation round, with what the steps need: c_i, and vectors of the chosen length.

    Args:
        prepared: what AdaDPALS makes of the same releases.
        released: has the number of users.
        settings: public.
    """
    arrays = dict(prepared.arrays)
    factors = arrays["item_factors"] * np.float32(settings.first_norm)
    factors[arrays["learnt"] == 0] = 0.0
    arrays["item_factors"] = factors
    population = None
    if not needs_population(settings.model):  # else it went into the weights, which are on scale then
        population = max(float(released.array("users")[0, 0]), 1.0)
    arrays["item_pull"] = weight_sums(arrays["item_counts"], arrays["item_weights"], population, settings)
    if settings.steps_per_solve > 1:
        arrays["solve_factors"] = factors
    return replace(prepared, arrays=arrays, _digest=[])


def weight_sums(
    counts: FloatArray, omega: FloatArray, population: float | None, settings: AdaDpsgdConfig
) -> FloatArray:
    """Estimate of c_i = sum_j w_ij from released counts, for learning rates.

    As if every user had as many ratings as the average one, on items in proportion to their counts; c_i enters
    rates alone.

    Args:
        counts: released n_i >= 1, float64, shape (n_items,).
        omega: item weights, float64, shape (n_items,).
        population: released number of users, >= 1; None for the clipped weightings, whose omega is w_ij itself.
        settings: public.

    Returns:
        float64, shape (n_items,), > 0.
    """
    if population is None:
        return counts * omega
    if settings.weights.samples:
        usual, taken = float(counts.sum()) / population, float(settings.items_per_user)
        return counts * min(1.0, taken / usual) / math.sqrt(taken)
    return counts * omega * math.sqrt(population / float(np.sum(counts * omega**2)))


def after_step(
    board: Board, released: ReleasedSums, requests: Mapping[SumSource, Request], settings: AdaDpsgdConfig
) -> Board:
    """One step of every item, projected on the ball of radius C."""
    gradient, start = requests[SumSource.ITEM_LINEAR], board.arrays["item_factors"].astype(np.float64)
    gram = _gram_now(board, released, requests, settings)
    beside = _Beside.of(board, gram, settings)
    sums = released.map_items((gradient.name,), _Passed(gradient.name), width=settings.rank)
    arrays: dict[str, Any] = {} if gram is None else {"gram": gram}
    rates = _rates(board, gradient, beside.curvature, settings)
    factors = _projected(start + rates[:, None] * (sums - beside.gradient(start)), settings.radius)
    factors[board.arrays["learnt"] == 0] = 0.0
    arrays["item_factors"] = factors
    if settings.steps_per_solve > 1 and settings.solves(board.version + 1):
        arrays["solve_factors"] = factors
    return board.successor(**arrays)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What an item's objective has beside the ratings: ``reg_i |u|^2 + a_i u^T G u``. Public."""

    ridge: FloatArray
    unobserved: FloatArray
    """a_i, float64, shape (n_items,)."""
    gram: FloatArray | None

    @staticmethod
    def of(board: Board, gram: FloatArray | None, settings: AdaDpsgdConfig) -> "_Beside":
        """With the strengths that the board and the settings state."""
        return _Beside(
            ridge=board.arrays["item_ridge"],
            unobserved=settings.item_unobserved_weight * board.arrays["item_scale"],
            gram=gram,
        )

    def gradient(self, factors: FloatArray) -> FloatArray:
        """float64, shape (n_items, rank)."""
        found: FloatArray = 2.0 * self.ridge[:, None] * factors
        if self.gram is not None:
            found += 2.0 * self.unobserved[:, None] * (factors @ self.gram)
        return found

    @property
    def curvature(self) -> FloatArray:
        """The largest in any direction, float64, shape (n_items,)."""
        largest = 0.0 if self.gram is None else float(np.linalg.eigvalsh(self.gram)[-1])
        found: FloatArray = 2.0 * self.ridge + 2.0 * self.unobserved * largest
        return found


def _rates(board: Board, gradient: Request, curvature: FloatArray, settings: AdaDpsgdConfig) -> FloatArray:
    """eta_i of this step, float64, shape (n_items,).

    Beyond the theorem, the curvature of what is not in the sums (ridge, unobserved term) makes steps shorter.
    """
    of_theorem = lipschitz_rates(
        board.version,
        diameter=2.0 * settings.radius,
        clip=gradient.release.l2_bound * gradient.release.grid_step,
        noise_multiplier=gradient.release.noise_multiplier,
        rank=settings.rank,
        pull=board.arrays["item_pull"],
    )
    return settings.rate / (1.0 / of_theorem + curvature)


def _gram_now(
    board: Board, released: ReleasedSums, requests: Mapping[SumSource, Request], settings: AdaDpsgdConfig
) -> FloatArray | None:
    """G, released now or at the last solve; None for explicit feedback, or where that round was lost."""
    if SumSource.QUADRATIC not in requests:
        kept = board.arrays.get("gram")
        return None if kept is None else np.asarray(kept, dtype=np.float64)
    packed = released.array(requests[SumSource.QUADRATIC].name)
    values, vectors = np.linalg.eigh(unpack_symmetric(packed, rank=settings.rank)[0])
    projected: FloatArray = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return projected


def _projected(vectors: FloatArray, radius: float) -> Float32Array:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    inside: Float32Array = (vectors * (radius / np.maximum(norms, radius))).astype(np.float32)
    return inside


@dataclass(frozen=True, slots=True)
class _Passed:
    """Hands a release on as it is, so that the runtime's workers do the summing."""

    name: str

    def __call__(self, start: int, blocks: Mapping[str, FloatArray]) -> Float32Array:
        """Rows of the release from ``start`` on."""
        return blocks[self.name].astype(np.float32)
