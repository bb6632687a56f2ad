"""A number of its own for each id of a file, the same in whatever file it stands and whoever else is there."""

from collections.abc import Iterable
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import numpy as np

from fedboard.common.arrays import BitArray


class Kind(StrEnum):
    """What an id names: a user and an item of the same id have different keys."""

    USER = "user"
    ITEM = "item"


def id_keys(ids: Iterable[Any], kind: Kind) -> BitArray:
    """The key of each id: the 64-bit BLAKE2b digest of its text, uint64, shape (n_ids,).

    Whole numbers are taken as their decimal text, so that an id has one key whether its file stores numbers or
    text. Among a million users two share a key with probability 3e-8; they would then share the coins that are
    thrown by it, which changes nothing for anybody else.

    Args:
        ids: distinct ids: whole numbers or text.
        kind: of what.
    """
    start = blake2b(person=f"fedboard {kind}".encode(), digest_size=8)
    digests = bytearray()
    for name in ids:
        own = start.copy()
        own.update(str(name).encode("utf-8", "surrogatepass"))
        digests += own.digest()
    return np.frombuffer(bytes(digests), dtype="<u8").astype(np.uint64)
