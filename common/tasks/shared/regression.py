"""A person's own model as a ridge regression of her ratings on public vectors: what explanations are made of."""

from dataclasses import dataclass

from fedboard.common.arrays import FloatArray


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
