"""What several kernels are made of: copies, mixed words, and scattered rows in a contiguous panel."""

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.kernels.compiled.tiles import lanes_of
from fedboard.common.kernels.compiled.vectors import Emitter, Value, call, counting, data_pointer, int64
from fedboard.common.kernels.compiling import compiled, emitted


@compiled()
def copy_vector(source: FloatArray | Float32Array, target: FloatArray | Float32Array) -> None:
    """Copy the first numbers of ``source``, as many as ``target`` has."""
    for place in range(target.size):
        target[place] = source[place]


@compiled()
def copy_matrix(source: FloatArray | Float32Array, target: FloatArray | Float32Array) -> None:
    """Copy the corner of ``source`` that is as large as ``target``."""
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            target[row, column] = source[row, column]


STRIDE: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = (np.uint64(bits) for bits in (27, 30, 31))


@compiled()
def mix(word: np.uint64) -> np.uint64:
    """A permutation of 64-bit words in which every bit of the input moves about half of the output's."""
    word = word + STRIDE
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


# Rows asked for before they are needed: enough to hide a miss in the second-level cache.
_AHEAD: Final = 16
_LINE_BYTES: Final = 64


@compiled()
def gather(
    factors: Float32Array,
    rank: int,
    columns: IndexArray,
    first: int,
    count: int,
    panel: Float32Array,
    step: int,
) -> None:
    """Copy factors[columns[first + k]] to row k of ``panel``, k = 0..count - 1; both arrays are flat."""
    lanes = lanes_of(factors)
    whole = rank // lanes * lanes
    for k in range(first, first + count):
        prefetch_row(factors, int(columns[min(k + _AHEAD, columns.size - 1)]), rank)
        source, target = int(columns[k]) * rank, (k - first) * step
        for position in range(0, whole, lanes):
            move_vector(factors, source + position, panel, target + position)
        for position in range(whole, rank):
            panel[target + position] = factors[source + position]


@emitted
def prefetch_row(typing_context: Any, array: Any, row: Any, rank: Any) -> Any:
    """Ask for all cache lines of one row of a flat matrix, the last one too where rows do not begin with a line."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base, per_line = (
            data_pointer(context, builder, array, arguments[0]),
            _LINE_BYTES * 8 // array.dtype.bitwidth,
        )
        first = builder.mul(arguments[1], arguments[2])
        with counting(builder, builder.udiv(arguments[2], int64(per_line))) as loop:
            _ask_for(builder, base, builder.add(first, builder.mul(loop.index, int64(per_line))))
        _ask_for(builder, base, builder.add(first, builder.sub(arguments[2], int64(1))))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), emit


@emitted
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Ask for the cache line that holds one element."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _ask_for(builder, data_pointer(context, builder, array, arguments[0]), arguments[1])
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


def _ask_for(builder: Any, base: Value, place: Value) -> None:
    byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
    address = builder.bitcast(builder.gep(base, [place]), byte_pointer)
    read, keep, data = int32(0), int32(3), int32(1)
    call(builder, "llvm.prefetch.p0i8", kind, [address, read, keep, data])


@emitted
def move_vector(typing_context: Any, source: Any, source_place: Any, target: Any, target_place: Any) -> Any:
    """Copy one vector between flat arrays of one type."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = Emitter(context, builder, source, arguments[0]).load(arguments[1])
        Emitter(context, builder, target, arguments[2]).store(value, arguments[3])
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), emit
