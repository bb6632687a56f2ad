"""Many ridge regressions on shared factors: the user step, ALS, own models and what is left, what a ridge does.

And many systems whose noisy, possibly indefinite matrices are first projected on the positive semidefinite ones.
"""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray, ascends
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation
from fedboard.common.kernels.numpy import solves as reference
from fedboard.common.kernels.packed import packed_size
from fedboard.common.kernels.threads import for_row_ranges

CONTENT_RIDGES = (4.0, 16.0)
"""Variance of a rating around its prediction over that of a coordinate of h: candidates, beside no content."""
MOST_LEFT_OUT = 32
"""Ratings of a row that are left out in turn: as many, evenly spaced, where it has more."""


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
        backend: "numpy" sums in float64, "compiled" in float32.
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
    _check(indptr, columns, targets, factors, ridge=ridge)
    if added.shape != (rank, rank):
        raise InputError("gram must have shape (rank, rank)")
    solution = np.empty((ridge.size, rank), np.float32) if out is None else out
    if (
        solution.shape != (ridge.size, rank)
        or solution.dtype != np.float32
        or not solution.flags.c_contiguous
    ):
        raise InputError("out must be a contiguous float32 array of shape (rows, rank)")

    def work(start: int, stop: int) -> None:
        kernel.solve_ridges(indptr, columns, targets, factors, ridge, added, start, stop, solution)

    for_row_ranges(work, np.diff(indptr) * 1.0 + rank, threads=threads)
    return solution


def solve_own_models(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    vectors: Float32Array,
    content: Float32Array,
    *,
    ridge: Float32Array,
    backend: str,
) -> tuple[Float32Array, FloatArray]:
    """Solve each row's regression on vectors and content, with a ridge on content that her own ratings decide.

    ``min sum_k (t_k - <x_k, w> - <phi_k, h>)^2 + ridge |w|^2 + content_ridge |h|^2`` over the ratings k of a row.
    1 / content_ridge is the mean of 1 / lambda over ``CONTENT_RIDGES`` and infinity, weighted by the evidence of
    each for these ratings: ``-n/2 log(t^T K^-1 t) - 1/2 log det K``, K = I + X X^T / ridge + Phi Phi^T / lambda,
    which is the marginal likelihood with the noise profiled out. So whom content tells nothing is not led astray.

    Computed in float64 by every backend, from the smaller of both systems: as wide as there are coordinates, or as
    ratings.

    Args:
        indptr: int64, shape (n_rows + 1,). Private, as are the next two.
        items: int32, shape (n_entries,), row numbers into ``vectors`` and ``content``.
        targets: float32, shape (n_entries,).
        vectors: x: float32, shape (n_items, width). Public.
        content: phi: float32, shape (n_items, content width). Public.
        ridge: float32, shape (n_rows,), > 0.
        backend: "numpy" or "compiled"; they agree to rounding of the result.

    Returns:
        (w, h) of each row, float32, shape (n_rows, width + content width), zeros for a row without entries; and
        content_ridge, float64, shape (n_rows,). Private.

    Raises:
        InputError: shapes that do not fit, an item out of range, or a ridge that is not > 0.
    """
    kernel = implementation(backend, "own_models")
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    targets, ridge = np.ascontiguousarray(targets, np.float32), np.ascontiguousarray(ridge, np.float32)
    both = np.concatenate([vectors, content], axis=1, dtype=np.float32)
    _check(indptr, items, targets, both, ridge=ridge)
    solution, chosen = np.zeros((ridge.size, both.shape[1]), np.float32), np.full(ridge.size, np.inf)
    candidates = np.array(CONTENT_RIDGES)
    kernel.solve_own(indptr, items, targets, both, vectors.shape[1], ridge, candidates, solution, chosen)
    for row in np.flatnonzero(
        ~np.isfinite(solution).all(axis=1)
    ).tolist():  # what Cholesky's factors cannot do
        one = slice(row, row + 1)
        bounds, own = indptr[row : row + 2], (solution[one], chosen[one])
        reference.solve_own(bounds, items, targets, both, vectors.shape[1], ridge[one], candidates, *own)
    return solution, chosen


def _check(
    indptr: IntArray,
    entries: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    **positive: FloatArray | Float32Array,
) -> None:
    """Refuse arrays that do not fit together. Compiled kernels read without looking: nothing may get past.

    Args:
        indptr: where rows begin.
        entries: row numbers into ``factors``.
        targets: one for each entry.
        factors: any number of rows.
        positive: by name, one number > 0 for each row.
    """
    if entries.shape != targets.shape or any(one.shape != (indptr.size - 1,) for one in positive.values()):
        raise InputError("indptr, and what has a number per row or per entry, do not fit together")
    if indptr[0] < 0 or indptr[-1] > entries.size or not ascends(indptr):
        raise InputError("indptr must ascend within 0..number of entries")
    if entries.size and (entries.min() < 0 or entries.max() >= factors.shape[0]):
        raise InputError("entries must be row numbers of factors")
    if not all(np.all(one > 0) for one in positive.values()):
        raise InputError(f"{', '.join(positive)} must be > 0 in every row")


def left_out_errors(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    *,
    ridges: FloatArray,
    growth: FloatArray,
    bias_ridge: float,
    backend: str,
) -> FloatArray:
    """Mean squared leave-one-out error of each row's regression for each ridge, less that without factors.

    The regression is on (1, u_i), with ridge ``growth (bias_ridge c^2 + ridge |v|^2)``; leaving a rating out costs
    no second solve: its error is the residual over 1 - h, h its leverage. At most ``MOST_LEFT_OUT`` ratings of a
    row are left out, evenly spaced.

    Args:
        indptr: int64, shape (n_rows + 1,). Private, as are the next two.
        items: int32, shape (n_entries,), row numbers into ``factors``.
        targets: float32, shape (n_entries,).
        factors: float32, shape (n_items, rank). Public.
        ridges: the candidates, float64, shape (n_ridges,), > 0.
        growth: float64, shape (n_rows,), > 0. Private.
        bias_ridge: > 0.
        backend: "numpy" or "compiled"; they agree to rounding.

    Returns:
        float64, shape (n_rows, n_ridges): below 0 where factors help, 0 for fewer than two entries, not
        finite where absurd factors leave nothing but rounding. Private.

    Raises:
        InputError: shapes that do not fit, an item out of range, or a ridge that is not > 0.
    """
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    targets, factors = np.ascontiguousarray(targets, np.float32), np.ascontiguousarray(factors, np.float32)
    ridges, growth = np.ascontiguousarray(ridges, np.float64), np.ascontiguousarray(growth, np.float64)
    _check(indptr, items, targets, factors, growth=growth)
    if not (np.all(ridges > 0) and bias_ridge > 0):
        raise InputError("ridges and bias_ridge must be > 0")
    found = np.zeros((growth.size, ridges.size))
    kernel = implementation(backend, "left_out")
    kernel.errors_of_rows(indptr, items, targets, factors, ridges, growth, bias_ridge, MOST_LEFT_OUT, found)
    return found


def residuals_of_rows(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    vectors: Float32Array,
    own: Float32Array,
    *,
    backend: str,
) -> FloatArray:
    """``t_k - c_j - <u_i, v_j>`` for each entry k of row j with item i; products and their sum in float64.

    **Guarantee**: a row depends on its own entries alone, and the compiled backends give the same bits; so does
    "numpy" on x86-64, in whose order they add.

    Args:
        indptr: int64, shape (n_rows + 1,), from 0 to n_entries. Private, as are the next two.
        items: int32, shape (n_entries,), row numbers into ``vectors``.
        targets: float32, shape (n_entries,).
        vectors: u: float32, shape (n_items, width). Public.
        own: (c_j, v_j): float32, shape (n_rows, 1 + width). Private.
        backend: "numpy" or "compiled".

    Returns:
        float64, shape (n_entries,). Private.

    Raises:
        InputError: arrays that do not fit together, or an item out of range.
    """
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    targets, own = np.ascontiguousarray(targets, np.float32), np.ascontiguousarray(own, np.float32)
    vectors = np.ascontiguousarray(vectors, np.float32)
    _check(indptr, items, targets, vectors)
    if indptr[0] != 0 or indptr[-1] != items.size or own.shape != (indptr.size - 1, 1 + vectors.shape[1]):
        raise InputError(
            "indptr must ascend from 0 to the number of entries, and own models have one row each"
        )
    found = np.empty(items.size)
    implementation(backend, "rows").fill_residuals(indptr, items, targets, vectors, own, found)
    return found


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
        kernel.solve_projected(quadratic, linear, ridge, gram, start, stop, solution)

    for_row_ranges(work, np.ones(count), threads=threads)
    return solution
