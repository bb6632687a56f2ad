"""The releases of top-k lists: what each sum covers, its grid, its sensitivity. Data-free.

Every contribution is normalised on the device, so every bound is 1, reached by nearly everybody, and there is no
clipping norm to choose. What is asked does not depend on what was released: where there is too little to learn more
than popularity, devices put counts into the same sums (``recounting.py``).
"""

from fedboard.common.contribution import Request, SumSource
from fedboard.common.kernels.shared.packed import packed_size
from fedboard.common.per_user.clipping import LINEAR_BOUND, VECTOR_BOUND
from fedboard.common.tasks.shared.releases import (
    calibrated_request,
    counts_request,
    users_request,
)
from fedboard.common.tasks.topk.config import Stage, TopKConfig

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
