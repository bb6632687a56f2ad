"""Splits over ratings, of a block of users at a time."""

from dataclasses import replace

import numpy as np

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.data.splits.by_coins import KeyedRatings, ratings_learnt_by
from fedboard.simulations.data.splits.parts import SplitRule

_COMPILED_FROM = 1 << 16
"""Ratings from which on loading the compiler takes less than it saves."""


def learnt_of_block(block: Cohort, item_keys: BitArray, rule: SplitRule) -> Cohort:
    """``ratings_learnt_by`` of all ratings of some users, bit for bit, compiled where there are many. Private.

    Args:
        block: with the users' keys. Private.
        item_keys: uint64, shape (n_items,), see ``id_keys``. Public.
        rule: public.
    """
    _require_item_keys(block, item_keys)
    if block.n_ratings < _COMPILED_FROM or not has_compiler():
        return ratings_learnt_by(keyed_block(block, item_keys), rule)
    from fedboard.simulations.data.splits import compiled_coins  # takes numba half a second

    indptr, items, ratings = _whole(block)
    user, item = rule.coins.halves(block.keys, item_keys)
    arc = np.array(rule.held_out_arc(), dtype=np.uint64)
    ends, chosen, values = np.empty_like(indptr), np.empty_like(items), np.empty_like(ratings)
    compiled_coins.fill_learnt(indptr, items, ratings, *user, *item, arc, ends, chosen, values)
    kept = slice(0, int(ends[-1]))
    return replace(block, indptr=ends, items=chosen[kept], ratings=values[kept])


def _whole(block: Cohort) -> tuple[IntArray, IndexArray, Float32Array]:
    """The block's arrays as compiled code reads them, which looks at no bounds: nothing else may get past.

    Raises:
        InputError: rows that are not the whole of it, or items that are not in the catalogue.
    """
    indptr, items = np.ascontiguousarray(block.indptr, np.int64), np.ascontiguousarray(block.items, np.int32)
    if indptr[0] != 0 or indptr[-1] != items.size or np.any(np.diff(indptr) < 0):
        raise InputError(
            "a block of users needs rows that follow each other from its first rating to its last"
        )
    if items.min() < 0 or items.max() >= block.n_items:
        raise InputError("a block of users has an item that is not in the catalogue")
    return indptr, items, np.ascontiguousarray(block.ratings, np.float32)


def keyed_block(block: Cohort, item_keys: BitArray) -> KeyedRatings:
    """All ratings of some users with what their coins are thrown by.

    Raises:
        InputError: there is not a key for each item.
    """
    _require_item_keys(block, item_keys)
    return KeyedRatings(
        users=block.user_of_entry(),
        items=block.items,
        values=block.ratings,
        user_keys=block.keys,
        item_keys=item_keys,
    )


def _require_item_keys(block: Cohort, item_keys: BitArray) -> None:
    if item_keys.shape != (block.n_items,):
        raise InputError("a split needs one key for each item of the catalogue")
