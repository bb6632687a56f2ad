"""Array type aliases, so that signatures say the dtype; shapes are in the docstrings."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Float32Array: TypeAlias = NDArray[np.float32]
IntArray: TypeAlias = NDArray[np.int64]
IndexArray: TypeAlias = NDArray[np.int32]
ShortArray: TypeAlias = NDArray[np.int16]
BitArray: TypeAlias = NDArray[np.uint64]
ResidueArray: TypeAlias = NDArray[np.uint32]
BoolArray: TypeAlias = NDArray[np.bool_]
