"""Standard normal draws from random bits: the inverse of the distribution function, one draw per word."""

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation, without_compiler
from fedboard.common.kernels.shared import quantile


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
    kernel = quantile if without_compiler(backend, bits.size) else implementation(backend, "normal")
    if bits.dtype != np.uint64:
        raise InputError(f"bits must be uint64, got {bits.dtype}")
    draws = np.empty(bits.size)
    kernel.fill_normal(np.ascontiguousarray(bits).reshape(-1), draws)
    return draws.reshape(bits.shape)
