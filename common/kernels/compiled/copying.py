"""Copying between arrays in loops.

Assigning one array to another (``a[:] = b``) takes numba a second to compile in each kernel, for the sentence that
it would refuse other shapes with; these take hundredths.
"""

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.kernels.compiling import compiled


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
