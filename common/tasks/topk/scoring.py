"""From directions, energies and kernels to what a device scores by: item-based regression on denoised moments.

The items' second moments are taken to be

    C = E diag(e) E^T + sum_q tau_q K_q  off the diagonal,  max(n p, .) + lambda  on it

and with P = C^-1 a person's score of item i is the regression of x_i on her other items, sum_l x_l (-P_il / P_ii).
C is low rank plus diagonal, so P off the diagonal is -G G^T with G of the same width, and
``<G_i, sum_l G_l> / P_ii`` is all that a device computes.

Reference: Steck (2019), Embarrassingly shallow autoencoders (P and its diagonal); Haseman and Elston (1972) (tau).
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.topk.kernels import Kernels, diagonals, inner_products
from fedboard.common.tasks.topk.spectra import Directions

_SPREAD, _LEAST_SPREAD = 0.3, 0.5
"""What an energy is believed to be from its singular value: within 30 % of it, and half a user."""
_RIDGE = 0.02
_OWN = 1.02
"""The diagonal of what is of low rank is exceeded at least by so much."""
_LEAST_OWN = 0.1
"""Share of an item's diagonal that is its own at least: C is positive definite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What lists are made of. Public."""

    factors: FloatArray
    """G: float64, shape (m', width)."""
    scale: FloatArray
    """1 / P_ii > 0: float64, shape (m',)."""


def scores_of(
    directions: Directions,
    kernels: Kernels | None,
    released: FloatArray,
    own: FloatArray,
    *,
    stddev: float,
    diagonal: float,
) -> Scores:
    """G and the diagonal of P.

    Args:
        directions: E with what is believed of it.
        kernels: of norm 1 off the diagonal, or None.
        released: energies along directions, then kernels; float64, shape (n + KERNELS,) or longer than n.
        own: n p, how much of the second moments is each item's own; float64, shape (m',).
        stddev: noise deviation of each energy, > 0.
        diagonal: lambda > 0.
    """
    number = directions.values.size
    strength = _believed(released[:number], directions.values, stddev) * directions.agreement
    parts = [directions.axes * np.sqrt(strength)]
    low_rank = np.sum(parts[0] ** 2, axis=1)
    if kernels is not None:
        parts.append(_kernel_part(kernels, released[number:], directions.axes, strength))
    factors = np.hstack(parts)
    wanted = np.maximum(own, _OWN * low_rank) + diagonal
    left = np.maximum(wanted - np.sum(factors**2, axis=1), _LEAST_OWN * wanted)
    inner = np.eye(factors.shape[1]) + factors.T @ (factors / left[:, None])
    found = np.linalg.solve(np.linalg.cholesky(inner), (factors / left[:, None]).T).T
    precision = 1.0 / left - np.sum(found**2, axis=1)  # > 0: the diagonal of an inverse
    return Scores(factors=found, scale=1.0 / np.maximum(precision, 1e-12))


def _believed(noisy: FloatArray, values: FloatArray, stddev: float) -> FloatArray:
    """Energies, pulled to what the singular values say as far as their noise demands."""
    least = np.maximum(noisy, 0.0)
    expected = float(least @ values) / max(float(values @ values), 1e-300) * values
    spread = (_SPREAD * expected + _LEAST_SPREAD) ** 2
    pulled: FloatArray = (least * spread + expected * stddev**2) / (spread + stddev**2)
    return pulled


def _kernel_part(kernels: Kernels, noisy: FloatArray, axes: FloatArray, strength: FloatArray) -> FloatArray:
    """A square root of sum tau_q K_q, tau by non-negative regression of what the directions do not explain."""
    from scipy.optimize import nnls

    along = kernels.columns.T @ axes
    explained = np.array([float(np.sum((form @ along) * along * strength)) for form in kernels.forms])
    explained -= diagonals(kernels) @ (axes**2 @ strength)
    ridge = _RIDGE * np.eye(noisy.size)
    tau, _ = nnls(inner_products(kernels) + ridge, noisy - explained)
    values, vectors = np.linalg.eigh(np.tensordot(tau, kernels.forms, axes=1))
    root: FloatArray = kernels.columns @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return root
