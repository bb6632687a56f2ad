"""Public pseudo-random words from numbered things: quick, even, the same everywhere. No secret rests on them."""

import numpy as np

from fedboard.common.arrays import BitArray


def mix64(words: BitArray) -> BitArray:
    """A permutation of 64-bit words in which every bit of the input moves about half of the output's.

    The output function of splitmix64; sums and products are modulo 2^64.

    Args:
        words: uint64, any shape.

    Returns:
        uint64, the same shape; different words for different words.

    Reference: G. Steele, D. Lea and C. Flood (2014), doi:10.1145/2714064.2660195.
    """
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
