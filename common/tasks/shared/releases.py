"""The requests that rating tasks share: those of the preparation round, and how a task states a release."""

import math
from collections.abc import Mapping
from typing import Any, Protocol

from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.per_user.clipping import WEIGHT_ONE
from fedboard.common.privacy.releases.gaussian import Adjacency, GaussianRelease
from fedboard.common.tasks.shared.preparation import MEAN_BOUND

ONE_USER = 1 << 12
"""A user in the number of users, grid units; fine, so that a personal privacy level can shrink it."""


class CalibratedSettings(Protocol):
    """What every release needs of a task's configuration. Public."""

    @property
    def adjacency(self) -> Adjacency:
        """What neighbouring means."""
        ...

    @property
    def noise_multipliers(self) -> Mapping[str, float]:
        """By release name; filled in by calibration."""
        ...


class PreparationSettings(CalibratedSettings, Protocol):
    """What the preparation round needs besides. Public."""

    @property
    def count_cap(self) -> int:
        """Ratings beyond which a user's counts are scaled down."""
        ...

    @property
    def mean_cap(self) -> float:
        """Most ratings that a user weighs in the mean."""
        ...

    @property
    def half_range(self) -> float:
        """Half the width of the rating range."""
        ...


def mean_requests(settings: PreparationSettings) -> tuple[Request, Request]:
    """Both sums of the private mean."""
    total = calibrated_request(
        settings,
        SumSource.TOTAL,
        "mean/sum",
        grid_step=settings.mean_cap * settings.half_range / MEAN_BOUND,
        l2_bound=MEAN_BOUND,
        same_sign=False,
        covers="sum of ratings minus the centre of the public range, smoothly bounded",
    )
    number = calibrated_request(
        settings,
        SumSource.TOTAL,
        "mean/number",
        grid_step=settings.mean_cap / MEAN_BOUND,
        l2_bound=MEAN_BOUND,
        same_sign=True,
        covers="number of ratings, smoothly bounded",
    )
    return (total, number)


def counts_request(settings: PreparationSettings, *, n_items: int) -> Request:
    """The private item counts."""
    return calibrated_request(
        settings,
        SumSource.ITEM_COUNT,
        "counts",
        rows=n_items,
        grid_step=math.sqrt(settings.count_cap) / WEIGHT_ONE,
        l2_bound=WEIGHT_ONE,
        same_sign=True,
        covers="users per item, each user's row scaled to at most sqrt(count_cap)",
    )


def users_request(settings: CalibratedSettings) -> Request:
    """The private number of users."""
    return calibrated_request(
        settings,
        SumSource.TOTAL,
        "users",
        grid_step=1.0 / ONE_USER,
        l2_bound=ONE_USER,
        same_sign=True,
        covers="number of users",
    )


def calibrated_request(settings: CalibratedSettings, source: SumSource, name: str, **release: Any) -> Request:
    """A request whose release has the run's adjacency and the noise that calibration gave to its name.

    Args:
        settings: public.
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
            adjacency=settings.adjacency,
            noise_multiplier=noise_multiplier(settings, name),
            **shape,
        ),
    )


def noise_multiplier(settings: CalibratedSettings, name: str) -> float:
    """The noise that calibration gave to a release.

    Raises:
        PrivacyError: it knows no such release.
    """
    if name not in settings.noise_multipliers:
        raise PrivacyError(f"no noise multiplier for release {name!r}: calibrate the run's budget first")
    return settings.noise_multipliers[name]


__all__ = [
    "ONE_USER",
    "CalibratedSettings",
    "PreparationSettings",
    "calibrated_request",
    "counts_request",
    "mean_requests",
    "noise_multiplier",
    "users_request",
]
