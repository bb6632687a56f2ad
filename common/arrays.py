"""Array type aliases, so that signatures say the dtype; shapes are in the docstrings."""

import struct
import zipfile
import zlib
from tokenize import TokenError
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Float32Array: TypeAlias = NDArray[np.float32]
IntArray: TypeAlias = NDArray[np.int64]
IndexArray: TypeAlias = NDArray[np.int32]
ShortArray: TypeAlias = NDArray[np.int16]
PairArray: TypeAlias = NDArray[np.int32]
"""Each element is two int16 side by side."""
BitArray: TypeAlias = NDArray[np.uint64]
ResidueArray: TypeAlias = NDArray[np.uint32]
BoolArray: TypeAlias = NDArray[np.bool_]

NOT_ARRAYS: Final = (
    *(OSError, ValueError, EOFError, SyntaxError, TypeError, LookupError, RuntimeError, MemoryError),
    *(TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)
"""What ``numpy.load`` raises for files that are damaged or none of its own.

Its headers are read as Python's text and its archives by ``zipfile``, and what those raise comes through, beside
what its documentation names. MemoryError is a size beyond all sense.
"""


def ascends(numbers: NDArray[np.integer]) -> bool:
    """Whether none of these numbers, shape (n,), is smaller than the one before.

    Numbers are compared, not subtracted: differences wrap round, and numbers that leave 64 bits at one end and come
    back at the other would seem to ascend.
    """
    return bool(np.all(numbers[1:] >= numbers[:-1]))
