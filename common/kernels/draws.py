"""Standard normal draws from random bits, one draw per word; and integer sums with such noise in one pass."""

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation, without_compiler
from fedboard.common.kernels.numpy.noise import fill_compiled_normal, fill_noised


def standard_normal(bits: BitArray, *, backend: str) -> FloatArray:
    """Turn uniform 64-bit words into standard normal draws, draw k from word k alone.

    The low 63 bits give u = (low + 1) 2^-64 in (0, 1/2], rounded to float64 (relative precision in the tail);
    the draw is Phi^-1(u), negated where the top bit is set. |draw| reaches 9.1.

    Args:
        bits: uint64, any shape, uniform. As secret as the noise.
        backend: "numpy" computes with ``normal_quantiles``; the others agree with it to a relative 1e-14.

    Returns:
        float64, the shape of ``bits``.

    Raises:
        InputError: bits are not uint64.
    """
    few = without_compiler(backend, bits.size)
    fill = fill_compiled_normal if few else implementation(backend, "noise").fill_normal
    if bits.dtype != np.uint64:
        raise InputError(f"bits must be uint64, got {bits.dtype}")
    draws = np.empty(bits.size)
    fill(np.ascontiguousarray(bits).reshape(-1), draws)
    return draws.reshape(bits.shape)


def noisy_sums(
    sums: IntArray, bits: BitArray, *, stddevs: FloatArray, shift: int, backend: str
) -> FloatArray:
    """Add rounded Gaussian noise to integers and drop the low bits of the result.

    floor((S + rint(stddev N)) / 2^shift), N the draw that ``standard_normal`` makes of the number's own word.
    The arithmetic alone: whoever publishes the result has paid for it, see
    ``fedboard.common.privacy.releases.gaussian``.

    Args:
        sums: int64, shape (k, width), S, with room for the noise in 64 bits. Private.
        bits: uint64, shape (k width,), uniform, one word per number, row by row. As secret as the noise.
        stddevs: float64, shape (width,), noise deviation of each column. Public.
        shift: low bits to drop, 0..62. Public.
        backend: "numpy" or "compiled", with the draws of that backend's ``standard_normal``.

    Returns:
        float64, shape (k, width), whole numbers.

    Raises:
        InputError: shapes or types that do not fit, or a shift out of range.
    """
    few = without_compiler(backend, sums.size)
    kernel = None if few else implementation(backend, "noise")
    if sums.dtype != np.int64 or sums.ndim != 2 or bits.dtype != np.uint64 or bits.shape != (sums.size,):
        raise InputError("sums must be int64 of shape (k, width) and bits uint64, one word per number")
    if stddevs.shape != (sums.shape[1],) or not 0 <= shift < 63:
        raise InputError("stddevs must have one number per column and shift must be in 0..62")
    noisy = np.empty(sums.shape)
    stddevs = np.ascontiguousarray(stddevs, np.float64)
    if kernel is None:
        draws = np.empty(sums.shape)
        fill_compiled_normal(bits, draws.reshape(-1))
        fill_noised(sums, draws, stddevs, shift, noisy)
    else:
        kernel.fill_noisy(np.ascontiguousarray(sums), np.ascontiguousarray(bits), stddevs, shift, noisy)
    return noisy
