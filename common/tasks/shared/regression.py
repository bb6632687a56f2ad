"""Rated rows and their Gram matrix, and a person's own model as a ridge regression on them.

A person's own model as a ridge regression of her ratings on public vectors: what explanations are made of.

Sum of u u^T over the items' vectors.

Which rows of per-item arrays some users need: of a large catalogue a device, or a block of users, needs few.
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A person's ridge regression. ``vectors`` and ``base`` are public, the rest private."""

    vectors: FloatArray
    """z: float64, shape (n_items, width)."""
    base: FloatArray
    """What the board alone predicts: float64, shape (n_items,)."""
    ridge: float
    """Lambda, one for all coordinates."""
    gram: FloatArray | float
    """G: float64, shape (width, width), or 0."""
    scale: FloatArray | None = None
    """None for a fit. Otherwise float64, shape (n_items,): nothing is fitted, ratings add up as they are, and
    item i gets ``scale_i <z_i, z_k>`` of rating k; ridge and G are then not used."""

    def pulls(self, rated: IndexArray, items: IndexArray) -> FloatArray:
        """What one unit of each own rating, beyond the base, adds to predictions.

        Args:
            rated: numbers of the items that she rated, shape (n_own,). Private.
            items: numbers of the items that are predicted, shape (n,).

        Returns:
            float64, shape (n, n_own). Private.
        """
        own, wanted = self.vectors[rated], self.vectors[items]
        if self.scale is not None:
            summed: FloatArray = self.scale[items, None] * (wanted @ own.T)
            return summed
        system = own.T @ own + self.ridge * np.eye(own.shape[1]) + self.gram
        fitted: FloatArray = np.linalg.solve(system, wanted.T).T @ own.T
        return fitted


_ROWS_AT_ONCE = 1 << 17


def gram_of(factors: Float32Array) -> FloatArray:
    """U^T U in float64, shape (rank, rank); of a large catalogue in blocks, so that U is not copied whole.

    Args:
        factors: U, float32, shape (n_items, rank).
    """
    blocks = (factors[start : start + _ROWS_AT_ONCE] for start in range(0, len(factors), _ROWS_AT_ONCE))
    total: FloatArray = np.zeros((factors.shape[1], factors.shape[1]))
    for block in blocks:
        total += block.T.astype(np.float64) @ block
    return total


_FEW = 8
"""Rows are gathered where there are at least so many times more items than ratings; else sorting costs more."""


def rated_rows(items: IndexArray, n_items: int) -> tuple[IndexArray | slice, IndexArray]:
    """Rows to take of an array over all items, and where each rating's item is among them.

    ``array[rows][places]`` is ``array[items]``, number for number.

    Args:
        items: int32, shape (n_ratings,), item numbers. Private.
        n_items: size of the catalogue.

    Returns:
        Item numbers, ascending, or ``slice(None)`` where taking all costs less; int32, shape (n_ratings,). Private.
    """
    if _FEW * items.size >= n_items:
        return slice(None), items
    rows, places = np.unique(items, return_inverse=True)
    return rows, places.astype(np.int32)
