"""The releases of AdaDPALS: what each sum covers, its grid, its sensitivity. Data-free."""

from fedboard.common.contribution import Request, SumSource
from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig, needs_population
from fedboard.common.tasks.shared.adaptive_clipping import clip_requests
from fedboard.common.tasks.shared.rating_level import moments_request
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.releases import (
    calibrated_request,
    counts_request,
    mean_requests,
    users_request,
)


def preparation(settings: AdaDpalsConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private mean (explicit feedback only; with biases the deviation too) and private counts, in one visit."""
    mean: tuple[Request, ...] = ()
    if settings.biases:
        mean = (moments_request(settings.shared),)
    elif settings.shared.feedback is Feedback.EXPLICIT:
        mean = mean_requests(settings.shared)
    users = (users_request(settings.shared),) if needs_population(settings) else ()
    return (*mean, counts_request(settings.shared, n_items=n_items), *users)


def alternation(settings: AdaDpalsConfig, t: int, *, n_items: int, clip_norm: float) -> tuple[Request, ...]:
    """Item statistics of round t, the global Gram matrix (implicit feedback), the clipping norm's quantile.

    Args:
        settings: public.
        t: number of the round, >= 1.
        n_items: size of the catalogue.
        clip_norm: Gamma of this round, from the board. Public.
    """
    gamma, label = clip_norm, settings.label_bound
    quadratic = calibrated_request(
        settings.shared,
        SumSource.ITEM_QUADRATIC,
        f"round-{t}/quadratic",
        rows=n_items,
        width=settings.packed,
        layout="symmetric",
        grid_step=gamma**2 / (WEIGHT_ONE * VECTOR_BOUND**2),
        l2_bound=WEIGHT_ONE * VECTOR_BOUND**2,
        same_sign=True,
        covers="A_i = sum of w v v^T per item",
    )
    linear = calibrated_request(
        settings.shared,
        SumSource.ITEM_LINEAR,
        f"round-{t}/linear",
        rows=n_items,
        width=settings.rank,
        grid_step=gamma * label / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND),
        l2_bound=WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND,
        same_sign=False,
        covers="b_i = sum of w y v per item, labels clipped",
    )
    requests: tuple[Request, ...] = (quadratic, linear)
    if settings.shared.feedback is Feedback.IMPLICIT:
        requests = (*requests, _gram(settings, t, clip_norm))
    return (*requests, *clip_requests(settings, t))


def _gram(settings: AdaDpalsConfig, t: int, clip_norm: float) -> Request:
    return calibrated_request(
        settings.shared,
        SumSource.QUADRATIC,
        f"round-{t}/gram",
        width=settings.packed,
        layout="symmetric",
        grid_step=clip_norm**2 / VECTOR_BOUND**2,
        l2_bound=VECTOR_BOUND**2,
        same_sign=True,
        covers="G = sum of v v^T over users",
    )
