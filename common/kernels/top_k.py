"""The best items of each user by inner product, without those she already has."""

from typing import Final

import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, IntArray, ascends
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation
from fedboard.common.kernels.threads import for_row_ranges

# Users per matrix product. Fixed, and the last block is padded, so that the products of a user do not depend
# on who shares her block.
_USERS_AT_ONCE: Final = 128


def top_k(
    user_factors: Float32Array,
    item_factors: Float32Array,
    *,
    k: int,
    exclude_indptr: IntArray,
    exclude_items: IndexArray,
    bias: Float32Array | None = None,
    backend: str,
    threads: int = 1,
) -> IndexArray:
    """Rank items by <u_j, v_i> + bias_i for each user j and keep the k best; ties go to the lower number.

    Args:
        user_factors: float32, shape (n_users, rank). Private: rows stay on the device.
        item_factors: float32, shape (n_items, rank). Public.
        k: items wanted per user, >= 1.
        exclude_indptr: int64, shape (n_users + 1,).
        exclude_items: int32, item numbers never to return for user j: exclude_indptr[j]:exclude_indptr[j + 1].
        bias: float32, shape (n_items,), added to the scores; None for zero.
        backend: "numpy" sorts all scores; the others keep a running list.
        threads: >= 1.

    Returns:
        int32, shape (n_users, k), best first; -1 where a user has fewer than k candidates.

    Raises:
        InputError: shapes that do not fit, k < 1, or an excluded item out of range.
    """
    kernel = implementation(backend, "rows")
    users, items = (
        np.ascontiguousarray(user_factors, np.float32),
        np.ascontiguousarray(item_factors, np.float32),
    )
    excluded = np.ascontiguousarray(exclude_items, np.int32)
    bounds = np.ascontiguousarray(exclude_indptr, np.int64)
    offsets = np.zeros(items.shape[0], np.float32) if bias is None else np.ascontiguousarray(bias, np.float32)
    # Compiled kernels read without looking: nothing may get past.
    if k < 1:
        raise InputError(f"k must be >= 1, got {k}")
    if users.shape[1] != items.shape[1] or offsets.shape != (items.shape[0],):
        raise InputError("user_factors, item_factors and bias do not fit together")
    if bounds.shape != (users.shape[0] + 1,) or bounds[0] < 0 or bounds[-1] > excluded.size:
        raise InputError("exclude_indptr must have one row per user and stay within exclude_items")
    if not ascends(bounds):
        raise InputError("exclude_indptr must ascend")
    if excluded.size and (excluded.min() < 0 or excluded.max() >= items.shape[0]):
        raise InputError("exclude_items must be item numbers")
    best = np.empty((users.shape[0], k), np.int32)

    def work(first_block: int, last_block: int) -> None:
        padded = np.zeros((_USERS_AT_ONCE, users.shape[1]), np.float32)
        scores = np.empty((_USERS_AT_ONCE, items.shape[0]), np.float32)
        for block in range(first_block, last_block):
            start = block * _USERS_AT_ONCE
            stop = min(start + _USERS_AT_ONCE, users.shape[0])
            padded[: stop - start] = users[start:stop]
            np.matmul(padded, items.T, out=scores)
            scores += offsets
            kernel.select(scores[: stop - start], bounds[start : stop + 1], excluded, best[start:stop])

    for_row_ranges(work, np.ones(-(-users.shape[0] // _USERS_AT_ONCE)), threads=threads)
    return best
