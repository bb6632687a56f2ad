"""The releases of the Langevin task: what each sum covers, its grid, its sensitivity. Data-free."""

import math

from fedboard.common.checks import require
from fedboard.common.contribution import Request, SumSource
from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.shared.releases import calibrated_request, counts_request, mean_requests


def preparation(settings: LangevinConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private mean and private counts, asked in one visit."""
    return (*mean_requests(settings.shared), counts_request(settings.shared, n_items=n_items))


def step(settings: LangevinConfig, t: int, *, n_items: int, clip_norm: float | None) -> tuple[Request, ...]:
    """The gradient of step t, from 1.

    A user's whole contribution, ``f_j a_i w_j r_ij x_j`` over her items, has norm at most clip_norm whatever her
    ratings are: that is the sensitivity.

    Args:
        settings: public.
        t: number of the step.
        n_items: size of the catalogue.
        clip_norm: real bound, from the board; None for the largest that the grid expresses.

    Raises:
        InputError: clip_norm is not a finite number > 0.
    """
    largest = settings.vector_bound * settings.model.residual_bound
    bound = largest if clip_norm is None else clip_norm
    require(0.0 < bound < math.inf, "clip_norm", "finite and > 0", bound)
    unit = largest / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND)
    request = calibrated_request(
        settings.shared,
        SumSource.ITEM_LINEAR,
        f"step-{t}",
        rows=n_items,
        width=settings.width,
        grid_step=unit,
        l2_bound=math.floor(min(bound, largest) / unit),
        same_sign=False,
        covers="g_i = sum of w r x per item over at most tau ratings a user, each user's part clipped as a whole",
    )
    return (request,)
