"""Solving with noisy, possibly indefinite matrices after projecting them on the positive semidefinite ones."""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation
from fedboard.common.kernels.shared.packed import packed_size
from fedboard.common.kernels.shared.threads import for_row_ranges


def solve_psd(
    quadratic: FloatArray,
    linear: FloatArray,
    *,
    ridge: FloatArray,
    gram: FloatArray | None = None,
    backend: str,
    threads: int = 1,
) -> FloatArray:
    """Project each matrix on the positive semidefinite ones (negative eigenvalues to zero), then solve.

    x_i = (Proj_PSD(A_i) + ridge_i I + gram)^-1 b_i. Post-processing: reads noisy sums only.

    Args:
        quadratic: float64, shape (k, rank (rank + 1) / 2), packed upper triangles of A_i. Public (noisy).
        linear: float64, shape (k, rank), b_i. Public (noisy).
        ridge: float64, shape (k,), > 0.
        gram: float64, shape (rank, rank), symmetric, positive semidefinite; None for zero.
        backend: "numpy" diagonalises; "compiled" agrees to a relative 1e-5.
        threads: >= 1.

    Returns:
        float64, shape (k, rank).

    Raises:
        InputError: shapes that do not fit, values that are not finite, or a ridge that is not > 0.
    """
    kernel = implementation(backend, "psd")
    quadratic, linear = np.ascontiguousarray(quadratic, np.float64), np.ascontiguousarray(linear, np.float64)
    ridge = np.ascontiguousarray(ridge, np.float64)
    count, rank = linear.shape
    if quadratic.shape != (count, packed_size(rank)) or ridge.shape != (count,):
        raise InputError("quadratic (packed), linear and ridge must have one row per item and fit one rank")
    if gram is not None and gram.shape != (rank, rank):
        raise InputError("gram must have shape (rank, rank)")
    if not (np.all(np.isfinite(quadratic)) and np.all(np.isfinite(linear)) and np.all(ridge > 0)):
        raise InputError("quadratic and linear must be finite and ridge must be > 0")
    solution = np.empty((count, rank))

    def work(start: int, stop: int) -> None:
        kernel.solve_rows(quadratic, linear, ridge, gram, start, stop, solution)

    for_row_ranges(work, np.ones(count), threads=threads)
    return solution
