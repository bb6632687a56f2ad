"""Public configuration of top-k lists, how their budget is shared, and their releases: sums, grids, sensitivities.

Nothing here looks at data.
Every contribution is normalised on the device, so every bound is 1, reached by nearly everybody, and there is no
clipping norm to choose. What is asked does not depend on what was released: where there is too little to learn more
than popularity, devices put counts into the same sums (``rounds.py``).
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from fedboard.common.algorithms.shared.preparation import calibrated_request, counts_request, users_request
from fedboard.common.algorithms.shared.ratings_config import (
    LARGEST_RANK,
    RatingsConfig,
    RatingSettings,
    ReleaseShares,
)
from fedboard.common.checks import Fraction, Positive, Share, UpToOne, require, whole
from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.clipping import LINEAR_BOUND, VECTOR_BOUND
from fedboard.common.kernels.packed import packed_size

FEWEST_HEAD = 100
"""Items that are learnt at least, where the catalogue has so many."""


class Stage(StrEnum):
    """The rounds of a run, in their order, and the releases that carry their names."""

    COUNTS = "counts"
    START = "start"
    DIRECTIONS = "directions"
    ENERGIES = "energies"


STAGES = tuple(Stage)
Width: TypeAlias = Annotated[int, whole(1, LARGEST_RANK - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKConfig(RatingSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    shared: RatingsConfig = field(default_factory=lambda: RatingsConfig(count_cap=1))
    """What every algorithm on ratings has. ``count_cap = 1``: each user's row of counts has norm 1."""
    rank: Width = 24
    """Directions beside popularity, d."""
    head_fraction: UpToOne = 0.2
    """Share of the items, by private count, that are learnt: at least ``FEWEST_HEAD`` of them."""
    start_width: Width = 256
    """Public columns that the start is measured along, at most."""
    feature_exponent: Fraction = 0.6
    """Feature columns are weighed by the items' counts to this power."""
    gauge_exponent: Fraction = 0.4
    """Directions enter the third round scaled by their eigenvalue to minus this power."""
    kernel_rank: Width = 96
    """Columns by which the public kernels between items are represented."""
    count_share: Share = 0.03
    """Of each user's part in the directions, how much (of its square) counts."""
    energy_bound: Positive = 0.4
    """Bound on the norm of a user's energies; larger ones are scaled down."""
    diagonal: Positive = 1.0
    """Added to the diagonal of the items' second moments, in users."""

    @property
    def width(self) -> int:
        """Columns of the directions: popularity, then ``rank`` others."""
        return self.rank + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKShares(ReleaseShares):
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    users: Share = 0.0005
    """The private number of users."""
    counts: Share = 0.05
    """The private item counts."""
    start: Share = 0.285
    """The second moments along public columns."""
    energies: Share = 0.04
    """The energies along what was found; the directions get the rest."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a share is outside (0, 1), or nothing is left for the directions.
        """
        super(TopKShares, self).__post_init__()
        before = self.users + self.counts + self.start + self.energies
        require(before < 1.0, "shares.users + shares.counts + shares.start + shares.energies", "< 1", before)


def shares_by_release(config: TopKConfig, shares: TopKShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, by release name, in the order of the run; sums to 1."""
    rest = 1.0 - shares.users - shares.counts - shares.start - shares.energies
    return {
        "users": shares.users,
        str(Stage.COUNTS): shares.counts,
        str(Stage.START): shares.start,
        str(Stage.DIRECTIONS): rest,
        str(Stage.ENERGIES): shares.energies,
    }


def head_size(config: TopKConfig, n_items: int) -> int:
    """m': how many items are learnt."""
    return min(n_items, max(int(config.head_fraction * n_items), FEWEST_HEAD))


ENERGY_UNITS = 1 << 20
"""``energy_bound``, grid units."""
KERNELS = 6
"""Public kernels between items, see ``kernels.py``."""
_LEAST_ENERGIES = 64
"""Width of the energies at least: where they count on, so many items; what is not used costs nothing."""


def of_stage(stage: Stage, settings: TopKConfig, *, n_items: int) -> tuple[Request, ...]:
    """What a round asks for.

    Args:
        stage: which round.
        settings: public.
        n_items: size of the catalogue.
    """
    match stage:
        case Stage.COUNTS:
            return (counts_request(settings.shared, n_items=n_items), users_request(settings.shared))
        case Stage.START:
            return (_start(settings, n_items),)
        case Stage.DIRECTIONS:
            return (_directions(settings, n_items),)
        case Stage.ENERGIES:
            return (_energies(settings),)


def start_columns(settings: TopKConfig, n_items: int) -> int:
    """Columns of the start, without the constant one."""
    return min(settings.start_width, n_items)


def energies_width(settings: TopKConfig) -> int:
    """Numbers in the energies: directions, then kernels, then zeros."""
    return max(settings.width + KERNELS, _LEAST_ENERGIES)


def _start(settings: TopKConfig, n_items: int) -> Request:
    return calibrated_request(
        settings.shared,
        SumSource.QUADRATIC,
        str(Stage.START),
        width=packed_size(start_columns(settings, n_items) + 1),
        layout="symmetric",
        grid_step=1.0 / VECTOR_BOUND**2,
        l2_bound=VECTOR_BOUND**2,
        same_sign=True,
        covers="sum of v v^T, v each user's items along public columns, scaled to norm 1",
    )


def _directions(settings: TopKConfig, n_items: int) -> Request:
    return calibrated_request(
        settings.shared,
        SumSource.ITEM_LINEAR,
        str(Stage.DIRECTIONS),
        rows=n_items,
        width=settings.width + 2,
        grid_step=1.0 / LINEAR_BOUND,
        l2_bound=LINEAR_BOUND,
        same_sign=False,
        covers="sum of z v^T per item, z each user's items and v their part along the board, both of norm 1",
    )


def _energies(settings: TopKConfig) -> Request:
    return calibrated_request(
        settings.shared,
        SumSource.TOTAL,
        str(Stage.ENERGIES),
        width=energies_width(settings),
        grid_step=settings.energy_bound / ENERGY_UNITS,
        l2_bound=ENERGY_UNITS,
        same_sign=False,
        covers="energy of each user's items along the board's directions and public kernels, scaled to the bound",
    )
