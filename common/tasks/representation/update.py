"""The server's side: from noised sums to an orthonormal representation."""

import math

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.representation.packing import packed_width, unpack_kronecker


def leading_directions(matrix: FloatArray, rank: int) -> FloatArray:
    """Eigenvectors of the ``rank`` largest eigenvalues of a symmetric matrix, as columns, largest first.

    Reference: Jain et al. (2021), Alg. 3 line 3.
    """
    _, vectors = np.linalg.eigh(matrix)
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def solved_step(
    curvature: FloatArray, gradient: FloatArray, *, dimension: int, noise_stddev: float
) -> FloatArray:
    """``argmin_Z <vec Z, W vec Z> - 2 <b, vec Z>`` from the noised sums.

    Eigenvalues of W below the edge of its noise, ``s sqrt(d (k + 1))``, are raised to it: where the noise hides the
    curvature, the step is shortened.

    Args:
        curvature: W as ``pack_kronecker`` packs it, float64. Public.
        gradient: b, float64, shape (dimension rank,). Public.
        dimension: d.
        noise_stddev: s, of the noise on one number of W, in its units. Public.

    Returns:
        Z, float64, shape (dimension, rank).

    Reference: Jain et al. (2021), Alg. 2 line 3.
    """
    rank = gradient.size // dimension
    assert curvature.size == packed_width(dimension) * packed_width(rank)
    values, vectors = np.linalg.eigh(unpack_kronecker(curvature, dimension, rank))
    edge = noise_stddev * math.sqrt(dimension * (rank + 1))
    inverse = 1.0 / np.maximum(values, max(edge, np.finfo(float).tiny))
    step: FloatArray = vectors @ (inverse * (vectors.T @ gradient))
    return step.reshape(dimension, rank)


def orthonormal(matrix: FloatArray) -> FloatArray:
    """Q of the QR decomposition, with signs such that the diagonal of R is not negative."""
    q, r = np.linalg.qr(matrix)
    return np.ascontiguousarray(q * np.where(np.diag(r) < 0, -1.0, 1.0))
