"""``common.contribution_bounding.mixing.mix64`` of one word, for compiled loops."""

from typing import Final

import numpy as np

from fedboard.common.kernels.compiling import compiled

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
