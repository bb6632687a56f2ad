"""A person's own model as a ridge regression of her ratings on public vectors: what explanations are made of."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray


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
