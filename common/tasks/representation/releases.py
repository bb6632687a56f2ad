"""Requests for sums of rows of norm 1 on the grid."""

from collections.abc import Mapping
from typing import Protocol

from fedboard.common.contribution import Request, SumSource
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.tasks.representation.statistics import GRID


class Noised(Protocol):
    """Settings that say how much noise a release gets."""

    @property
    def adjacency(self) -> Adjacency:
        """What neighbouring means."""
        ...

    @property
    def noise_multipliers(self) -> Mapping[str, float]:
        """Release name -> z."""
        ...


def unit_total(name: str, width: int, settings: Noised, *, covers: str, scale: float = 1.0) -> Request:
    """Ask for a sum of rows that each have norm at most ``scale``.

    Matrices are packed so that the norm of a row is theirs (``packing``), hence the plain layout.

    Raises:
        PrivacyError: the settings hold no noise for this release.
    """
    release = GaussianRelease(
        name=name,
        rows=1,
        width=width,
        layout="vector",
        grid_step=scale / GRID,
        l2_bound=GRID,
        same_sign=False,
        adjacency=settings.adjacency,
        noise_multiplier=settings.noise_multipliers.get(name, 0.0),
        covers=f"{covers}, each user's sum scaled to norm 1",
    )
    return Request(source=SumSource.TOTAL, release=release)
