"""The requests that rating tasks share: those of the preparation round, and how a task states a release."""

import math
from typing import Any

from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.per_user.clipping import WEIGHT_ONE
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.tasks.shared.preparation import MEAN_BOUND
from fedboard.common.tasks.shared.ratings_config import RatingsConfig

ONE_USER = 1 << 12
"""A user in the number of users, grid units; fine, so that a personal privacy level can shrink it."""


def mean_requests(shared: RatingsConfig) -> tuple[Request, Request]:
    """Both sums of the private mean."""
    total = calibrated_request(
        shared,
        SumSource.TOTAL,
        "mean/sum",
        grid_step=shared.mean_cap * shared.half_range / MEAN_BOUND,
        l2_bound=MEAN_BOUND,
        same_sign=False,
        covers="sum of ratings minus the centre of the public range, smoothly bounded",
    )
    number = calibrated_request(
        shared,
        SumSource.TOTAL,
        "mean/number",
        grid_step=shared.mean_cap / MEAN_BOUND,
        l2_bound=MEAN_BOUND,
        same_sign=True,
        covers="number of ratings, smoothly bounded",
    )
    return (total, number)


def counts_request(shared: RatingsConfig, *, n_items: int) -> Request:
    """The private item counts."""
    return calibrated_request(
        shared,
        SumSource.ITEM_COUNT,
        "counts",
        rows=n_items,
        grid_step=math.sqrt(shared.count_cap) / WEIGHT_ONE,
        l2_bound=WEIGHT_ONE,
        same_sign=True,
        covers="users per item, each user's row scaled to at most sqrt(count_cap)",
    )


def users_request(shared: RatingsConfig) -> Request:
    """The private number of users."""
    return calibrated_request(
        shared,
        SumSource.TOTAL,
        "users",
        grid_step=1.0 / ONE_USER,
        l2_bound=ONE_USER,
        same_sign=True,
        covers="number of users",
    )


def calibrated_request(shared: RatingsConfig, source: SumSource, name: str, **release: Any) -> Request:
    """A request whose release has the run's adjacency and the noise that calibration gave to its name.

    Args:
        shared: public.
        source: how its exact sum is computed.
        name: of the release.
        release: the other fields of ``GaussianRelease``; one number in one row unless they say otherwise.

    Raises:
        PrivacyError: calibration knows no such release.
    """
    shape = {"rows": 1, "width": 1, "layout": "vector", **release}
    return Request(
        source=source,
        release=GaussianRelease(
            name=name,
            adjacency=shared.adjacency,
            noise_multiplier=noise_multiplier(shared, name),
            **shape,
        ),
    )


def real_stddev(request: Request) -> float:
    """Noise deviation of a release in real units."""
    return request.release.noise_stddev * request.release.grid_step


def noise_multiplier(shared: RatingsConfig, name: str) -> float:
    """The noise that calibration gave to a release.

    Raises:
        PrivacyError: it knows no such release.
    """
    if name not in shared.noise_multipliers:
        raise PrivacyError(f"no noise multiplier for release {name!r}: calibrate the run's budget first")
    return shared.noise_multipliers[name]
