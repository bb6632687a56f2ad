"""The releases of residual alternating minimisation: what each sum covers, its grid, its sensitivity.

One of them says how much a device should trust the factors: the ridge on v_j, chosen by ratings not yet seen.
No ridge is right everywhere: with few ratings a user a weak one makes own models learn their own noise, with many
a strong one throws the factors away. So every user tells, for each candidate, how much better than without factors
her ratings are predicted when each is left out in turn; the sums are released, and the best candidate is used from
then on. Where none is better than nothing, the factors are dropped, and what follows improves the biases alone.

One user's row is ``sqrt(n_j) (mean squared error with a candidate - that without factors)``, in squared deviations
of a rating, scaled to norm at most 1: that is the sensitivity.
"""

import math
from typing import Any

import numpy as np

from fedboard.common import kernels
from fedboard.common.algorithms.residual.config import (
    Curvature,
    ResidualConfig,
    Stage,
    StageKind,
    Start,
    releases_ridges,
    stage_of,
)
from fedboard.common.algorithms.shared.adaptive_clipping import clip_requests
from fedboard.common.algorithms.shared.levels import even_counts_request
from fedboard.common.algorithms.shared.preparation import (
    calibrated_request,
    counts_request,
    moments_request,
    spread_of,
    users_request,
)
from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.clipping import (
    QUADRATIC_BOUND,
    RESPONSE_BOUND,
    VECTOR_BOUND,
    WEIGHT_ONE,
)
from fedboard.common.errors import InputError

RIDGES = np.array([1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0])
"""The candidates, squared deviations of a rating."""
ROW_ONE = 1 << 20
"""1 in a user's row, grid units."""
_OLDER = 0.6
"""What the evidence of the round before counts in the next."""
_INSIDE = 1.0 - 1e-6


def release_name(t: int) -> str:
    """Of alternation t."""
    return f"round-{t}/ridges"


def evidence_request(shared: RatingsConfig, t: int) -> Request:
    """What alternation t asks of each user about the candidates."""
    return calibrated_request(
        shared,
        SumSource.TOTAL,
        release_name(t),
        width=RIDGES.size,
        grid_step=1.0 / ROW_ONE,
        l2_bound=ROW_ONE,
        same_sign=False,
        covers="how much worse than without factors each candidate ridge predicts a user's ratings, norm at most 1",
    )


def evidence_rows(
    cohort: Cohort,
    targets: Float32Array,
    factors: Float32Array,
    *,
    spread: float,
    exponent: float,
    bias_ridge: float,
    backend: str,
) -> IntArray:
    """Each user's part in the evidence; int64, shape (n_users, 7), norm of a row <= ``ROW_ONE``. Private.

    Args:
        cohort: the users. Private.
        targets: ratings less mean and item biases: float32, shape (n_ratings,). Private.
        factors: float32, shape (n_items, rank).
        spread: deviation of a rating, stars.
        exponent: ridges grow with a user's number of ratings to this power.
        bias_ridge: strength of the ridge on her own bias.
        backend: which kernels compute.
    """
    if not factors.any():  # every candidate is what no factors are
        return np.zeros((cohort.n_users, RIDGES.size), dtype=np.int64)
    own = np.maximum(cohort.counts, 1).astype(np.float64)
    gains = kernels.left_out_errors(
        cohort.indptr,
        cohort.items,
        targets,
        factors,
        ridges=RIDGES * spread**2,
        growth=own**exponent,
        bias_ridge=bias_ridge,
        backend=backend,
    )
    gains *= (np.sqrt(own) / spread**2)[:, None]
    # Absurd factors round a leverage to 1: nothing is known then, and an error would tell who rated such an item.
    gains[~np.isfinite(gains).all(axis=1)] = 0.0
    norms = np.linalg.norm(gains, axis=1, keepdims=True)
    gains *= _INSIDE * ROW_ONE / np.maximum(norms, 1.0)
    return np.trunc(gains).astype(np.int64)


def weighed_evidence(before: FloatArray | None, released: FloatArray, stddev: float) -> FloatArray:
    """Evidence so far: rounds weighted by their precision, older ones less; float64, shape (7,).

    Args:
        before: the same after the round before; None in the first.
        released: sums over users, float64, shape (7,).
        stddev: of the noise in each.
    """
    new: FloatArray = released / max(stddev, 1e-12) ** 2
    return new if before is None else _OLDER * before + new


def chosen_ridge(evidence: FloatArray) -> float | None:
    """The best candidate, in squared deviations of a rating; None where no factors are better than any."""
    best = int(np.argmin(evidence))
    return float(RIDGES[best]) if evidence[best] < 0.0 else None


def user_ridge(board: Board, settings: ResidualConfig) -> float:
    """lambda_v with this board, squared stars: as evidence says, or as configured where there is none."""
    done = stage_of(board.version, settings).kind is StageKind.DONE
    if done and settings.final_user_ridge is not None:
        return settings.final_user_ridge * _unit(board, settings)
    if settings.has_biases and "user_ridge" in board.arrays:  # whose rule binds boards of ratings alone
        return float(board.arrays["user_ridge"][0])
    return settings.user_ridge * _unit(board, settings)


def unit_of(board: Board, settings: ResidualConfig) -> float:
    """The unit of residuals in contributions: the released deviation of a rating, stars; 1 for presence.

    Devices divide by it, so that what a round asks does not depend on what was released.
    """
    return spread_of(board) if settings.has_biases else 1.0


def _unit(board: Board, settings: ResidualConfig) -> float:
    """Of a ridge: that of residuals squared; 1 where none is released yet."""
    return unit_of(board, settings) ** 2 if "spread" in board.arrays else 1.0


def after_evidence(
    board: Board, released: FloatArray, stddev: float, settings: ResidualConfig
) -> tuple[dict[str, Any], bool]:
    """Board arrays that follow from the evidence of a round, and whether factors are worth anything.

    Args:
        board: of before the round.
        released: sums over users, float64, shape (7,).
        stddev: of the noise in each.
        settings: public.
    """
    evidence = weighed_evidence(board.arrays.get("ridge_evidence"), released, stddev)
    chosen = chosen_ridge(evidence)
    ridge = user_ridge(board, settings) if chosen is None else chosen * _unit(board, settings)
    return {"ridge_evidence": evidence, "user_ridge": np.array([ridge])}, chosen is not None


BIAS_ROUND = "bias"
"""Prefix of the releases of the round that learns item biases alone."""

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
    weighted = calibrated_request(
        settings.shared,
        SumSource.ITEM_COUNT,
        "weighted-counts",
        rows=n_items,
        grid_step=1.0 / WEIGHT_ONE,
        l2_bound=WEIGHT_ONE,
        same_sign=True,
        covers="c_i = sum of w per item",
    )
    if not settings.has_biases:
        return (weighted,)
    moments = _moments(
        settings,
        BIAS_ROUND,
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
    moments = _moments(
        settings,
        f"round-{t}",
        n_items,
        width=settings.width,
        clip_norm=settings.clip_norm if clip_norm is None else clip_norm,
        bound=settings.vector_bound,
    )
    ridges = (evidence_request(settings.shared, t),) if releases_ridges(settings, t) else ()
    curvature = (_curvature(settings, t, n_items),) if settings.curvature is Curvature.RELEASED else ()
    return (*moments, *ridges, *curvature, *clip_requests(settings, t))


def _moments(
    settings: ResidualConfig, prefix: str, n_items: int, *, width: int, clip_norm: float, bound: float
) -> tuple[Request, Request]:
    """The two sums that every round after the preparation asks for.

    A user's whole contribution to the first, ``w_ij r_ij f_j x_j`` over her items, has norm at most clip_norm
    whatever her ratings are; that is the sensitivity, far below ``residual_bound vector_bound``.
    """
    step = bound * settings.residual_bound / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND)
    linear = calibrated_request(
        settings.shared,
        SumSource.ITEM_LINEAR,
        f"{prefix}/linear",
        rows=n_items,
        width=width,
        grid_step=step,
        l2_bound=math.floor(clip_norm / step),
        same_sign=False,
        covers="g_i = sum of w f r x per item, each user's part clipped as a whole",
    )
    moment = calibrated_request(
        settings.shared,
        SumSource.QUADRATIC,
        f"{prefix}/moment",
        width=width * (width + 1) // 2,
        layout="symmetric",
        grid_step=bound**2 / VECTOR_BOUND**2,
        l2_bound=VECTOR_BOUND**2,
        same_sign=True,
        covers="M = sum of f x x^T over users",
    )
    return (linear, moment)


def _curvature(settings: ResidualConfig, t: int, n_items: int) -> Request:
    return calibrated_request(
        settings.shared,
        SumSource.ITEM_QUADRATIC,
        f"round-{t}/curvature",
        rows=n_items,
        width=settings.width * (settings.width + 1) // 2,
        layout="symmetric",
        grid_step=settings.vector_bound**2 / (WEIGHT_ONE * VECTOR_BOUND**2),
        l2_bound=QUADRATIC_BOUND,
        same_sign=True,
        covers="H_i = sum of w f x x^T per item",
    )
