"""The releases of residual alternating minimisation: what each sum covers, its grid, its sensitivity.

And where factors begin: along random directions, or those of a private pair matrix, and only in rounds that could
tell them from noise. That is post-processing, and what a round asks does not depend on it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedboard.common.algorithms.residual.config import (
    Curvature,
    ResidualConfig,
    Stage,
    StageKind,
    Start,
    releases_ridges,
)
from fedboard.common.algorithms.residual.item_step import USUAL_TRACE, ReleasedRound
from fedboard.common.algorithms.shared.adaptive_clipping import (
    clip_requests,
)
from fedboard.common.algorithms.shared.levels import even_counts_request
from fedboard.common.algorithms.shared.preparation import counts_request, moments_request, users_request
from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.algorithms.shared.sums import (
    calibrated_request,
    item_counts,
    item_matrices,
    item_vectors,
    user_matrix,
    user_totals,
)
from fedboard.common.arrays import BoolArray, Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.clipping import RESPONSE_BOUND
from fedboard.common.errors import InputError

RIDGES = np.array([1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0])
"""The candidates, squared deviations of a rating."""
ROW_ONE = 1 << 20
"""1 in a user's row, grid units."""


def release_name(t: int) -> str:
    """Of alternation t."""
    return f"round-{t}/ridges"


def evidence_request(shared: RatingsConfig, t: int) -> Request:
    """What alternation t asks of each user about the candidates."""
    covers = (
        "how much worse than without factors each candidate ridge predicts a user's ratings, norm at most 1"
    )
    return user_totals(shared, release_name(t), width=RIDGES.size, steps=ROW_ONE, covers=covers)


_MOST_ITEMS = 10_000


def of_stage(
    stage: Stage, settings: ResidualConfig, *, n_items: int, clip_norm: float | None
) -> tuple[Request, ...]:
    """What a stage asks for; nothing when the run is complete.

    Args:
        stage: where the run is.
        settings: public.
        n_items: size of the catalogue.
        clip_norm: C of this alternation; None for the configured one.
    """
    match stage.kind:
        case StageKind.PREPARATION:
            return preparation(settings, n_items=n_items)
        case StageKind.BIASES:
            return bias_round(settings, n_items=n_items)
        case StageKind.PAIRS:
            return spectral_start(settings, n_items=n_items)
        case StageKind.ALTERNATION:
            return alternation(settings, stage.alternation, n_items=n_items, clip_norm=clip_norm)
        case StageKind.DONE:
            return ()


def preparation(settings: ResidualConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private counts and the private number of users, with the mean and mean square of ratings; in one visit."""
    if settings.has_biases:
        return (moments_request(settings.shared), even_counts_request(settings.shared, n_items=n_items))
    return (counts_request(settings.shared, n_items=n_items), users_request(settings.shared))


def bias_round(settings: ResidualConfig, *, n_items: int) -> tuple[Request, ...]:
    """Weighted counts, once for all rounds, and with biases the residuals along the constant coordinate alone."""
    covers = "c_i = sum of w per item"
    weighted = item_counts(settings.shared, "weighted-counts", n_items=n_items, covers=covers)
    if not settings.has_biases:
        return (weighted,)
    moments = _moments(
        settings,
        "bias",
        n_items,
        width=1,
        clip_norm=settings.bias_clip_norm,
        bound=settings.bias_scale,
    )
    return (weighted, *moments)


def require_catalogue(settings: ResidualConfig, *, n_items: int) -> None:
    """Refuse a catalogue that a later round could not handle, before anything is released.

    Raises:
        InputError: it is too large for a matrix of all pairs of items.
    """
    if settings.start is Start.SPECTRAL and n_items > _MOST_ITEMS:
        raise InputError(
            f"start 'spectral' forms a matrix of all pairs of items and takes at most {_MOST_ITEMS} of them, got "
            f"{n_items}; use start 'sketch'"
        )


def spectral_start(settings: ResidualConfig, *, n_items: int) -> tuple[Request, ...]:
    """Pair sums of the users' weighted residuals, each user's scaled to norm 1.

    Raises:
        InputError: the catalogue is too large for a matrix of all pairs.
    """
    require_catalogue(settings, n_items=n_items)
    request = calibrated_request(
        settings.shared,
        SumSource.ITEM_PAIRS,
        "pairs",
        width=n_items * (n_items + 1) // 2,
        layout="symmetric",
        grid_step=1.0 / RESPONSE_BOUND**2,
        l2_bound=RESPONSE_BOUND**2,
        same_sign=True,
        covers="sum of z z^T over users, z the weighted residuals scaled to norm 1",
    )
    return (request,)


def alternation(
    settings: ResidualConfig, t: int, *, n_items: int, clip_norm: float | None = None
) -> tuple[Request, ...]:
    """Residual moments of alternation t, from 1; what ridges do, a matrix per item, where they are asked for."""
    asked: list[Request] = [
        *_moments(
            settings,
            f"round-{t}",
            n_items,
            width=settings.width,
            clip_norm=settings.clip_norm if clip_norm is None else clip_norm,
            bound=settings.vector_bound,
        )
    ]
    if releases_ridges(settings, t):
        asked.append(evidence_request(settings.shared, t))
    if settings.curvature is Curvature.RELEASED:
        matrices = item_matrices(
            settings.shared,
            f"round-{t}/curvature",
            n_items=n_items,
            size=settings.width,
            vector_bound=settings.vector_bound,
            covers="H_i = sum of w f x x^T per item",
        )
        asked.append(matrices)
    return (*asked, *clip_requests(settings, t))


def _moments(
    settings: ResidualConfig, prefix: str, n_items: int, *, width: int, clip_norm: float, bound: float
) -> tuple[Request, Request]:
    """The two sums that every round after the preparation asks for.

    A user's whole contribution to the first, ``w_ij r_ij f_j x_j`` over her items, has norm at most clip_norm
    whatever her ratings are; that is the sensitivity, far below ``residual_bound vector_bound``.
    """
    linear = item_vectors(
        settings.shared,
        f"{prefix}/linear",
        n_items=n_items,
        width=width,
        largest=bound * settings.residual_bound,
        clip_norm=clip_norm,
        covers="g_i = sum of w f r x per item, each user's part clipped as a whole",
    )
    covers = "M = sum of f x x^T over users"
    return linear, user_matrix(
        settings.shared, f"{prefix}/moment", size=width, vector_bound=bound, covers=covers
    )


_SCALE = 0.3  # about the size of learnt factors


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Directions to measure along where nothing was learnt. Public."""

    factors: Float32Array
    """float32, shape (n_items, number of columns)."""
    columns: BoolArray
    """Which coordinates of the embedding they stand for; bool, shape (rank,)."""
    length: float
    """How long a user's vector along them is: their share of the rank."""


def sketch_factors(board: Board, settings: ResidualConfig, t: int) -> Sketch | None:
    """What devices fit their vectors to in alternation t where the board has no factors; None where it has all.

    All columns in the first. Later those whose factors are zero, since evidence did not exceed its noise: each
    round measures along new directions, for the first two thirds of the alternations; after that what is left of
    the budget goes to what is known to be there. None, too, in a round whose noise would drown what is looked for.
    """
    if settings.has_biases and "explores" in board.arrays and board.arrays["explores"][0] == 0.0:
        return None
    if t == 1:
        everywhere = np.ones(settings.rank, dtype=np.bool_)
        if "sketch_factors" in board.arrays:
            given = np.asarray(board.arrays["sketch_factors"], dtype=np.float32)
            return Sketch(factors=given, columns=everywhere, length=1.0)
        drawn = _random_factors(settings.shared.public_seed, board.catalogue.n_items, settings.rank)
        return Sketch(factors=drawn, columns=everywhere, length=1.0)
    if not settings.has_biases or 3 * t > 2 * settings.rounds:
        return None
    empty: BoolArray = ~np.any(board.arrays["item_factors"] != 0.0, axis=0)
    found = int(empty.sum())
    if found == 0:
        return None
    drawn = _random_factors(settings.shared.public_seed + t, board.catalogue.n_items, found)
    return Sketch(factors=drawn, columns=empty, length=math.sqrt(found / settings.rank))


def measured_columns(board: Board, settings: ResidualConfig, t: int) -> BoolArray:
    """Which coordinates of x_j were not zero for everybody in alternation t: bool, shape (width,). Public."""
    found = np.ones(settings.width, dtype=np.bool_)
    if settings.has_biases and settings.curvature is Curvature.PRIOR:
        sketch = sketch_factors(board, settings, t)
        own = np.any(board.arrays["item_factors"] != 0.0, axis=0)
        found[1:] = own if sketch is None else own | sketch.columns
    return found


def bias_column(board: Board, settings: ResidualConfig, t: int) -> float:
    """The first coordinate of every x_j in alternation t: s, or ``vector_bound`` where it is the only one.

    A user's part is clipped to ``clip_norm`` as a whole, and longer vectors fill it with smaller residuals: nothing
    is kept for factors that nobody measures. Public: from the board alone.
    """
    alone = settings.has_biases and not measured_columns(board, settings, t)[1:].any()
    return settings.vector_bound if alone else settings.bias_scale


def leading_factors(packed: FloatArray, item_weights: FloatArray, rank: int) -> Float32Array:
    """Item factors along the leading eigenvectors of a noised pair matrix: post-processing.

    The diagonal is left out: it holds the items' own variances, not what they share. Rows are divided by the
    weights omega_i that the pairs carry.

    Args:
        packed: upper triangle, row-major, float64, shape (n_items (n_items + 1) / 2,). Public.
        item_weights: omega, float64, shape (n_items,).
        rank: d.

    Returns:
        float32, shape (n_items, rank).

    Reference: Dwork, Talwar, Thakurta and Zhang (2014), Analyze Gauss.
    """
    from scipy.sparse.linalg import eigsh  # slow to import, and devices never need it

    n_items = item_weights.size
    matrix = np.zeros((n_items, n_items))
    matrix[np.triu_indices(n_items)] = packed
    matrix += matrix.T
    np.fill_diagonal(matrix, 0.0)
    factors, found = np.zeros((n_items, rank)), min(rank, n_items - 1)
    if found == 0:  # one item alone shares nothing with others
        return factors.astype(np.float32)
    values, vectors = eigsh(matrix, k=found, which="LA", v0=np.ones(n_items))
    factors[:, :found] = vectors * np.sqrt(np.maximum(values, 1e-12)) / item_weights[:, None]
    factors *= _SCALE / max(float(np.sqrt(np.mean(np.sum(factors**2, axis=1)))), 1e-12)
    return factors.astype(np.float32)


@lru_cache(maxsize=2)
def _random_factors(seed: int, n_items: int, rank: int) -> Float32Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_items, rank), dtype=np.float32) * np.float32(_SCALE / np.sqrt(rank))


_FACTORS_OVER_BIASES = 3.0  # in variance: directions that differ more than that are not looked for
_USUAL_TASTES = 0.3  # of a rating's variance: what factors may make of it
_LEAST_KNOWN = 0.5  # below it users' vectors are more noise than anything else


def share_known(variance: float, ratings_of_user: float) -> float:
    """How much of where a user stands her ratings tell, where factors make this much of a rating; in [0, 1).

    Reliability of what is fitted to them: one goes to her own bias, the others scatter around their predictions.

    Args:
        variance: of what factors make of a rating, in squared deviations of one.
        ratings_of_user: how many a user has.
    """
    told = max(ratings_of_user - 1.0, 0.0) * variance
    return told / (told + 1.0)


def worth_measuring(
    bias_variance: float,
    weighted_counts: FloatArray,
    noise_stddev: float,
    settings: ResidualConfig,
    *,
    ratings_of_user: float,
    spread: float,
) -> bool:
    """Whether a round with this noise could tell from it factors that differ a few times as much as the biases.

    If not, measuring along them would cost the biases information for nothing. The edge is that of equally noisy
    estimates, as many as carry the weight of the actual ones.

    Args:
        bias_variance: of the first coordinates, as they are known now.
        weighted_counts: c_i, float64, shape (n_items,).
        noise_stddev: of each number of the next round's ``linear``.
        settings: public.
        ratings_of_user: how many a user has: of what they do not tell of her nothing is in the sums.
        spread: deviation of a rating, in the unit of the first coordinates.
    """
    width = settings.width
    level = USUAL_TRACE * settings.vector_bound**2 / width
    noise = np.square(noise_stddev / (weighted_counts * level))
    weights = 1.0 / np.square(noise + bias_variance)
    weighted = weights * noise
    items = max(float(weighted.sum()) ** 2 / max(float(np.square(weighted).sum()), 1e-300), 1.0)
    signal = bias_variance * float(weights.sum()) / max(float(weighted.sum()), 1e-300)
    known = share_known(_FACTORS_OVER_BIASES * bias_variance / spread**2, ratings_of_user)
    edge = (1.0 + np.sqrt(width / items)) ** 2 - 1.0
    return bool(known >= _LEAST_KNOWN and known * _FACTORS_OVER_BIASES * signal > edge)


def costs_little(
    released: ReleasedRound, noise_stddev: float, settings: ResidualConfig, *, ratings_of_user: float
) -> bool:
    """Whether the noise of a round is less than ratings scatter anyway, for the items that most ratings are of.

    Then factors may be looked for though nothing says that there are any: the biases lose next to nothing by it.

    Args:
        released: the last round.
        noise_stddev: of each number of the next round's ``linear``.
        settings: public.
        ratings_of_user: how many a user has; of two, no more than her own bias can be learnt.
    """
    counts = released.weighted_counts
    scatter = settings.noise_variance * released.spread**2 * released.mean_weights
    level = USUAL_TRACE * settings.vector_bound**2 / settings.width
    usual = float(np.average(scatter * counts, weights=counts))
    known = share_known(_USUAL_TASTES, ratings_of_user)
    return bool(known >= _LEAST_KNOWN and noise_stddev**2 < known * usual * level)
