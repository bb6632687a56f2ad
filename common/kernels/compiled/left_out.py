"""Leave-one-out errors summed in float64: one small system with several ridges on its diagonal, a lane for each.

A lane goes through the operations of ``own_models.solve_positive`` and of a forward substitution in their
order, each rounded alone, so that it holds what a loop over the ridges would, bit for bit.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any, Final

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiled.panels import lanes_of
from fedboard.common.kernels.compiled.vectors import Emitter, Registers, Value, counting, emitted, int64
from fedboard.common.kernels.compiling import INTEGER, REAL, compiled, reading, writing

TOGETHER: Final = 4
"""Ratings whose substitutions run side by side, so that one subtraction need not wait for the last."""


@compiled()
def solve_lanes(matrix: FloatArray, vector: FloatArray, width: int, scales: FloatArray) -> None:
    """As ``solve_positive`` in each lane: ``vector`` becomes matrix^-1 vector, ``matrix`` its factor R.

    Args:
        matrix: flat, the place of (row, column) is ``(row * width + column) * lanes``; only the upper triangle.
        vector: flat, shape (width * lanes,).
        width: rows and columns.
        scales: shape (lanes,), room to work in.
    """
    lanes = lanes_of(matrix)
    for pivot in range(width):
        corner, own = (pivot * width + pivot) * lanes, pivot * lanes
        for lane in range(lanes):
            scales[lane] = 1.0 / sqrt(matrix[corner + lane])
            vector[own + lane] *= scales[lane]
        for place in range(corner, (pivot + 1) * width * lanes, lanes):
            for lane in range(lanes):
                matrix[place + lane] *= scales[lane]
        for row in range(pivot + 1, width):
            factor, diagonal = (pivot * width + row) * lanes, (row * width + row) * lanes
            _subtract_products(vector, row * lanes, matrix, factor, vector, own, 1)
            _subtract_products(matrix, diagonal, matrix, factor, matrix, factor, width - row)
    for row in range(width - 1, -1, -1):
        diagonal, own = (row * width + row) * lanes, row * lanes
        for column in range(1, width - row):
            entry, known = diagonal + column * lanes, own + column * lanes
            _subtract_products(vector, own, matrix, entry, vector, known, 1)
        for lane in range(lanes):
            vector[own + lane] /= matrix[diagonal + lane]


@emitted()
def _subtract_products(
    builder: Any,
    target: Emitter,
    target_at: Value,
    factors: Emitter,
    factor: Value,
    source: Emitter,
    source_at: Value,
    count: Value,
) -> None:
    """Take from ``count`` vectors of ``target`` one factor times those of ``source``."""
    multiple = factors.load(factor)
    with counting(builder, count) as loop:
        here = _behind(target, target_at, loop.index)
        product = builder.fmul(multiple, source.load(_behind(target, source_at, loop.index)))
        target.store(builder.fsub(target.load(here), product), here)


@emitted()
def left_out_of_some(
    builder: Any,
    rated: Emitter,
    wanted: Emitter,
    first: Value,
    root: Emitter,
    own: Emitter,
    half: Emitter,
    width: Value,
    squares: Emitter,
) -> None:
    """The squared error of ``TOGETHER`` ratings from ``first`` on, each left out in turn, in each lane.

    The residual over 1 - x^T (R^T R)^-1 x, squared. Takes ``rated`` (flat, ``width`` numbers a rating) and
    ``wanted`` (a number a rating), R and the solution as ``solve_lanes`` leaves them, and room for
    ``TOGETHER`` rows of ``width`` vectors in ``half``; writes to ``squares``, a vector a rating.
    """
    ratings = [builder.add(first, int64(k)) for k in range(TOGETHER)]
    residuals = Registers(builder, [wanted.load_splat(rating) for rating in ratings])
    leverages = Registers(builder, [rated.zero()] * TOGETHER)

    def vector_at(row: Value, column: Value) -> Value:
        return _behind(rated, int64(0), builder.add(builder.mul(row, width), column))

    with counting(builder, width) as outer:
        row = outer.index
        entries = [rated.load_splat(builder.add(builder.mul(rating, width), row)) for rating in ratings]
        model = own.load(vector_at(int64(0), row))
        rest = Registers(builder, entries)
        for k, entry in enumerate(entries):
            residuals[k] = builder.fsub(residuals[k], builder.fmul(entry, model))
        with counting(builder, row) as inner:
            above = root.load(vector_at(inner.index, row))
            for k in range(TOGETHER):
                known = half.load(vector_at(int64(k), inner.index))
                rest[k] = builder.fsub(rest[k], builder.fmul(above, known))
        diagonal = root.load(vector_at(row, row))
        for k in range(TOGETHER):
            solved = builder.fdiv(rest[k], diagonal)
            half.store(solved, vector_at(int64(k), row))
            leverages[k] = builder.fadd(leverages[k], builder.fmul(solved, solved))
    one = rated.constant([1.0] * rated.lanes)
    for k, rating in enumerate(ratings):
        error = builder.fdiv(residuals[k], builder.fsub(one, leverages[k]))
        squares.store(builder.fmul(error, error), _behind(rated, int64(0), rating))


@compiled()
def spread_with_ridges(
    system: FloatArray,
    step: int,
    width: int,
    ridges: FloatArray,
    matrix: FloatArray,
    moment: FloatArray,
    vector: FloatArray,
) -> None:
    """Lay a system out for ``solve_lanes``: each number in every lane, and the lane's ridge on the diagonal but for
    its first entry.

    Takes ``system`` (flat, ``width`` rows ``step`` apart, upper triangle), ``ridges`` (a number a lane) and
    ``moment`` (``width`` numbers); writes to ``matrix`` and ``vector``.
    """
    lanes = lanes_of(ridges)
    for row in range(width):
        for lane in range(lanes):
            vector[row * lanes + lane] = moment[row]
        for column in range(row, width):
            place = (row * width + column) * lanes
            for lane in range(lanes):
                matrix[place + lane] = system[row * step + column]
        if row > 0:
            place = (row * width + row) * lanes
            for lane in range(lanes):
                matrix[place + lane] += ridges[lane]


@emitted()
def add_entries(
    builder: Any, x: Emitter, targets: Emitter, system: Emitter, moment: Emitter, width: Value, step: Value
) -> None:
    """Add x x^T (upper triangle, and some entries below it) to ``system`` and target x to ``moment``, for
    ``TOGETHER`` ratings one after the other; products and sums are rounded one by one.

    Takes an x in each row of ``x``: ``width`` numbers, and zeros up to ``step``, a multiple of the lanes, which is
    how far apart its rows and those of ``system`` are, and how long ``moment`` is.
    """
    rows = [builder.mul(int64(k), step) for k in range(TOGETHER)]

    def add(to: Emitter, place: Value, multiples: Sequence[Value], column: Value) -> None:
        total = to.load(place)
        for row, multiple in zip(rows, multiples, strict=True):
            total = builder.fadd(total, builder.fmul(multiple, x.load(builder.add(row, column))))
        to.store(total, place)

    lanes, wanted = int64(x.lanes), [targets.load_splat(int64(k)) for k in range(TOGETHER)]
    with counting(builder, builder.udiv(step, lanes)) as loop:
        column = builder.mul(loop.index, lanes)
        add(moment, column, wanted, column)
    with counting(builder, width) as outer:
        multiples = [x.load_splat(builder.add(row, outer.index)) for row in rows]
        first = builder.mul(builder.udiv(outer.index, lanes), lanes)
        with counting(builder, builder.udiv(builder.sub(step, first), lanes)) as inner:
            column = builder.add(first, builder.mul(inner.index, lanes))
            add(system, builder.add(builder.mul(outer.index, step), column), multiples, column)


def _behind(array: Emitter, place: Value, number: Value) -> Value:
    """The place of so many vectors behind another."""
    return array.builder.add(place, array.builder.mul(number, int64(array.lanes)))


@compiled()
def _load(factors: Float32Array, item: int, row: FloatArray) -> None:
    """(1, u_i) in float64; what is behind it stays zero."""
    row[0] = 1.0
    for coordinate in range(factors.shape[1]):
        row[1 + coordinate] = np.float64(factors[item, coordinate])


@compiled()
def _error_alone(
    targets: Float32Array, first: int, last: int, step: int, moment: float, system: float
) -> float:
    """Sum of squared errors without factors, of each ``step``-th of the ratings ``first:last``."""
    total = 0.0
    for k in range(first, last, step):
        error = (np.float64(targets[k]) - moment / system) / (1.0 - 1.0 / system)
        total += error * error
    return total


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2)),
    *(reading("float64", 1), reading("float64", 1), REAL, INTEGER, writing("float64", 2)),
)
def errors_of_rows(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridges: FloatArray,
    growth: FloatArray,
    bias_ridge: float,
    most: int,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``left_out_errors``."""
    width, room = 1 + factors.shape[1], most + TOGETHER
    goals = np.zeros(TOGETHER)
    lanes = lanes_of(goals)
    size = (width + lanes - 1) // lanes * lanes
    system, moment = np.empty(width * size), np.empty(size)
    some = np.zeros(TOGETHER * size)
    root, own = np.empty(width * width * lanes), np.empty(width * lanes)
    half, squares = np.empty(TOGETHER * width * lanes), np.empty(room * lanes)
    rated, wanted, pulls = np.zeros(room * width), np.zeros(room), np.empty(lanes)
    for row in range(indptr.size - 1):
        first, last = indptr[row], indptr[row + 1]
        if last - first < 2:
            continue
        system[:] = 0.0
        moment[:] = 0.0
        step, seen, until_next = -(-(last - first) // most), 0, 0
        for begin in range(first, last, TOGETHER):
            here = min(TOGETHER, last - begin)
            for k in range(here):
                own_row = some[k * size : (k + 1) * size]
                _load(factors, items[begin + k], own_row)
                goals[k] = np.float64(targets[begin + k])
                if until_next == 0:  # one that is left out
                    for coordinate in range(width):
                        rated[seen * width + coordinate] = own_row[coordinate]
                    wanted[seen] = goals[k]
                    seen, until_next = seen + 1, step
                until_next -= 1
            some[here * size :] = 0.0
            goals[here:] = 0.0
            add_entries(some, goals, system, moment, width, size)
        alone = system[0] + growth[row] * bias_ridge
        without = _error_alone(targets, first, last, step, moment[0], alone)
        system[0] = alone
        for candidate in range(0, ridges.size, lanes):
            together = min(lanes, ridges.size - candidate)
            for lane in range(lanes):
                pulls[lane] = growth[row] * ridges[candidate + min(lane, together - 1)]
            spread_with_ridges(system, size, width, pulls, root, moment, own)
            solve_lanes(root, own, width, pulls)
            for k in range(0, seen, TOGETHER):
                left_out_of_some(rated, wanted, k, root, own, half, width, squares)
            for lane in range(together):
                total = 0.0
                for k in range(seen):
                    total += squares[k * lanes + lane]
                out[row, candidate + lane] = (total - without) / seen
