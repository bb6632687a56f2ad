"""The releases of residual alternating minimisation: what each sum covers, its grid, its sensitivity. Data-free."""

import math

from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import InputError
from fedboard.common.per_user.clipping import QUADRATIC_BOUND, RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.tasks.residual.config import (
    ResidualConfig,
    Stage,
    StageKind,
    Start,
    releases_curvature,
    releases_ridges,
)
from fedboard.common.tasks.residual.ridges import evidence_request
from fedboard.common.tasks.shared.adaptive_clipping import clip_requests
from fedboard.common.tasks.shared.levels import even_counts_request
from fedboard.common.tasks.shared.rating_level import moments_request
from fedboard.common.tasks.shared.releases import calibrated_request, counts_request, users_request

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
    curvature = (_curvature(settings, t, n_items),) if releases_curvature(settings, t) else ()
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
