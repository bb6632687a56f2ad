"""``id_keys`` of users whose ids are whole numbers, a million at a time: compiled where numba is installed."""

import numpy as np

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.datasets.id_keys import Kind, id_keys

_PERSONAL_BYTES, _DIGEST_BYTES = 16, 8


def keys_of_numbers(first: int, count: int) -> BitArray:
    """The keys of the ids ``first .. first + count - 1``, uint64, shape (count,): those of ``id_keys``.

    Args:
        first: >= 0.
        count: >= 0.
    """
    return keys_of_integers(np.arange(first, first + count, dtype=np.int64))


def keys_of_integers(ids: IntArray) -> BitArray:
    """The keys of users whose ids are whole numbers, uint64, as many: those of ``id_keys``.

    Args:
        ids: int64; negative ones, which few files have, are slower. Private.
    """
    if not has_compiler() or (ids < 0).any():
        return id_keys(ids.tolist(), Kind.USER)
    from fedboard.simulations.datasets.synthetic.people.compiled_keys import (
        fill_keys,  # takes numba half a second
    )

    found = np.empty(ids.size, dtype=np.uint64)
    fill_keys(np.ascontiguousarray(ids, dtype=np.int64), _first_state(), found)
    return found


def _first_state() -> BitArray:
    """BLAKE2b before it has read anything: constants and the parameters of ``id_keys``, uint64, shape (8,).

    Reference: RFC 7693, sections 2.5 to 2.8; the block's layout is that of the BLAKE2 paper, section 2.8.
    """
    personal = f"fedboard {Kind.USER}".encode().ljust(_PERSONAL_BYTES, b"\0")
    block = bytes([_DIGEST_BYTES, 0, 1, 1]) + bytes(44) + personal
    initial = np.array(
        [
            *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
            *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
        ],
        dtype=np.uint64,
    )
    state: BitArray = initial ^ np.frombuffer(block, dtype="<u8").astype(np.uint64)
    return state
