"""Step counts and learning rates of noisy gradient descent on weighted tasks, by theorem 3.12.

Weights here have squares that sum to at most 1 for each user, and noise of deviation z Gamma a step, so that T
steps have the Gaussian guarantee mu = sqrt(T) / z. The paper's weights are larger by sqrt(beta), beta = mu^2 / 2.

Reference: Krichene et al. (2023), theorem 3.12 and its proof in appendix A.4. The rate of part (b) is printed with
omega^2 in the theorem; the gradient has omega once, and so has the proof: omega it is here.
"""

import math

import numpy as np

from fedboard.common.arrays import FloatArray


def lipschitz_step_count(mu: float, rank: int, counts: FloatArray, omega: FloatArray) -> float:
    """Steps at which optimisation and noise cost the same, part (a): ``mu^2 / d  sum n_i^2 / sum omega_i^-2``.

    Args:
        mu: of all steps together, > 0.
        rank: d.
        counts: n_i, float64, shape (n_tasks,): released, or public.
        omega: average weight of an example of the task, float64, shape (n_tasks,). Public.
    """
    return mu**2 / rank * float(np.sum(counts**2) / np.sum(omega**-2.0))


def strongly_convex_step_count(mu: float, rank: int, counts: FloatArray, omega: FloatArray) -> float:
    """The same for part (b): ``mu^2 / d  sum n_i / sum 1 / (omega_i^2 n_i)``; arguments as above."""
    return mu**2 / rank * float(np.sum(counts) / np.sum(omega**-2.0 / counts))


def equal_step_count(mu: float, rank: int, *, ratings_per_item: float, ratings_per_user: float) -> float:
    """What both parts come to where all items have equally many ratings: ``mu^2 n_i^2 / (d k)``.

    For a plan, which must be known before any data is touched: from public guesses.
    """
    return mu**2 * ratings_per_item**2 / (rank * ratings_per_user)


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


def strongly_convex_rates(t: float, curvature: FloatArray) -> FloatArray:
    """Part (b): ``eta_i = 1 / (kappa_i t)``, kappa_i the least curvature of the item's whole objective.

    Args:
        t: number of the step, >= 1.
        curvature: kappa_i = omega_i n_i lambda plus that of the item's ridge, float64, shape (n_items,). Public.
    """
    return np.asarray(1.0 / (curvature * t), dtype=np.float64)
