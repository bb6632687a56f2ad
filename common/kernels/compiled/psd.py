"""Projection and solve without eigenvectors.

Where a Cholesky factorisation shows that a matrix has no negative eigenvalue it is solved as it is. Else
x = f(A) b with f(a) = 1 / (max(a, 0) + ridge): A = Q T Q^T with T tridiagonal, and f as partial fractions from
Zolotarev's sign function, each a tridiagonal solve with a complex shift. With h(z) = 1 / (z + ridge) and
sign(a) ~ a sum_j s_j / (a^2 + q_j^2),
f(a) ~ 1 / (2 ridge) + sum_j Re[s_j (h(i q_j) - 1 / ridge) / (a - i q_j)] / 2, which has no pole at -ridge.
"""

from functools import cache
from typing import Any, Final

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.kernels.compiled.cholesky import factor, substitute
from fedboard.common.kernels.compiled.panels import copy_vector, lanes_of
from fedboard.common.kernels.compiled.tridiagonal import rotate_back, tridiagonalise
from fedboard.common.kernels.compiled.vectors import (
    ELEMENT,
    Emitter,
    Registers,
    Value,
    counting,
    emitted,
    int64,
)
from fedboard.common.kernels.compiling import BOOLEAN, INTEGER, compiled, reading, writing
from fedboard.common.kernels.numpy import solves as reference

SMALLEST: Final = 1e-10
N_POLES: Final = 72


@cache
def sign_coefficients(smallest: float, n_poles: int) -> tuple[FloatArray, FloatArray]:
    """Poles and weights of Zolotarev's approximation sign(x) ~ x sum_j weights_j / (x^2 + poles_j^2).

    With k' = smallest the complementary modulus and K the complete elliptic integral, the numbers
    c_i = k'^2 tn(i K / (2 r))^2, i = 1..2r - 1, are in turn squared poles and squared zeros. For k' << 1,
    K = log(4 / k') and tn(u) = sinh(u) / (1 - k'^2 cosh(2u) / 8) for u <= K / 2, up to a relative k'^2;
    tn(K - u) = 1 / (k' tn(u)).

    Args:
        smallest: the approximation holds for smallest <= |x| <= 1; <= 1e-6.
        n_poles: r, >= 1. The error is about 4 exp(-pi^2 r / log(4 / smallest)): 1e-12 for 1e-10 and 72.

    Returns:
        float64, shape (n_poles,), twice: poles (ascending) and weights; read-only, and made once in a process.

    Reference: Zolotarev (1877); N. I. Akhiezer, Elements of the Theory of Elliptic Functions (1990), sec. 50.
    """
    arguments = np.arange(1, n_poles + 1) * np.log(4.0 / smallest) / (2 * n_poles)
    tangents = np.sinh(arguments) / (1.0 - smallest**2 / 8.0 * np.cosh(2.0 * arguments))
    squares = (smallest * tangents) ** 2
    squares = np.concatenate([squares, smallest**2 / squares[-2::-1]])
    poles, zeros = squares[::2], squares[1::2]
    weights = np.array(
        [np.prod((zeros - pole) / (np.delete(poles, j) - pole)) for j, pole in enumerate(poles)]
    )
    # The values swing between two bounds; scale them to swing evenly about 1.
    x = np.geomspace(smallest, 1.0, 100 * n_poles)[:, np.newaxis]
    values = np.sum(x * weights / (x**2 + poles), axis=1)
    found = np.sqrt(poles), weights * 2.0 / (values.max() + values.min())
    for array in found:
        array.flags.writeable = False
    return found


# An eigenvalue above -1e-8 ridge counts as zero: a relative error of 1e-8.
_SHIFT: Final = 1e-8
# Down to this ridge / largest eigenvalue the error of the fractions stays below a relative 1e-5 whatever A and b.
_SMALLEST_RIDGE: Final = 1e-5


@compiled()
def _eliminate(
    diagonal: FloatArray, beside: FloatArray, vector: FloatArray, shifts: FloatArray, scratch: FloatArray
) -> None:
    """Forward half of (T - i shift_j) x = vector for all j: reciprocal pivots and right sides, row by row.

    ``scratch`` has shape (4, rank + 2, n_shifts): real and imaginary reciprocal pivots, real and imaginary right
    sides. Its first and last rows are zero, which spares the ends a case of their own.
    """
    for i in range(diagonal.size):
        off = beside[i - 1] if i > 0 else 0.0
        centre, known = diagonal[i], vector[i]
        for j in range(shifts.size):
            pivot, pivot_i = scratch[0, i, j], scratch[1, i, j]
            right, right_i = scratch[2, i, j], scratch[3, i, j]
            real, imaginary = centre - off * off * pivot, -shifts[j] - off * off * pivot_i
            reciprocal = 1.0 / (real * real + imaginary * imaginary)
            scratch[0, i + 1, j] = real * reciprocal
            scratch[1, i + 1, j] = -imaginary * reciprocal
            scratch[2, i + 1, j] = known - off * (pivot * right - pivot_i * right_i)
            scratch[3, i + 1, j] = -off * (pivot * right_i + pivot_i * right)


@emitted(ELEMENT)
def _back_substitute_row(
    builder: Any,
    planes: Emitter,
    row: Value,
    plane: Value,
    count: Value,
    off: Value,
    real_weights: Emitter,
    imaginary_weights: Emitter,
) -> Value:
    """One row of the backward half, for all shifts; returns the real part of its weighted sum.

    ``planes`` is ``scratch``, flat: the row's first numbers are ``row + p plane`` for p = 0..3, those of the row
    after it ``count`` further on.
    """
    places = [builder.add(row, builder.mul(plane, int64(p))) for p in range(4)]
    offs, total = planes.splat(off), Registers(builder, [planes.zero()])
    with counting(builder, builder.udiv(count, int64(planes.lanes))) as loop:
        offset = builder.mul(loop.index, int64(planes.lanes))
        at = [builder.add(place, offset) for place in places]
        pivot, pivot_i, right, right_i = (planes.load(place) for place in at)
        after, after_i = (planes.load(builder.add(place, count)) for place in at[2:])
        right = planes.multiply_subtract(offs, after, right)
        right_i = planes.multiply_subtract(offs, after_i, right_i)
        real = planes.multiply_subtract(pivot_i, right_i, builder.fmul(pivot, right))
        imaginary = planes.multiply_add(pivot_i, right, builder.fmul(pivot, right_i))
        planes.store(real, at[2])
        planes.store(imaginary, at[3])
        total[0] = planes.multiply_add(real_weights.load(offset), real, total[0])
        total[0] = planes.multiply_add(imaginary_weights.load(offset), imaginary, total[0])
    return planes.sum_lanes(total[0])


@compiled()
def _eigenvalue_bound(diagonal: FloatArray, beside: FloatArray) -> float:
    """Gershgorin's bound on the absolute eigenvalues."""
    bound = 0.0
    for i in range(diagonal.size):
        before = abs(beside[i - 1]) if i > 0 else 0.0
        after = abs(beside[i]) if i < diagonal.size - 1 else 0.0
        bound = max(bound, before + abs(diagonal[i]) + after)
    return bound


@compiled()
def _apply_function(
    diagonal: FloatArray,
    beside: FloatArray,
    vector: FloatArray,
    ridge: float,
    bound: float,
    poles: FloatArray,
    weights: FloatArray,
    scratch: FloatArray,
) -> None:
    """Overwrite the first entries of ``vector`` with f(T) vector; the eigenvalues lie within +-bound."""
    rank, count = diagonal.size, poles.size
    shifts = poles * bound
    _eliminate(diagonal, beside, vector, shifts, scratch)
    common = -0.5 * weights * bound * shifts / (ridge * (ridge * ridge + shifts * shifts))
    real_weights, imaginary_weights = common * shifts, -common * ridge
    flat, plane = scratch.reshape(-1), (rank + 2) * count
    for i in range(rank - 1, -1, -1):
        off = beside[i] if i < rank - 1 else 0.0
        row = (i + 1) * count
        part = _back_substitute_row(flat, row, plane, count, off, real_weights, imaginary_weights)
        vector[i] = vector[i] / (2.0 * ridge) + part


@compiled()
def _unpack(packed: FloatArray, rank: int, size: int, matrix: FloatArray) -> float:
    """Fill both triangles of a flat matrix with rows ``size`` apart; returns the smallest diagonal entry."""
    place, smallest = 0, np.inf
    for row in range(rank):
        smallest = min(smallest, packed[place])
        corner = row * size + row
        right, down = matrix[corner : corner + rank - row], matrix[corner::size]
        own = packed[place : place + rank - row]
        for offset in range(rank - row):
            right[offset] = own[offset]
        for offset in range(rank - row):
            down[offset] = own[offset]
        place += rank - row
    return smallest


@compiled()
def _solve_definite(
    matrix: FloatArray,
    size: int,
    ridge: float,
    gram: FloatArray,
    work: FloatArray,
    inverses: FloatArray,
    vector: FloatArray,
) -> bool:
    """Solve with A + ridge I + gram if A has no negative eigenvalue; returns whether it has none."""
    copy_vector(matrix, work)
    for place in range(0, size * size, size + 1):
        work[place] += _SHIFT * ridge
    if not factor(work, size, size, inverses):
        return False
    for place in range(size * size):
        work[place] = matrix[place] + gram[place]
    for place in range(0, size * size, size + 1):
        work[place] += ridge
    factor(work, size, size, inverses)
    substitute(work, size, size, inverses, vector)
    return True


@compiled(
    *(reading("float64", 2), reading("float64", 2), reading("float64", 1), reading("float64", 2), BOOLEAN),
    *(reading("float64", 1), reading("float64", 1), INTEGER, INTEGER),
    *(writing("float64", 2), writing("boolean", 1)),
)
def _solve_rows(
    quadratic: FloatArray,
    linear: FloatArray,
    ridge: FloatArray,
    gram: FloatArray,
    has_gram: bool,
    poles: FloatArray,
    weights: FloatArray,
    start: int,
    stop: int,
    out: FloatArray,
    left_over: BoolArray,
) -> None:
    """Solve what can be solved here and mark the other rows in ``left_over``."""
    rank = linear.shape[1]
    vector = np.zeros(1)
    lanes = lanes_of(vector)
    size = (rank + lanes - 1) // lanes * lanes
    matrix, work, added = np.zeros(size * size), np.empty(size * size), np.zeros(size * size)
    reflectors, inverses = np.zeros(size * size), np.empty(size * lanes)
    vector, partner, product = np.zeros(size), np.zeros(size), np.zeros(size)
    diagonal, beside, scales = np.empty(rank), np.empty(rank), np.empty(rank)
    scratch = np.zeros((4, rank + 2, poles.size))
    for row in range(rank):
        for column in range(rank):
            added[row * size + column] = gram[row, column]
    for row in range(start, stop):
        copy_vector(linear[row], vector[:rank])
        smallest = _unpack(quadratic[row], rank, size, matrix)
        if smallest >= 0.0 and _solve_definite(matrix, size, ridge[row], added, work, inverses, vector):
            copy_vector(vector, out[row])
        elif has_gram:
            left_over[row] = True
        else:
            tridiagonalise(matrix, rank, size, vector, diagonal, beside, reflectors, scales, partner, product)
            bound = _eigenvalue_bound(diagonal, beside)
            left_over[row] = ridge[row] < _SMALLEST_RIDGE * bound
            if not left_over[row]:
                _apply_function(diagonal, beside, vector, ridge[row], bound, poles, weights, scratch)
                rotate_back(vector, rank, size, reflectors, scales)
                copy_vector(vector, out[row])


def solve_projected(
    quadratic: FloatArray,
    linear: FloatArray,
    ridge: FloatArray,
    gram: FloatArray | None,
    start: int,
    stop: int,
    out: FloatArray,
) -> None:
    """Fill ``out[start:stop]``; arguments as in ``solve_psd``.

    Left to the eigendecomposition: indefinite matrices to which a gram matrix is added (the inverse is no function
    of A then) or whose ridge is below 1e-5 of the largest eigenvalue.
    """
    rank = linear.shape[1]
    added = np.zeros((rank, rank)) if gram is None else np.ascontiguousarray(gram, np.float64)
    left_over = np.zeros(len(linear), np.bool_)
    poles, weights = sign_coefficients(SMALLEST, N_POLES)
    _solve_rows(
        quadratic, linear, ridge, added, gram is not None, poles, weights, start, stop, out, left_over
    )
    rows = np.flatnonzero(left_over)
    solved = np.empty((rows.size, rank))
    reference.solve_projected(quadratic[rows], linear[rows], ridge[rows], gram, 0, rows.size, solved)
    out[rows] = solved
