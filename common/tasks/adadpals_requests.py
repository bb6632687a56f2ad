"""The releases of AdaDPALS: what each sum covers, its grid, its sensitivity. SPEC of one run, data-free."""

import math

from fedboard.common.contribution import Request, Source
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.privacy.quantile import AdaptiveClip
from fedboard.common.privacy.release import GaussianRelease, Layout
from fedboard.common.tasks.adadpals_config import (
    AdaDpalsConfig,
    Feedback,
    adapts_clipping,
    needs_population,
)
from fedboard.common.tasks.preparation import MEAN_BOUND

ONE_USER = 1 << 12
"""A user in the number of users, grid units; fine, so that a personal privacy level can shrink it."""

_FARTHEST = 64.0  # an adaptive clipping norm stays within this factor of where it started


def preparation(settings: AdaDpalsConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private mean (explicit feedback only) and private counts, asked in one visit."""
    counts = Request(
        source=Source.ITEM_COUNT,
        release=_release(
            settings,
            "counts",
            rows=n_items,
            grid_step=math.sqrt(settings.count_cap) / WEIGHT_ONE,
            l2_bound=WEIGHT_ONE,
            same_sign=True,
            covers="users per item, each user's row scaled to at most sqrt(count_cap)",
        ),
    )
    mean = _mean(settings) if settings.feedback is Feedback.EXPLICIT else ()
    return (*mean, counts, *_users(settings))


def _users(settings: AdaDpalsConfig) -> tuple[Request, ...]:
    if not needs_population(settings):
        return ()
    release = _release(
        settings,
        "users",
        grid_step=1.0 / ONE_USER,
        l2_bound=ONE_USER,
        same_sign=True,
        covers="number of users",
    )
    return (Request(source=Source.TOTAL, release=release),)


def _mean(settings: AdaDpalsConfig) -> tuple[Request, Request]:
    total = _release(
        settings,
        "mean/sum",
        grid_step=settings.mean_cap * settings.half_range / MEAN_BOUND,
        l2_bound=MEAN_BOUND,
        same_sign=False,
        covers="sum of ratings minus the centre of the public range, smoothly bounded",
    )
    number = _release(
        settings,
        "mean/number",
        grid_step=settings.mean_cap / MEAN_BOUND,
        l2_bound=MEAN_BOUND,
        same_sign=True,
        covers="number of ratings, smoothly bounded",
    )
    return (
        Request(source=Source.TOTAL, release=total),
        Request(source=Source.TOTAL, release=number),
    )


def alternation(settings: AdaDpalsConfig, t: int, *, n_items: int, clip_norm: float) -> tuple[Request, ...]:
    """Item statistics of round t, the global Gram matrix (implicit feedback), the clipping norm's quantile.

    Args:
        settings: public.
        t: number of the round, >= 1.
        n_items: size of the catalogue.
        clip_norm: Gamma of this round, from the board. Public.
    """
    gamma, label = clip_norm, settings.label_bound
    quadratic = _release(
        settings,
        f"round-{t}/quadratic",
        rows=n_items,
        width=settings.packed,
        layout="symmetric",
        grid_step=gamma**2 / (WEIGHT_ONE * VECTOR_BOUND**2),
        l2_bound=WEIGHT_ONE * VECTOR_BOUND**2,
        same_sign=True,
        covers="A_i = sum of w v v^T per item",
    )
    linear = _release(
        settings,
        f"round-{t}/linear",
        rows=n_items,
        width=settings.rank,
        grid_step=gamma * label / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND),
        l2_bound=WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND,
        same_sign=False,
        covers="b_i = sum of w y v per item, labels clipped",
    )
    requests: tuple[Request, ...] = (
        Request(source=Source.ITEM_QUADRATIC, release=quadratic),
        Request(source=Source.ITEM_LINEAR, release=linear),
    )
    if settings.feedback is Feedback.IMPLICIT:
        requests = (*requests, _gram(settings, t, clip_norm))
    return (*requests, *_clip(settings, t))


def adaptive_clip(settings: AdaDpalsConfig, t: int) -> AdaptiveClip | None:
    """What moves the clipping norm after round t, or None where it stays."""
    if settings.clip_quantile is None or not adapts_clipping(settings, t):
        return None
    return AdaptiveClip(
        target=settings.clip_quantile,
        rate=settings.clip_rate,
        initial=settings.clip_norm,
        lower=settings.clip_norm / _FARTHEST,
        upper=settings.clip_norm * _FARTHEST,
    )


def _clip(settings: AdaDpalsConfig, t: int) -> tuple[Request, ...]:
    moving = adaptive_clip(settings, t)
    if moving is None:
        return ()
    name = f"round-{t}/clip"
    multiplier = _multiplier(settings, name)
    return (moving.request(name, noise_multiplier=multiplier, adjacency=settings.adjacency),)


def _gram(settings: AdaDpalsConfig, t: int, clip_norm: float) -> Request:
    release = _release(
        settings,
        f"round-{t}/gram",
        width=settings.packed,
        layout="symmetric",
        grid_step=clip_norm**2 / VECTOR_BOUND**2,
        l2_bound=VECTOR_BOUND**2,
        same_sign=True,
        covers="G = sum of v v^T over users",
    )
    return Request(source=Source.QUADRATIC, release=release)


def _release(
    settings: AdaDpalsConfig,
    name: str,
    *,
    rows: int = 1,
    width: int = 1,
    layout: Layout = "vector",
    grid_step: float,
    l2_bound: int,
    same_sign: bool,
    covers: str,
) -> GaussianRelease:
    return GaussianRelease(
        name=name,
        rows=rows,
        width=width,
        layout=layout,
        grid_step=grid_step,
        l2_bound=l2_bound,
        same_sign=same_sign,
        adjacency=settings.adjacency,
        noise_multiplier=_multiplier(settings, name),
        covers=covers,
    )


def _multiplier(settings: AdaDpalsConfig, name: str) -> float:
    if name not in settings.noise_multipliers:
        raise PrivacyError(f"no noise multiplier for release {name!r}: calibrate the run's budget first")
    return settings.noise_multipliers[name]


__all__ = ["ONE_USER", "adaptive_clip", "alternation", "preparation"]
