"""Leave-one-out errors summed in float64: one small system with several ridges on its diagonal, a lane for each.

A lane goes through the operations of ``own_models.solve_positive`` and of a forward substitution in their
order, each rounded alone, so that it holds what a loop over the ridges would, bit for bit.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numba import types

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiled.tiles import lanes_of
from fedboard.common.kernels.compiled.vectors import Emitter, Registers, Value, counting, int64
from fedboard.common.kernels.compiling import INTEGER, REAL, compiled, emitted, reading, writing

TOGETHER: Final = 4
"""Ratings whose substitutions run side by side, so that one subtraction need not wait for the last."""


@compiled()
def solve_lanes(matrix: FloatArray, vector: FloatArray, width: int, lanes: int) -> None:
    """As ``solve_positive`` in each lane: ``vector`` becomes matrix^-1 vector, ``matrix`` its factor R.

    Args:
        matrix: flat, the place of (row, column) is ``(row * width + column) * lanes``; only the upper triangle.
        vector: flat, shape (width * lanes,).
        width: rows and columns.
        lanes: of a vector of float64.
    """
    for pivot in range(width):
        above = pivot * width
        _scale_pivot(matrix, (above + pivot) * lanes, width - pivot, vector, pivot * lanes)
        for row in range(pivot + 1, width):
            factor = (above + row) * lanes
            _subtract_products(vector, row * lanes, matrix, factor, vector, pivot * lanes, 1)
            _subtract_products(
                matrix, (row * width + row) * lanes, matrix, factor, matrix, factor, width - row
            )
    for row in range(width - 1, -1, -1):
        _substitute_back(matrix, (row * width + row) * lanes, vector, row * lanes, width - row - 1)


@emitted
def _scale_pivot(typing_context: Any, matrix: Any, place: Any, count: Any, vector: Any, own: Any) -> Any:
    """A row from its diagonal on, and its part of the vector, times one over the diagonal's square root."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, first, numbers, _, own_at = arguments
        left, right = (
            Emitter(context, builder, matrix, arguments[0]),
            Emitter(context, builder, vector, arguments[3]),
        )
        scale = builder.fdiv(left.constant([1.0] * left.lanes), left.square_roots(left.load(first)))
        with counting(builder, numbers) as loop:
            here = _behind(builder, first, loop.index, left.lanes)
            left.store(builder.fmul(left.load(here), scale), here)
        right.store(builder.fmul(right.load(own_at), scale), own_at)
        return context.get_dummy_value()

    return types.void(matrix, types.int64, types.int64, vector, types.int64), emit


@emitted
def _subtract_products(
    typing_context: Any,
    target: Any,
    target_place: Any,
    factors: Any,
    factor_place: Any,
    source: Any,
    source_place: Any,
    count: Any,
) -> Any:
    """Take from ``count`` vectors of ``target`` one factor times those of ``source``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, target_at, _, factor_at, _, source_at, numbers = arguments
        out, factor, read = (
            Emitter(context, builder, kind, arguments[place])
            for kind, place in ((target, 0), (factors, 2), (source, 4))
        )
        multiple = factor.load(factor_at)
        with counting(builder, numbers) as loop:
            here = _behind(builder, target_at, loop.index, out.lanes)
            product = builder.fmul(multiple, read.load(_behind(builder, source_at, loop.index, out.lanes)))
            out.store(builder.fsub(out.load(here), product), here)
        return context.get_dummy_value()

    place = types.int64
    return types.void(target, place, factors, place, source, place, place), emit


@emitted
def _substitute_back(
    typing_context: Any, matrix: Any, diagonal: Any, vector: Any, own: Any, behind: Any
) -> Any:
    """One entry of the solution from the ``behind`` ones after it."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, diagonal_at, _, own_at, numbers = arguments
        left, right = (
            Emitter(context, builder, matrix, arguments[0]),
            Emitter(context, builder, vector, arguments[2]),
        )
        rest = Registers(builder, [right.load(own_at)])
        with counting(builder, numbers) as loop:
            number = builder.add(loop.index, int64(1))
            entry = left.load(_behind(builder, diagonal_at, number, left.lanes))
            known = right.load(_behind(builder, own_at, number, left.lanes))
            rest[0] = builder.fsub(rest[0], builder.fmul(entry, known))
        right.store(builder.fdiv(rest[0], left.load(diagonal_at)), own_at)
        return context.get_dummy_value()

    return types.void(matrix, types.int64, vector, types.int64, types.int64), emit


@emitted
def left_out_of_some(
    typing_context: Any,
    rated: Any,
    wanted: Any,
    first: Any,
    root: Any,
    own: Any,
    half: Any,
    width: Any,
    squares: Any,
) -> Any:
    """The squared error of ``TOGETHER`` ratings from ``first`` on, each left out in turn, in each lane.

    The residual over 1 - x^T (R^T R)^-1 x, squared. Takes ``rated`` (flat, ``width`` numbers a rating) and
    ``wanted`` (a number a rating), R and the solution as ``solve_lanes`` leaves them, and room for
    ``TOGETHER`` rows of ``width`` vectors in ``half``; writes to ``squares``, a vector a rating.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = rated, wanted, root, own, half, squares
        places = 0, 1, 3, 4, 5, 7
        rows, goals, factor, solution, halves, out = (
            Emitter(context, builder, kind, arguments[place])
            for kind, place in zip(kinds, places, strict=True)
        )
        first_at, size, lanes = arguments[2], arguments[6], rows.lanes
        ratings = [builder.add(first_at, int64(k)) for k in range(TOGETHER)]
        residuals = Registers(builder, [goals.load_splat(rating) for rating in ratings])
        leverages = Registers(builder, [rows.zero()] * TOGETHER)

        def vector_at(number: Value) -> Value:
            return builder.mul(number, int64(lanes))

        with counting(builder, size) as outer:
            row = outer.index
            entries = [rows.load_splat(builder.add(builder.mul(rating, size), row)) for rating in ratings]
            model = solution.load(vector_at(row))
            rest = Registers(builder, entries)
            for k, entry in enumerate(entries):
                residuals[k] = builder.fsub(residuals[k], builder.fmul(entry, model))
            with counting(builder, row) as inner:
                column = inner.index
                above = factor.load(vector_at(builder.add(builder.mul(column, size), row)))
                for k in range(TOGETHER):
                    known = halves.load(vector_at(builder.add(builder.mul(int64(k), size), column)))
                    rest[k] = builder.fsub(rest[k], builder.fmul(above, known))
            diagonal = factor.load(vector_at(builder.add(builder.mul(row, size), row)))
            for k in range(TOGETHER):
                solved = builder.fdiv(rest[k], diagonal)
                halves.store(solved, vector_at(builder.add(builder.mul(int64(k), size), row)))
                leverages[k] = builder.fadd(leverages[k], builder.fmul(solved, solved))
        one = rows.constant([1.0] * lanes)
        for k, rating in enumerate(ratings):
            error = builder.fdiv(residuals[k], builder.fsub(one, leverages[k]))
            out.store(builder.fmul(error, error), vector_at(rating))
        return context.get_dummy_value()

    return types.void(rated, wanted, types.int64, root, own, half, types.int64, squares), emit


@emitted
def spread_with_ridges(
    typing_context: Any,
    system: Any,
    step: Any,
    width: Any,
    ridges: Any,
    matrix: Any,
    moment: Any,
    vector: Any,
) -> Any:
    """Lay a system out for ``solve_lanes``: each number in every lane, and the lane's ridge on the diagonal but for
    its first entry.

    Takes ``system`` (flat, ``width`` rows ``step`` apart, upper triangle), ``ridges`` (a number a lane) and
    ``moment`` (``width`` numbers); writes to ``matrix`` and ``vector``.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = {0: system, 3: ridges, 4: matrix, 5: moment, 6: vector}
        given, own, out, sums, wanted = (
            Emitter(context, builder, kind, arguments[place]) for place, kind in kinds.items()
        )
        distance, size, added = arguments[1], arguments[2], own.load(int64(0))
        with counting(builder, size) as outer:
            row = outer.index
            wanted.store(sums.load_splat(row), _behind(builder, int64(0), row, out.lanes))
            diagonal, place = (builder.add(builder.mul(row, by), row) for by in (size, distance))
            with counting(builder, builder.sub(size, row)) as inner:
                number = builder.add(diagonal, inner.index)
                value = given.load_splat(builder.add(place, inner.index))
                out.store(value, _behind(builder, int64(0), number, out.lanes))
            with builder.if_then(builder.icmp_signed(">", row, int64(0))):
                here = _behind(builder, int64(0), diagonal, out.lanes)
                out.store(builder.fadd(given.load_splat(place), added), here)
        return context.get_dummy_value()

    return types.void(system, types.int64, types.int64, ridges, matrix, moment, vector), emit


@emitted
def add_entries(
    typing_context: Any, factors: Any, targets: Any, system: Any, moment: Any, width: Any, step: Any
) -> Any:
    """Add x x^T (upper triangle, and some entries below it) to ``system`` and target x to ``moment``, for
    ``TOGETHER`` ratings one after the other; products and sums are rounded one by one.

    Takes an x in each row of ``factors``: ``width`` numbers, and zeros up to ``step``, a multiple of the lanes,
    which is how far apart its rows and those of ``system`` are, and how long ``moment`` is.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, _, _, _, size, distance = arguments
        x, goals, out, sums = (
            Emitter(context, builder, kind, arguments[place])
            for place, kind in enumerate((factors, targets, system, moment))
        )
        rows = [builder.mul(int64(k), distance) for k in range(TOGETHER)]

        def add(to: Emitter, place: Value, multiples: Sequence[Value], column: Value) -> None:
            total = to.load(place)
            for row, multiple in zip(rows, multiples, strict=True):
                total = builder.fadd(total, builder.fmul(multiple, x.load(builder.add(row, column))))
            to.store(total, place)

        lanes, wanted = int64(x.lanes), [goals.load_splat(int64(k)) for k in range(TOGETHER)]
        with counting(builder, builder.udiv(distance, lanes)) as loop:
            column = builder.mul(loop.index, lanes)
            add(sums, column, wanted, column)
        with counting(builder, size) as outer:
            multiples = [x.load_splat(builder.add(row, outer.index)) for row in rows]
            first = builder.mul(builder.udiv(outer.index, lanes), lanes)
            with counting(builder, builder.udiv(builder.sub(distance, first), lanes)) as inner:
                column = builder.add(first, builder.mul(inner.index, lanes))
                place = builder.add(builder.mul(outer.index, distance), column)
                add(out, place, multiples, column)
        return context.get_dummy_value()

    return types.void(factors, targets, system, moment, types.int64, types.int64), emit


def _behind(builder: Any, place: Value, number: Value, lanes: int) -> Value:
    """The place of so many vectors behind another."""
    return builder.add(place, builder.mul(number, int64(lanes)))


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
            solve_lanes(root, own, width, lanes)
            for k in range(0, seen, TOGETHER):
                left_out_of_some(rated, wanted, k, root, own, half, width, squares)
            for lane in range(together):
                total = 0.0
                for k in range(seen):
                    total += squares[k * lanes + lane]
                out[row, candidate + lane] = (total - without) / seen
