"""Vector instructions inside compiled functions: the little of LLVM that the blocked kernels need.

The width comes from the processor: 64 bytes with AVX-512, else 32 (which LLVM splits where vectors are
narrower, as on NEON). ``Emitter`` writes instructions while a function is being compiled.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.np import arrayobj

from fedboard.common.kernels.compiling import emitted

HAS_WIDE_VECTORS: Final = bool(get_host_cpu_features().get("avx512f", False))
VECTOR_BYTES: Final = 64 if HAS_WIDE_VECTORS else 32
LINE_BYTES: Final = 64

_INT32: Final = ir.IntType(32)
Value = Any


class Emitter:
    """Emits vector instructions for one array's element type at the builder's position."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Value) -> None:
        self.builder = builder
        self.kind = array_type.dtype
        self.element = ir.FloatType() if self.kind == types.float32 else ir.DoubleType()
        self.bytes = self.kind.bitwidth // 8
        self.lanes = lane_count(self.kind)
        self.vector = ir.VectorType(self.element, self.lanes)
        self.base = data_pointer(context, builder, array_type, array)

    def load(self, place: Value, base: Value = None) -> Value:
        """The ``lanes`` elements from ``place`` on."""
        return self.builder.load(self._address(place, base), align=self.bytes)

    def store(self, value: Value, place: Value) -> None:
        """Write a vector to ``place`` on."""
        self.builder.store(value, self._address(place, None), align=self.bytes)

    def load_splat(self, place: Value, base: Value = None) -> Value:
        """The one element at ``place``, in every lane."""
        return self.splat(self.builder.load(self.builder.gep(base or self.base, [place])))

    def splat(self, scalar: Value) -> Value:
        """A scalar in every lane."""
        single = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), scalar, _INT32(0))
        return self.shuffle(single, single, [0] * self.lanes)

    def lane(self, value: Value, lane: int) -> Value:
        """One lane as a scalar."""
        return self.builder.extract_element(value, _INT32(lane))

    def shuffle(self, first: Value, second: Value, lanes: Sequence[int]) -> Value:
        """A vector of chosen lanes; those of ``second`` count on from ``self.lanes``."""
        return self.builder.shuffle_vector(
            first, second, ir.Constant(ir.VectorType(_INT32, self.lanes), list(lanes))
        )

    def constant(self, values: Sequence[float]) -> Value:
        """A vector known at compile time."""
        return ir.Constant(self.vector, list(values))

    def zero(self) -> Value:
        """Zero in every lane."""
        return self.constant([0.0] * self.lanes)

    def multiply_add(self, left: Value, right: Value, addend: Value) -> Value:
        """left right + addend, rounded once."""
        bits = self.kind.bitwidth
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        fused = cgutils.get_or_insert_function(
            self.builder.module, kind, f"llvm.fma.v{self.lanes}f{bits}"
        )
        return self.builder.call(fused, [left, right, addend])

    def multiply_subtract(self, left: Value, right: Value, minuend: Value) -> Value:
        """minuend - left right, rounded once."""
        return self.multiply_add(self.builder.fneg(left), right, minuend)

    def square_root(self, value: Value) -> Value:
        """Square root of a scalar; NaN below zero."""
        root = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(self.element, [self.element]),
            f"llvm.sqrt.f{self.kind.bitwidth}",
        )
        return self.builder.call(root, [value])

    def add(self, first: Value, second: Value) -> Value:
        """Sum of two places (int64)."""
        return self.builder.add(first, second)

    def sum_each(self, values: Sequence[Value]) -> Value:
        """A vector whose lane i is the sum over the lanes of ``values[i]``; takes ``lanes`` vectors."""
        group = self.lanes
        while group > 1:
            half = group // 2
            low = [lane for lane in range(2 * self.lanes) if lane % group < half]
            high = [lane + half for lane in low]
            values = [
                self.builder.fadd(self.shuffle(a, b, low), self.shuffle(a, b, high))
                for a, b in zip(values[::2], values[1::2], strict=True)
            ]
            group = half
        return values[0]

    def _address(self, place: Value, base: Value) -> Value:
        element = self.builder.gep(base or self.base, [place])
        return self.builder.bitcast(element, self.vector.as_pointer())


class Registers:
    """Vectors that a loop updates; the optimiser keeps them in registers."""

    def __init__(self, emitter: Emitter, initial: Sequence[Value]) -> None:
        self._builder = emitter.builder
        self._slots = [cgutils.alloca_once_value(emitter.builder, value) for value in initial]

    def __getitem__(self, index: int) -> Value:
        return self._builder.load(self._slots[index])

    def __setitem__(self, index: int, value: Value) -> None:
        self._builder.store(value, self._slots[index])

    def values(self) -> list[Value]:
        """All of them as they are now."""
        return [self._builder.load(slot) for slot in self._slots]


@contextmanager
def counting(builder: Any, count: Value) -> Iterator[Value]:
    """Emit a loop over 0..count - 1; yields the counter (int64)."""
    with cgutils.for_range(builder, count) as loop:
        yield loop.index


def lane_count(kind: Any) -> int:
    """Elements of a numba float type in one vector."""
    return VECTOR_BYTES * 8 // int(kind.bitwidth)


def data_pointer(context: Any, builder: Any, array_type: Any, array: Value) -> Value:
    """Address of the first element."""
    return arrayobj.make_array(array_type)(context, builder, array).data
