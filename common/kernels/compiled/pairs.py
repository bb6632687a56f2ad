"""Panels of int16 numbers, two rows side by side in an int32, as processors multiply and add them.

A weighted number w v does not fit into 16 bits; it is split into w v = 2^SPLIT_BITS high + low, and both halves do.
"""

from typing import Any, Final

from llvmlite import ir
from numba import types

from fedboard.common.arrays import IndexArray, PairArray, ShortArray
from fedboard.common.kernels.compiled.panels import prefetch_row
from fedboard.common.kernels.compiled.tiles import lanes_of
from fedboard.common.kernels.compiled.vectors import ROUNDED_PRODUCTS, Emitter, Value, call, data_pointer
from fedboard.common.kernels.compiling import compiled, emitted

SPLIT_BITS: Final = 13
"""|w| <= 2^15 and |v| <= 2^12, so |high| <= 2^14 and low is in -2^12 .. 2^12 - 1."""

_AHEAD: Final = 32
_SHORT, _WORD, _BIT = ir.IntType(16), ir.IntType(32), ir.IntType(1)


@compiled()
def gather_pairs(
    vectors: ShortArray,
    rank: int,
    users: IndexArray,
    first: int,
    count: int,
    weights: PairArray,
    plain: PairArray,
    low: PairArray,
    high: PairArray,
    step: int,
) -> None:
    """Lay v = vectors[users[first + k]] in ``plain`` and the halves of w v in ``low`` and ``high``, k < count.

    Ratings 2 p and 2 p + 1 make row p of the panels. Where ``count`` is odd the last weight is 0, so whatever is
    beside it counts for nothing.
    """
    lanes = lanes_of(plain)
    whole = rank // lanes * lanes
    last = users.size - 1
    for pair in range((count + 1) // 2):
        k = first + 2 * pair
        prefetch_row(vectors, int(users[min(k + _AHEAD, last)]), rank)
        prefetch_row(vectors, int(users[min(k + _AHEAD + 1, last)]), rank)
        one, other = int(users[k]) * rank, int(users[min(k + 1, first + count - 1)]) * rank
        to = pair * step
        for column in range(0, whole, lanes):
            split_pair(
                *(
                    vectors,
                    one + column,
                    other + column,
                    lanes,
                    weights,
                    pair,
                    plain,
                    low,
                    high,
                    to + column,
                    1,
                )
            )
        if whole < rank:
            split_pair(
                *(
                    vectors,
                    one + whole,
                    other + whole,
                    rank - whole,
                    weights,
                    pair,
                    plain,
                    low,
                    high,
                    to + whole,
                    0,
                )
            )


@emitted
def split_pair(
    typing_context: Any,
    source: Any,
    one: Any,
    other: Any,
    count: Any,
    weights: Any,
    pair: Any,
    plain: Any,
    low: Any,
    high: Any,
    target: Any,
    whole: Any,
) -> Any:
    """One vector of pairs from two places of ``source``, as it is and times its weights, split.

    ``count`` numbers are read of each, the others are zero; the literal ``whole`` says that there are as many as
    lanes.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, one_at, other_at, n, _, pair_at, _, _, _, to, _ = arguments
        out = Emitter(context, builder, plain, arguments[6])
        base = data_pointer(context, builder, source, arguments[0])
        rows = [
            _numbers(builder, base, place, out.lanes, None if whole.literal_value else n)
            for place in (one_at, other_at)
        ]
        order = [lane + half * out.lanes for lane in range(out.lanes) for half in (0, 1)]
        mask = ir.Constant(ir.VectorType(_WORD, 2 * out.lanes), order)
        values = builder.shuffle_vector(*rows, mask)
        weight = Emitter(context, builder, weights, arguments[4]).load_splat(pair_at)
        lower, upper = _split_products(builder, values, builder.bitcast(weight, values.type))
        for number, part in ((6, values), (7, lower), (8, upper)):
            panel = Emitter(context, builder, plain, arguments[number])
            panel.store(builder.bitcast(part, out.vector), to)
        return context.get_dummy_value()

    places = (types.int64, types.int64, types.int64)
    return types.void(source, *places, weights, types.int64, plain, low, high, types.int64, whole), emit


@emitted
def move_pair_sums(typing_context: Any, low: Any, high: Any, place: Any, sums: Any, shift: Any) -> Any:
    """Add low + 2^shift high to the int64 ``sums``, a vector from ``place`` on, and clear both. Literal shift."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = [Emitter(context, builder, low, array) for array in arguments[:2]]
        wide = ir.VectorType(ir.IntType(64), parts[0].lanes)
        lower, upper = (builder.sext(part.load(arguments[2]), wide) for part in parts)
        for part in parts:
            part.store(part.constant([0] * part.lanes), arguments[2])
        both = builder.add(lower, builder.shl(upper, _all(wide, shift.literal_value)))
        first = builder.gep(data_pointer(context, builder, sums, arguments[3]), [arguments[2]])
        address = builder.bitcast(first, wide.as_pointer())
        builder.store(builder.add(builder.load(address, align=8), both), address, align=8)
        return context.get_dummy_value()

    return types.void(low, high, types.int64, sums, shift), emit


def _numbers(builder: Any, base: Value, place: Value, lanes: int, count: Value | None) -> Value:
    """The int16 numbers from ``place`` on: one vector, or so many of it and zeros, without reading beyond."""
    kind = ir.VectorType(_SHORT, lanes)
    address = builder.bitcast(builder.gep(base, [place]), kind.as_pointer())
    if count is None:
        return builder.load(address, align=2)
    counts = ir.VectorType(ir.IntType(64), lanes)
    single = builder.insert_element(ir.Constant(counts, ir.Undefined), count, _WORD(0))
    everywhere = builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(_WORD, lanes), [0] * lanes))
    wanted = builder.icmp_signed("<", ir.Constant(counts, list(range(lanes))), everywhere)
    masks = ir.VectorType(_BIT, lanes)
    signature = ir.FunctionType(kind, [kind.as_pointer(), _WORD, masks, kind])
    zeros = ir.Constant(kind, [0] * lanes)
    return call(
        builder, f"llvm.masked.load.v{lanes}i16.p0v{lanes}i16", signature, [address, _WORD(2), wanted, zeros]
    )


def _split_products(builder: Any, values: Value, weights: Value) -> tuple[Value, Value]:
    """(low, high) of w v: high = (w v + 2^12) >> 13, and what is left, which 16 bits hold."""
    fourfold = builder.shl(values, _all(values.type, 2))  # within +-2^14
    high = _rounded_products(builder, fourfold, weights)
    products = builder.mul(values, weights)  # modulo 2^16, as is the next line
    return builder.sub(products, builder.shl(high, _all(values.type, SPLIT_BITS))), high


def _rounded_products(builder: Any, left: Value, right: Value) -> Value:
    """(left right + 2^14) >> 15 of int16 numbers."""
    kind = left.type
    if ROUNDED_PRODUCTS:
        return call(builder, ROUNDED_PRODUCTS, ir.FunctionType(kind, [kind, kind]), [left, right])
    wide = ir.VectorType(_WORD, kind.count)
    products = builder.mul(builder.sext(left, wide), builder.sext(right, wide))
    rounded = builder.ashr(builder.add(products, _all(wide, 1 << 14)), _all(wide, 15))
    return builder.trunc(rounded, kind)


def _all(kind: Any, value: int) -> Value:
    return ir.Constant(kind, [value] * kind.count)
