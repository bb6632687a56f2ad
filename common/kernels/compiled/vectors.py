"""Vector instructions inside compiled functions: the little of LLVM that the blocked kernels need.

The width comes from the processor: 64 bytes with AVX-512, else 32 (which LLVM splits where vectors are
narrower, as on NEON). A function that is ``emitted`` writes instructions while another is being compiled; places in
arrays are element numbers, int64.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numba.np import arrayobj as _arrayobj

HAS_WIDE_VECTORS: Final = bool(get_host_cpu_features().get("avx512f", False))
VECTOR_BYTES: Final = 64 if HAS_WIDE_VECTORS else 32


def _x86_name(wide: str, narrow: str) -> str:
    """LLVM's name of an instruction on int16 of this processor; "" where it has none."""
    features = get_host_cpu_features()
    if HAS_WIDE_VECTORS:
        return f"llvm.x86.avx512.{wide}.512" if features.get("avx512bw", False) else ""
    return f"llvm.x86.avx2.{narrow}" if features.get("avx2", False) else ""


PAIR_PRODUCTS: Final = _x86_name("pmaddw.d", "pmadd.wd")
"""Of int16 lanes in pairs: product plus product, int32."""
ROUNDED_PRODUCTS: Final = _x86_name("pmul.hr.sw", "pmul.hr.sw")
"""Of int16 lanes: (product + 2^14) >> 15."""

_INT16: Final = ir.IntType(16)
_INT32: Final = ir.IntType(32)

_ELEMENTS: Final = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.int16: _INT16,
    types.int32: _INT32,
    types.int64: ir.IntType(64),
    types.uint32: _INT32,
    types.uint64: ir.IntType(64),
}

# A value or an instruction of LLVM; neither llvmlite nor this part of numba has types for a checker.
Value = Any
cgutils: Any = _cgutils
arrayobj: Any = _arrayobj


class Emitter:
    """Emits vector instructions on one flat array at the builder's position.

    Of an array of int32 each element holds two int16, and a product is that of pairs: the sum of both products.
    """

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Value) -> None:
        self.builder = builder
        self.bits = int(array_type.dtype.bitwidth)
        self.lanes = VECTOR_BYTES * 8 // self.bits
        self.element = _ELEMENTS[array_type.dtype]
        self.vector = ir.VectorType(self.element, self.lanes)
        self.base = arrayobj.make_array(array_type)(context, builder, array).data

    def load(self, place: Value) -> Value:
        """The ``lanes`` elements from ``place`` on."""
        return self.builder.load(self._address(place), align=self.bits // 8)

    def store(self, value: Value, place: Value) -> None:
        """Write a vector to ``place`` on."""
        self.builder.store(value, self._address(place), align=self.bits // 8)

    def load_splat(self, place: Value) -> Value:
        """The one element at ``place``, in every lane."""
        return self.splat(self.builder.load(self.builder.gep(self.base, [place])))

    def splat(self, scalar: Value) -> Value:
        """A scalar in every lane."""
        single = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), scalar, _INT32(0))
        return self.shuffle(single, single, [0] * self.lanes)

    def lane(self, value: Value, lane: int) -> Value:
        """One lane as a scalar."""
        return self.builder.extract_element(value, _INT32(lane))

    def lane_splat(self, value: Value, lane: int) -> Value:
        """One lane in every lane."""
        return self.shuffle(value, value, [lane] * self.lanes)

    def shuffle(self, first: Value, second: Value, lanes: Sequence[int]) -> Value:
        """A vector of chosen lanes; those of ``second`` count on from ``self.lanes``."""
        mask = ir.Constant(ir.VectorType(_INT32, self.lanes), list(lanes))
        return self.builder.shuffle_vector(first, second, mask)

    def scalar(self, value: float) -> Value:
        """A scalar known at compile time."""
        return ir.Constant(self.element, value)

    def constant(self, values: Sequence[float]) -> Value:
        """A vector known at compile time."""
        return ir.Constant(self.vector, list(values))

    def zero(self) -> Value:
        """Zero in every lane."""
        return self.constant([0.0] * self.lanes)

    def multiply_add(self, left: Value, right: Value, addend: Value) -> Value:
        """Product plus addend, rounded once; of pairs of int16: both products plus the int32 addend."""
        if self.element == _INT32:
            return self._add_pair_products(left, right, addend)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return self._call(f"llvm.fma.v{self.lanes}f{self.bits}", kind, [left, right, addend])

    def multiply_subtract(self, left: Value, right: Value, minuend: Value) -> Value:
        """Minuend minus product, rounded once."""
        return self.multiply_add(self.builder.fneg(left), right, minuend)

    def square_root(self, value: Value) -> Value:
        """Square root of a scalar; NaN below zero."""
        return self._call(f"llvm.sqrt.f{self.bits}", ir.FunctionType(self.element, [self.element]), [value])

    def place(self, step: Value, row: Value, offset: int, column: Value) -> Value:
        """Place of (row + offset, column) in a matrix with rows ``step`` apart."""
        number = self.builder.add(row, int64(offset))
        return self.builder.add(self.builder.mul(number, step), column)

    def total(self, values: Sequence[Value]) -> Value:
        """Lane by lane sum of vectors, pairwise; takes a power of two of them."""
        terms = list(values)
        while len(terms) > 1:
            terms = [self.builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
        return terms[0]

    def sum_lanes(self, value: Value) -> Value:
        """Sum over the lanes, pairwise, as a scalar."""
        group = self.lanes
        while group > 1:
            group //= 2
            moved = [(lane + group) % self.lanes for lane in range(self.lanes)]
            value = self.builder.fadd(value, self.shuffle(value, value, moved))
        return self.lane(value, 0)

    def sum_each(self, values: Sequence[Value]) -> Value:
        """A vector whose lane i is the sum over the lanes of ``values[i]``; takes ``lanes`` vectors."""
        group = self.lanes
        while group > 1:
            low = [lane for lane in range(2 * self.lanes) if lane % group < group // 2]
            high = [lane + group // 2 for lane in low]
            values = [
                self.builder.fadd(self.shuffle(a, b, low), self.shuffle(a, b, high))
                for a, b in zip(values[::2], values[1::2], strict=True)
            ]
            group //= 2
        return values[0]

    def _add_pair_products(self, left: Value, right: Value, addend: Value) -> Value:
        """vpdpwssd, or vpmaddwd and an addition; without either the products one by one."""
        builder, shorts = self.builder, ir.VectorType(_INT16, 2 * self.lanes)
        left, right = builder.bitcast(left, shorts), builder.bitcast(right, shorts)
        if PAIR_PRODUCTS:
            products = self._call(PAIR_PRODUCTS, ir.FunctionType(self.vector, [shorts] * 2), [left, right])
            return builder.add(products, addend)  # one instruction with the product where there is one
        for half in (0, 1):
            mask = ir.Constant(self.vector, [2 * lane + half for lane in range(self.lanes)])
            halves = (builder.sext(builder.shuffle_vector(v, v, mask), self.vector) for v in (left, right))
            addend = builder.add(builder.mul(*halves), addend)
        return addend

    def _address(self, place: Value) -> Value:
        return self.builder.bitcast(self.builder.gep(self.base, [place]), self.vector.as_pointer())

    def _call(self, name: str, kind: Any, arguments: list[Value]) -> Value:
        return call(self.builder, name, kind, arguments)


class Registers:
    """Vectors that a loop updates; the optimiser keeps them in registers."""

    def __init__(self, builder: Any, initial: Sequence[Value]) -> None:
        self._builder = builder
        self._slots = [cgutils.alloca_once_value(builder, value) for value in initial]

    def __getitem__(self, index: int) -> Value:
        return self._builder.load(self._slots[index])

    def __setitem__(self, index: int, value: Value) -> None:
        self._builder.store(value, self._slots[index])

    def values(self) -> list[Value]:
        """All of them as they are now."""
        return [self._builder.load(slot) for slot in self._slots]


def call(builder: Any, name: str, kind: Any, arguments: list[Value]) -> Value:
    """Emit a call of one of LLVM's own functions."""
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


@contextmanager
def counting(builder: Any, count: Value) -> Iterator[Any]:
    """A ``with`` block that emits a loop over 0..count - 1 and gives the counter as ``.index``.

    The loop is not unrolled: a turn is many instructions already, and most loops have a few turns.
    """
    with cgutils.for_range(builder, count) as loop:
        yield loop
        last = builder.basic_block
    last.terminator.set_metadata("llvm.loop", _not_unrolled(builder.module))


def _not_unrolled(module: Any) -> Any:
    """Metadata of one loop: LLVM tells loops apart by nodes that name themselves."""
    node = module.add_metadata([ir.Constant(_INT32, len(module.metadata))])
    node.operands = (node, module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")]))
    return node


def int64(value: int) -> Value:
    """An integer known at compile time."""
    return ir.Constant(ir.IntType(64), value)


ELEMENT: Final = "element"
"""What an emitted function returns: a number of the kind that its first array holds."""


def emitted(gives: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that emits instructions callable from compiled functions, whose kinds decide what it gets.

    It is given the builder, which is not part of the call, and then one thing for each argument: for an array an
    ``Emitter``, for a number a ``Value`` (int64, or of the kind that the first array holds), and where the
    parameter is annotated as ``int`` a literal itself.

    Args:
        gives: what the call returns: a numba type, ``ELEMENT``, or None for nothing.
    """

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(function).parameters.values())
        literal = [parameter.annotation is int for parameter in parameters[1:]]

        def define(_typing: Any, *kinds: Any) -> Any:
            element = next((kind.dtype for kind in kinds if isinstance(kind, types.Array)), None)

            def taken(kind: Any, literal: bool) -> Any:
                if literal or isinstance(kind, types.Array):
                    return kind
                return types.int64 if isinstance(kind, types.Integer) else element

            def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
                def given(kind: Any, literal: bool, argument: Value) -> Any:
                    if literal:
                        return kind.literal_value
                    is_array = isinstance(kind, types.Array)
                    return Emitter(context, builder, kind, argument) if is_array else argument

                found = function(builder, *map(given, kinds, literal, arguments))
                return context.get_dummy_value() if gives is None else found

            returned: Any = {None: types.void, ELEMENT: element}.get(gives, gives)
            return returned(*map(taken, kinds, literal)), emit

        define.__name__, define.__doc__ = function.__name__, function.__doc__
        cast(Any, define).__signature__ = inspect.Signature(parameters)
        return cast(Callable[..., Any], intrinsic(prefer_literal=True)(define))

    return made


_UNROLLED: Final = 4


@emitted(ELEMENT)
def inner_product(
    builder: Any, left: Emitter, left_at: Value, right: Emitter, right_at: Value, count: Value
) -> Value:
    """Sum of products of ``count`` numbers, a multiple of the lanes, from the two places on."""
    sums = Registers(builder, [left.zero()] * _UNROLLED)

    def add(offset: Value, slot: int) -> None:
        product = left.load(builder.add(left_at, offset)), right.load(builder.add(right_at, offset))
        sums[slot] = left.multiply_add(*product, sums[slot])

    for_vectors(builder, count, left.lanes, add)
    return left.sum_lanes(left.total(sums.values()))


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
