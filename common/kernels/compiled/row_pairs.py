"""Vector work on two rows at once: their inner product, and the loop that such work is."""

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

        for_vectors(builder, numbers, first.lanes, add)
        return first.sum_lanes(first.total(sums.values()))

    return left.dtype(left, types.int64, right, types.int64, types.int64), emit


def for_vectors(builder: Any, numbers: Value, lanes: int, body: Any) -> None:
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
