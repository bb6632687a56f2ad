"""The server's part of an AdaDPALS round: factors of items from their noised statistics, and the gauge."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSolver:
    """u_i = (PSD(A_i) + reg_i I + scale_i G)^-1 b_i for a block of items."""

    quadratic: str
    linear: str
    ridge: FloatArray
    scale: FloatArray
    gram: FloatArray | None
    backend: str

    def __call__(self, start: int, blocks: Mapping[str, FloatArray]) -> Float32Array:
        """The factors of the items from ``start`` on; float32, shape (n_block, rank)."""
        quadratic, linear = blocks[self.quadratic], blocks[self.linear]
        stop = start + linear.shape[0]
        ridge, scale = self.ridge[start:stop], self.scale[start:stop, None]
        if self.gram is not None:  # dividing by scale_i > 0 leaves one Gram matrix for all items
            quadratic, linear, ridge = quadratic / scale, linear / scale, ridge / scale[:, 0]
        solved = kernels.solve_psd(quadratic, linear, ridge=ridge, gram=self.gram, backend=self.backend)
        return solved.astype(np.float32)


def item_ridge_of(counts: FloatArray, settings: AdaDpalsConfig) -> FloatArray:
    """reg_i proportional to count^exponent with average ``item_ridge`` clip_norm^2 over ratings."""
    shape = (counts + 1.0) ** settings.item_ridge_exponent
    shape *= np.sum(counts + 1.0) / np.sum((counts + 1.0) * shape)
    return settings.item_ridge * settings.clip_norm**2 * shape


def unobserved_scale(settings: AdaDpalsConfig, omega: FloatArray, counts: FloatArray) -> FloatArray:
    """What an item's unobserved term is multiplied by: float64, shape (n_items,), 1 on average over ratings."""
    if not settings.weighted_unobserved:
        return np.ones_like(omega)
    scale: FloatArray = omega * np.sum(counts) / np.sum(omega * counts)
    return scale


def gauged(settings: AdaDpalsConfig, factors: Float32Array, counts: FloatArray) -> Float32Array:
    """The factors at the scale of the next board."""
    return unit_gauge(factors, counts) if settings.unit_gauge else factors


def unit_gauge(factors: Float32Array, counts: FloatArray) -> Float32Array:
    """Scale all factors so that their count-weighted RMS norm is 1: (cU, V/c) predicts the same.

    Without it a fixed clip_norm would mean another thing in each round. Public quantities only.
    """
    squares = np.einsum("id,id->i", factors, factors, dtype=np.float64)
    norm = float(np.sqrt(np.sum(squares * counts) / np.sum(counts)))
    return factors if norm == 0.0 else (factors / norm).astype(np.float32)
