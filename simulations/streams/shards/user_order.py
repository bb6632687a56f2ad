"""In which order users stand, though no more than some of their ids are looked at at a time.

The order is that of ``numbering``: whole numbers by value, texts by their characters, unless all of them are plain
whole numbers, which nobody knows before the last one was read. So rows are sorted as far as is known, and sorted
again in the rare case that a later id changes the order.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PLAIN = r"\A(?:0|[1-9][0-9]*)\z"
_WIDTH = 10
"""Digits that say how long an id is; none is as long as a file can be."""


class UserOrder(IntEnum):
    """How ids are kept so that they sort; a data set has the largest that any of its ids needs."""

    NUMBER = 0
    """As int64."""
    LONG = 1
    """Plain whole numbers, of which some are larger: as texts, each behind its length."""
    TEXT = 2
    """As texts."""


def order_of_texts(words: Any) -> UserOrder:
    """What some texts need.

    Args:
        words: a pyarrow array of texts, none empty.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(words, _PLAIN), min_count=0).as_py():
        return UserOrder.TEXT
    try:
        words.cast(pa.int64())
    except pa.ArrowInvalid:
        return UserOrder.LONG
    return UserOrder.NUMBER


def kept_as(words: Any, order: UserOrder) -> Any:
    """Ids as they are kept in an order.

    Args:
        words: a pyarrow array of int64 or of texts, not yet in an order.
        order: at least what they need.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if order is UserOrder.NUMBER:
        return words.cast(pa.int64())
    texts = words.cast(pa.string())
    if order is UserOrder.TEXT:
        return texts
    lengths = pc.utf8_lpad(pc.utf8_length(texts).cast(pa.string()), _WIDTH, "0")
    return pc.binary_join_element_wise(lengths, texts, "")


def plain(ids: Any, order: UserOrder) -> Any:
    """Ids that are kept in an order as the file has them: a pyarrow array."""
    import pyarrow.compute as pc

    return pc.utf8_slice_codeunits(ids, _WIDTH) if order is UserOrder.LONG else ids


def sorted_distinct(ids: Any) -> tuple[Any, NDArray[np.int32]]:
    """Distinct ids, ascending, and the place of each row among them.

    Args:
        ids: a pyarrow array, kept in one order, or a dictionary-encoded one whose words are.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = ids if pa.types.is_dictionary(ids.type) else pc.dictionary_encode(ids)
    words, codes = encoded.dictionary, np.asarray(encoded.indices)
    used = np.zeros(len(words), dtype=np.bool_)
    used[codes] = True
    order = np.asarray(pc.sort_indices(words)).astype(np.int64)
    order = order[used[order]]
    rank = np.zeros(len(words), dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return words.take(pa.array(order)), rank[codes]
