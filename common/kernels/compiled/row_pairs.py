"""Vector work on two rows at once: their inner product, and the step of stochastic gradient descent on both."""

from typing import Any, Final

from numba import types

from fedboard.common.kernels.compiled.vectors import Emitter, Registers, Value, counting, int64
from fedboard.common.kernels.compiling import emitted

_UNROLLED: Final = 4


@emitted
def inner_product(
    typing_context: Any, left: Any, left_place: Any, right: Any, right_place: Any, count: Any
) -> Any:
    """Sum of products of ``count`` numbers, a multiple of the lanes, from the two places on."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, left_at, _, right_at, numbers = arguments
        first, second = (
            Emitter(context, builder, left, arguments[0]),
            Emitter(context, builder, right, arguments[2]),
        )
        sums = Registers(builder, [first.zero()] * _UNROLLED)

        def add(offset: Value, slot: int) -> None:
            product = first.load(builder.add(left_at, offset)), second.load(builder.add(right_at, offset))
            sums[slot] = first.multiply_add(*product, sums[slot])

        _for_vectors(builder, numbers, first.lanes, add)
        return first.sum_lanes(first.total(sums.values()))

    return left.dtype(left, types.int64, right, types.int64, types.int64), emit


@emitted
def step_both(
    typing_context: Any,
    left: Any,
    left_place: Any,
    right: Any,
    right_place: Any,
    count: Any,
    left_keep: Any,
    right_keep: Any,
    left_change: Any,
    right_change: Any,
) -> Any:
    """a, b <- left_keep a + left_change b, right_keep b + right_change a over ``count`` numbers, whole vectors."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, left_at, _, right_at, numbers, *scalars = arguments
        first, second = (
            Emitter(context, builder, left, arguments[0]),
            Emitter(context, builder, right, arguments[2]),
        )
        keep_first, keep_second, to_first, to_second = (first.splat(value) for value in scalars)

        def step(offset: Value, slot: int) -> None:
            left_here, right_here = builder.add(left_at, offset), builder.add(right_at, offset)
            a, b = first.load(left_here), second.load(right_here)
            first.store(first.multiply_add(to_first, b, builder.fmul(keep_first, a)), left_here)
            second.store(first.multiply_add(to_second, a, builder.fmul(keep_second, b)), right_here)

        _for_vectors(builder, numbers, first.lanes, step)
        return context.get_dummy_value()

    scalar = left.dtype
    places = (left, types.int64, right, types.int64, types.int64)
    return types.void(*places, scalar, scalar, scalar, scalar), emit


@emitted
def add_scaled(
    typing_context: Any,
    target: Any,
    target_place: Any,
    source: Any,
    source_place: Any,
    count: Any,
    scale: Any,
) -> Any:
    """Add ``scale`` times ``count`` numbers of ``source``, a multiple of the lanes, to ``target``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, target_at, _, source_at, numbers, factor = arguments
        out, read = (
            Emitter(context, builder, target, arguments[0]),
            Emitter(context, builder, source, arguments[2]),
        )
        scaled = out.splat(factor)

        def add(offset: Value, slot: int) -> None:
            here = builder.add(target_at, offset)
            added = read.load(builder.add(source_at, offset))
            out.store(out.multiply_add(scaled, added, out.load(here)), here)

        _for_vectors(builder, numbers, out.lanes, add)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64, target.dtype), emit


def _for_vectors(builder: Any, numbers: Value, lanes: int, body: Any) -> None:
    """Emit ``body(offset, slot)`` for every vector, four to a turn and the rest one by one."""
    turn = _UNROLLED * lanes
    turns = builder.udiv(numbers, int64(turn))
    with counting(builder, turns) as loop:
        start = builder.mul(loop.index, int64(turn))
        for slot in range(_UNROLLED):
            body(builder.add(start, int64(slot * lanes)), slot)
    start = builder.mul(turns, int64(turn))
    with counting(builder, builder.udiv(builder.sub(numbers, start), int64(lanes))) as loop:
        body(builder.add(start, builder.mul(loop.index, int64(lanes))), 0)
