"""The step of stochastic gradient descent on two rows at once, in vectors, and a row that is added to another."""

from typing import Any

from numba import types

from fedboard.common.kernels.compiled.vectors import Emitter, Value, for_vectors
from fedboard.common.kernels.compiling import emitted


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

        for_vectors(builder, numbers, first.lanes, step)
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

        for_vectors(builder, numbers, out.lanes, add)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64, target.dtype), emit
