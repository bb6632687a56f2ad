"""Own models as compiled loops, summed in float64."""

from math import exp, log, sqrt

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiled.panels import copy_vector
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing
from fedboard.common.kernels.numpy.solves import LEAST

_LEAST = LEAST


@compiled()
def copy_matrix(source: FloatArray, target: FloatArray) -> None:
    """Copy the corner of ``source`` that is as large as ``target``."""
    for row in range(target.shape[0]):
        copy_vector(source[row], target[row])


@compiled()
def solve_positive(matrix: FloatArray, vector: FloatArray) -> None:
    """Overwrite ``vector`` with matrix^-1 vector; the upper triangle of ``matrix`` becomes R, R^T R = matrix.

    A matrix that is not positive definite leaves NaN in ``vector``.
    """
    rank = vector.size
    for pivot in range(rank):
        scale = 1.0 / sqrt(matrix[pivot, pivot])
        for column in range(pivot, rank):
            matrix[pivot, column] *= scale
        vector[pivot] *= scale
        for row in range(pivot + 1, rank):
            factor = matrix[pivot, row]
            vector[row] -= factor * vector[pivot]
            for column in range(row, rank):
                matrix[row, column] -= factor * matrix[pivot, column]
    for row in range(rank - 1, -1, -1):
        rest = vector[row]
        for column in range(row + 1, rank):
            rest -= matrix[row, column] * vector[column]
        vector[row] = rest / matrix[row, row]


@compiled()
def _sum_outer(panel: FloatArray, system: FloatArray) -> None:
    """Set the upper triangle of ``system`` to the sum of x x^T over the rows x of ``panel``."""
    size = panel.shape[1]
    system[:, :] = 0.0
    for k in range(panel.shape[0]):
        x = panel[k]
        for row in range(size):
            own, others, factor = system[row, row:], x[row:], x[row]
            for column in range(size - row):
                own[column] += factor * others[column]


@compiled()
def _add_scaled(board: FloatArray, content: FloatArray, scale: float, out: FloatArray) -> None:
    """Set ``out`` to board + content / scale."""
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[row, column] = board[row, column] + content[row, column] / scale


@compiled()
def _evidence_of(factored: FloatArray, size: int, left: float, total: float, n: int) -> float:
    """-n/2 log(t^T K^-1 t) - 1/2 log det K, from R on the diagonal of what ``solve_positive`` left behind."""
    half = 0.0
    for place in range(size):
        half += log(factored[place, place])
    return -0.5 * n * log(max(left, _LEAST * max(total, _LEAST))) - half


@compiled()
def _mean_ridge(evidence: FloatArray, candidates: FloatArray) -> float:
    """A mean of the candidates and, last, infinity, by their evidence."""
    best, shares, precision = evidence.max(), 0.0, 0.0
    for place in range(evidence.size):
        share = exp(evidence[place] - best)
        shares += share
        if place < candidates.size:
            precision += share / candidates[place]
    return 1.0 / max(precision / shares, _LEAST)


@compiled()
def _by_coordinates(
    panel: FloatArray, wanted: FloatArray, width: int, own: float, candidates: FloatArray, out: FloatArray
) -> float:
    """From Z^T Z + P, as wide as there are coordinates; without content, its leading block."""
    n, size = panel.shape
    gram, moment = np.empty((size, size)), np.zeros(size)
    _sum_outer(panel, gram)
    for k in range(n):
        for place in range(size):
            moment[place] += wanted[k] * panel[k, place]
    total = 0.0
    for k in range(n):
        total += wanted[k] * wanted[k]
    for place in range(width):
        gram[place, place] += own
    system, evidence = np.empty((size, size)), np.empty(candidates.size + 1)
    for number in range(candidates.size + 1):
        last = number == candidates.size
        used = width if last else size
        copy_matrix(gram, system[:used, :used])
        of_prior = 0.5 * width * log(own)
        if not last:
            of_prior += 0.5 * (size - width) * log(candidates[number])
            for place in range(width, size):
                system[place, place] += candidates[number]
        copy_vector(moment, out[:used])
        solve_positive(system[:used, :used], out[:used])
        left = total
        for place in range(used):
            left -= moment[place] * out[place]
        evidence[number] = _evidence_of(system, used, left, total, n) + of_prior
    chosen = _mean_ridge(evidence, candidates)
    copy_matrix(gram, system)
    for place in range(width, size):
        system[place, place] += chosen
    copy_vector(moment, out)
    solve_positive(system, out)
    return chosen


@compiled()
def _by_ratings(
    panel: FloatArray, wanted: FloatArray, width: int, own: float, candidates: FloatArray, out: FloatArray
) -> float:
    """From K = I + X X^T / own + Phi Phi^T / lambda, as wide as there are ratings."""
    n, size = panel.shape
    board, content = np.empty((n, n)), np.empty((n, n))
    _sum_outer(panel[:, :width].T.copy(), board)
    _sum_outer(panel[:, width:].T.copy(), content)
    total = 0.0
    for k in range(n):
        total += wanted[k] * wanted[k]
        for other in range(n):
            board[k, other] /= own
        board[k, k] += 1.0
    system, evidence, weights = np.empty((n, n)), np.empty(candidates.size + 1), np.empty(n)
    for number in range(candidates.size + 1):
        if number < candidates.size:
            _add_scaled(board, content, candidates[number], system)
        else:
            copy_matrix(board, system)
        copy_vector(wanted, weights)
        solve_positive(system, weights)
        left = 0.0
        for k in range(n):
            left += wanted[k] * weights[k]
        evidence[number] = _evidence_of(system, n, left, total, n)
    chosen = _mean_ridge(evidence, candidates)
    copy_vector(wanted, weights)
    _add_scaled(board, content, chosen, system)
    solve_positive(system, weights)
    out[:] = 0.0
    for k in range(n):
        for place in range(size):
            out[place] += weights[k] * panel[k, place] / (own if place < width else chosen)
    return chosen


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2), INTEGER),
    *(reading("float32", 1), reading("float64", 1), writing("float32", 2), writing("float64", 1)),
)
def solve_own(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    both: Float32Array,
    width: int,
    ridge: Float32Array,
    candidates: FloatArray,
    out: Float32Array,
    chosen: FloatArray,
) -> None:
    """Fill ``out`` and ``chosen``; arguments as in ``solve_own_models``, ``both`` = (vectors, content)."""
    size = both.shape[1]
    solution = np.empty(size)
    for row in range(indptr.size - 1):
        first, n = indptr[row], indptr[row + 1] - indptr[row]
        if n == 0:
            continue
        panel, wanted = np.empty((n, size)), np.empty(n)
        for k in range(n):
            copy_vector(both[items[first + k]], panel[k])
            wanted[k] = targets[first + k]
        own = np.float64(ridge[row])
        if n < size:
            chosen[row] = _by_ratings(panel, wanted, width, own, candidates, solution)
        else:
            chosen[row] = _by_coordinates(panel, wanted, width, own, candidates, solution)
        for place in range(size):
            out[row, place] = np.float32(solution[place])
