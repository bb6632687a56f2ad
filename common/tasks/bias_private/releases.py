"""The releases of private item biases: what each sum covers, its grid, its sensitivity. Data-free."""

import math

from fedboard.common.contribution import Request, SumSource
from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.tasks.bias_private.config import BiasConfig
from fedboard.common.tasks.shared.ratings_config import RatingsConfig
from fedboard.common.tasks.shared.releases import calibrated_request


def sums_request(settings: BiasConfig, name: str, *, n_items: int, clip_norm: float) -> Request:
    """Weighted residuals per item, the whole part of a user of norm at most ``clip_norm``, in stars."""
    step = residual_bound(settings.shared) / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND)
    return calibrated_request(
        settings.shared,
        SumSource.ITEM_LINEAR,
        name,
        rows=n_items,
        grid_step=step,
        l2_bound=math.floor(clip_norm / step),
        same_sign=False,
        covers="sum of w r per item, r what the board leaves of a rating, each user's part bounded as a whole",
    )


def residual_bound(shared: RatingsConfig) -> float:
    """Bound on one residual: the width of the range; larger ones are clipped."""
    return shared.rating_high - shared.rating_low
