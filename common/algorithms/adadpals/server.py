"""The server's part of an AdaDPALS round: factors of items from their noised statistics, and the gauge.

With ``biases`` the bias floor lies under it: item biases first, as in ``bias-private``, and own ones beside v_j.
The paper's model has one mean for all. With biases the rounds learn only what these leave of a rating, in units of
the released deviation of ratings, so that settings mean the same on every scale:

    (y_ij - mean - b_i) / spread  ~  c_j + <u_i, v_j>

b_i comes from one round of normalised sums (``algorithms.shared.levels``); c_j never leaves the device.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedboard.common import kernels
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig
from fedboard.common.algorithms.shared import levels
from fedboard.common.algorithms.shared.preparation import in_range, spread_of
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.regression import Regression, fit_biased_vectors
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.kernels.packed import unpack_symmetric
from fedboard.common.task import ReleasedSums

COUNTS, SUMS = "bias/counts", "bias/sums"
_CLIP = 0.8  # bound on a user's whole part, in released deviations of a rating; as in ``bias-private``


def bias_requests(settings: AdaDpalsConfig, *, n_items: int) -> tuple[Request, Request]:
    """Weighted counts, and weighted ratings around the mean, each user's part bounded as a whole."""
    shared = settings.shared
    return (
        levels.even_counts_request(shared, n_items=n_items, name=COUNTS),
        levels.even_sums_request(shared, SUMS, n_items=n_items, clip_norm=_CLIP),
    )


def contribute_biases(cohort: Cohort, board: Board, settings: AdaDpalsConfig) -> Contribution:
    """Integers within both bounds; each row depends on that user's row and the board alone."""
    left = in_range(cohort, settings.shared) - float(board.arrays["mean"][0])
    return levels.even_rows(cohort, left, spread=spread_of(board), clip_norm=_CLIP)


def after_biases(board: Board, released: ReleasedSums, requests: tuple[Request, ...]) -> Board:
    """The item biases; post-processing."""
    asked, summed = requests
    counts = levels.likely_counts(
        released.array(asked.name)[:, 0], stddev=real_stddev(asked) * released.noise_ratio
    )
    users = float(board.arrays["population"][0])
    biases = levels.posterior_effects(
        levels.released_sums(released, summed, spread=spread_of(board)),
        counts,
        spread=spread_of(board),
        mean_weight=min(users / max(float(counts.mean.sum()), 1.0), 1.0),
    )
    return board.successor(item_biases=biases.astype(np.float32))


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasedModel:
    """What a device reads off a board with biases. Public."""

    base: FloatArray
    """mean + b_i: float64, shape (n_items,)."""
    spread: float
    """Stars in a unit of the factors' predictions."""
    factors: Float32Array

    @staticmethod
    def of(board: Board) -> "BiasedModel":
        """Of a board after the preparation round."""
        return BiasedModel(
            base=float(board.arrays["mean"][0]) + board.arrays["item_biases"].astype(np.float64),
            spread=spread_of(board),
            factors=np.asarray(board.arrays["item_factors"], dtype=np.float32),
        )

    def labels(self, cohort: Cohort) -> Float32Array:
        """What mean and item biases leave of each rating, in units of the spread. Private."""
        return ((cohort.ratings - self.base[cohort.items]) / self.spread).astype(np.float32)

    def fit(self, cohort: Cohort, settings: AdaDpalsConfig, *, backend: str) -> Float32Array:
        """(c_j, v_j) by one ridge regression; float32, shape (n_users, 1 + rank). Private, unclipped."""
        return fit_biased_vectors(
            cohort,
            self.labels(cohort),
            self.factors,
            strength=settings.user_ridge,
            bias_strength=settings.user_bias_ridge,
            exponent=settings.user_ridge_exponent,
            backend=backend,
        )


def regression(settings: AdaDpalsConfig, own: Cohort, board: Board) -> Regression:
    """Ratings around the mean on the item factors, with the unobserved term where there is one.

    Args:
        settings: public.
        own: her ratings. Private.
        board: public; of version 1 or later.
    """
    if settings.biases:
        model, constant = BiasedModel.of(board), math.sqrt(settings.user_ridge / settings.user_bias_ridge)
        columns = np.column_stack([np.full(len(model.factors), np.float32(constant)), model.factors])
        return Regression(
            vectors=model.spread * columns.astype(np.float64),
            base=model.base,
            ridge=model.spread**2
            * settings.user_ridge
            * max(own.n_ratings, 1) ** settings.user_ridge_exponent,
            gram=0.0,
        )
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    explicit = settings.shared.feedback is Feedback.EXPLICIT
    return Regression(
        vectors=factors,
        base=np.full(factors.shape[0], float(board.arrays["mean"][0]) if explicit else 0.0),
        ridge=settings.user_ridge * max(own.n_ratings, 1) ** settings.user_ridge_exponent,
        gram=settings.unobserved_weight * (factors.T @ factors),
    )


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


def psd_matrix(packed: FloatArray, rank: int, *, weight: float = 1.0) -> FloatArray:
    """A released symmetric matrix with its negative eigenvalues at zero, times a weight."""
    values, vectors = np.linalg.eigh(unpack_symmetric(packed, rank=rank)[0])
    projected: FloatArray = weight * (vectors * np.maximum(values, 0.0)) @ vectors.T
    return projected


def item_ridge_of(counts: FloatArray, settings: AdaDpalsConfig) -> FloatArray:
    """reg_i proportional to count^exponent with average ``item_ridge`` clip_norm^2 over ratings."""
    shape = (counts + 1.0) ** settings.item_ridge_exponent
    shape *= np.sum(counts + 1.0) / np.sum((counts + 1.0) * shape)
    return settings.item_ridge * settings.clip_norm**2 * shape


def unobserved_scale(settings: AdaDpalsConfig, omega: FloatArray, counts: FloatArray) -> FloatArray:
    """What an item's unobserved term is multiplied by: float64, shape (n_items,), 1 on average over ratings."""
    if not settings.weighted_unobserved:
        return np.ones_like(omega)
    return omega * np.sum(counts) / np.sum(omega * counts)


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
