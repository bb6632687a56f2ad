"""The releases of AdaDPSGD: what each sum covers, its grid, its sensitivity. Data-free."""

import math

from fedboard.common.contribution import Request, SumSource
from fedboard.common.per_user.clipping import LINEAR_BOUND, RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.tasks.adadpals import releases as adadpals_requests
from fedboard.common.tasks.adadpals.config import needs_population
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig, gradient_name, gram_name
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.releases import calibrated_request, users_request


def preparation(settings: AdaDpsgdConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private mean (explicit feedback), private counts, and the private number of users, which the rates need."""
    shared = adadpals_requests.preparation(settings.model, n_items=n_items)
    return shared if needs_population(settings.model) else (*shared, users_request(settings.shared))


def gradient_step(settings: AdaDpsgdConfig, t: int, *, n_items: int) -> tuple[Request, ...]:
    """The gradient sums of step t, from 1; for implicit feedback the Gram matrix of users' vectors once a solve.

    A user's whole contribution to the gradient has norm at most Gamma_g: each example's is clipped to it, and the
    squares of her weights sum to at most 1. Her vector and her responses alone would allow far more, so the bound
    is checked on their product.
    """
    step = settings.vector_bound * settings.response_bound / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND)
    gradient = calibrated_request(
        settings.shared,
        SumSource.ITEM_LINEAR,
        gradient_name(t),
        rows=n_items,
        width=settings.rank,
        grid_step=step,
        l2_bound=min(math.floor(settings.gradient_clip / step), LINEAR_BOUND),
        same_sign=False,
        covers="sum of w clip(-2 (<u, v> - y) v) per item, each example's gradient clipped",
    )
    if settings.shared.feedback is Feedback.EXPLICIT or not settings.solves(t):
        return (gradient,)
    return (gradient, _gram(settings, t))


def _gram(settings: AdaDpsgdConfig, t: int) -> Request:
    return calibrated_request(
        settings.shared,
        SumSource.QUADRATIC,
        gram_name(t),
        width=settings.model.packed,
        layout="symmetric",
        grid_step=settings.vector_bound**2 / VECTOR_BOUND**2,
        l2_bound=VECTOR_BOUND**2,
        same_sign=True,
        covers="G = sum of v v^T over users",
    )
