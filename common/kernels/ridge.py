"""Many ridge regressions on shared factors: the user step, and both halves of non-private ALS."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation
from fedboard.common.kernels.threads import for_row_ranges


def solve_ridge(
    indptr: IntArray,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    *,
    ridge: Float32Array,
    gram: FloatArray | Float32Array | None = None,
    backend: str,
    threads: int = 1,
    out: Float32Array | None = None,
) -> Float32Array:
    """Solve one ridge regression per row of a sparse matrix.

    Row r, with x_k = factors[columns[k]] and t_k = targets[k] for k in indptr[r]:indptr[r + 1]:
    (sum_k x_k x_k^T + ridge[r] I + gram)^-1 sum_k t_k x_k. A row without entries gets zeros.

    Args:
        indptr: int64, shape (n_rows + 1,). Private, as are the next two.
        columns: int32, shape (n_entries,), row numbers into ``factors``.
        targets: float32, shape (n_entries,).
        factors: float32, shape (n_columns, rank). Public in the user step: the board.
        ridge: float32, shape (n_rows,), > 0.
        gram: shape (rank, rank), symmetric, positive semidefinite; None for zero.
        backend: "numpy" and "plain" sum in float64, "blocked" in float32.
        threads: >= 1.
        out: float32, shape (n_rows, rank), contiguous, overwritten and returned; None for a new array.

    Returns:
        float32, shape (n_rows, rank).

    Raises:
        InputError: shapes that do not fit, a column out of range, or a ridge that is not > 0.
    """
    kernel = implementation(backend, "ridge")
    indptr, columns = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(columns, np.int32)
    targets, factors = np.ascontiguousarray(targets, np.float32), np.ascontiguousarray(factors, np.float32)
    ridge = np.ascontiguousarray(ridge, np.float32)
    rank = factors.shape[1]
    added = np.zeros((rank, rank)) if gram is None else np.ascontiguousarray(gram, np.float64)
    _check(indptr, columns, targets, factors, ridge, added)
    solution = np.empty((ridge.size, rank), np.float32) if out is None else out
    if (
        solution.shape != (ridge.size, rank)
        or solution.dtype != np.float32
        or not solution.flags.c_contiguous
    ):
        raise InputError("out must be a contiguous float32 array of shape (rows, rank)")

    def work(start: int, stop: int) -> None:
        kernel.solve_rows(indptr, columns, targets, factors, ridge, added, start, stop, solution)

    for_row_ranges(work, np.diff(indptr) * 1.0 + rank, threads=threads)
    return solution


def _check(
    indptr: IntArray,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridge: Float32Array,
    added: FloatArray,
) -> None:
    """Refuse arrays that do not fit together. Compiled kernels read without looking: nothing may get past."""
    if ridge.shape != (indptr.size - 1,) or columns.shape != targets.shape:
        raise InputError(
            "indptr, ridge (one per row), columns and targets (one per entry) do not fit together"
        )
    if indptr[0] < 0 or indptr[-1] > columns.size or np.any(np.diff(indptr) < 0):
        raise InputError("indptr must ascend within 0..number of entries")
    if columns.size and (columns.min() < 0 or columns.max() >= factors.shape[0]):
        raise InputError("columns must be row numbers of factors")
    if added.shape != (factors.shape[1], factors.shape[1]):
        raise InputError("gram must have shape (rank, rank)")
    if not np.all(ridge > 0):
        raise InputError("ridge must be > 0 in every row")
