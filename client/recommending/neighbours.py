"""Items that the board holds to be alike: nearest by the cosine of their factors. Needs the board alone."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.board import Board
from fedboard.common.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One similar item. Public, like the board."""

    item: int
    """Number of the item in the board's catalogue."""
    cosine: float
    """In [-1, 1]; 1 is the same direction."""


def nearest_items(board: Board, item: int, *, k: int) -> list[Neighbour]:
    """The k items whose factors point most nearly the same way; equal cosines go to the lower number.

    Args:
        board: public.
        item: number of the item, in 0..n_items - 1.
        k: number of neighbours wanted, >= 1.

    Returns:
        At most k neighbours, nearest first; items that are not learnt are left out.

    Raises:
        InputError: k < 1, a board without vectors of items, or one that has learnt nothing about this item.
    """
    if k < 1:
        raise InputError(f"k must be >= 1, got {k}")
    if "item_factors" not in board.arrays:
        raise InputError(
            f"boards of the task {board.task!r} have no vectors of items, so items have no neighbours"
        )
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    norms = np.linalg.norm(factors, axis=1)
    if norms[item] == 0:
        raise InputError(
            f"item {board.catalogue.item_ids[item]!r} is not among those that this board has learnt, so it has "
            "no neighbours"
        )
    others = np.flatnonzero(norms > 0)
    others = others[others != item]
    cosines = (factors[others] @ factors[item]) / (norms[others] * norms[item])
    nearest = np.argsort(-cosines, kind="stable")[:k]
    return [Neighbour(item=int(others[n]), cosine=float(np.clip(cosines[n], -1.0, 1.0))) for n in nearest]
