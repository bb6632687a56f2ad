"""The sums that a round may ask for, a function each: what is added up, on which grid, with which booked bound.

No user moves a sum by more than its bound, whatever they hold: devices clip to it, and whoever adds up checks it
again, in integers (``fedboard.common.contribution_bounding.clipping.check_rows``).
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol

from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.clipping import (
    LINEAR_BOUND,
    QUADRATIC_BOUND,
    VECTOR_BOUND,
    WEIGHT_ONE,
)
from fedboard.common.errors import PrivacyError
from fedboard.common.kernels.packed import packed_size
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease


class Noised(Protocol):
    """What a release takes from a run. Public."""

    @property
    def adjacency(self) -> Adjacency:
        """What neighbouring means."""
        ...

    @property
    def noise_multipliers(self) -> Mapping[str, float]:
        """Release name -> z, as calibration found it."""
        ...


def calibrated_request(run: Noised, source: SumSource, name: str, **release: Any) -> Request:
    """Ask for a sum through a release with the run's adjacency and the noise that calibration gave to its name.

    Args:
        run: public.
        source: how its exact sum is computed.
        name: of the release.
        release: the other fields of ``GaussianRelease``; one number in one row unless they say otherwise.

    Raises:
        PrivacyError: calibration knows no such release.
    """
    if name not in run.noise_multipliers:
        raise PrivacyError(f"no noise multiplier for release {name!r}: calibrate the run's budget first")
    shape = {"rows": 1, "width": 1, "layout": "vector", "same_sign": False, **release}
    return Request(
        source=source,
        release=GaussianRelease(
            name=name, adjacency=run.adjacency, noise_multiplier=run.noise_multipliers[name], **shape
        ),
    )


def user_totals(
    run: Noised,
    name: str,
    *,
    width: int = 1,
    bound: float = 1.0,
    steps: int,
    same_sign: bool = False,
    covers: str,
) -> Request:
    """``sum_j t_j``: of each user a row of ``width`` numbers, of L2 norm at most ``bound``.

    Args:
        run: public.
        name: of the release, and of the rows in ``Contribution.totals``.
        width: numbers in a row.
        bound: on the norm of a row, in its own unit.
        steps: grid units that stand for it.
        same_sign: whether no number of a row is below 0.
        covers: one phrase for ledger and certificate, as of all that follow.
    """
    return calibrated_request(
        run,
        SumSource.TOTAL,
        name,
        width=width,
        grid_step=bound / steps,
        l2_bound=steps,
        same_sign=same_sign,
        covers=covers,
    )


def item_counts(run: Noised, name: str, *, n_items: int, unit: float = 1.0, covers: str) -> Request:
    """``c_i = sum_j w_ij`` for weights >= 0 whose squares sum to at most ``unit^2`` for each user."""
    return calibrated_request(
        run,
        SumSource.ITEM_COUNT,
        name,
        rows=n_items,
        grid_step=unit / WEIGHT_ONE,
        l2_bound=WEIGHT_ONE,
        same_sign=True,
        covers=covers,
    )


def item_vectors(
    run: Noised,
    name: str,
    *,
    n_items: int,
    width: int = 1,
    largest: float,
    clip_norm: float | None = None,
    covers: str,
) -> Request:
    """``g_i = sum_j w_ij r_ij v_j``: a vector per item.

    Args:
        run: public.
        name: of the release.
        n_items: size of the catalogue.
        width: length of v.
        largest: largest ``|r| |v|``, which the grid expresses.
        clip_norm: bound on a user's whole part, over all items; None for ``largest``.
        covers: one phrase for ledger and certificate.
    """
    step = largest / LINEAR_BOUND
    bound = LINEAR_BOUND if clip_norm is None else min(math.floor(clip_norm / step), LINEAR_BOUND)
    return calibrated_request(
        run,
        SumSource.ITEM_LINEAR,
        name,
        rows=n_items,
        width=width,
        grid_step=step,
        l2_bound=bound,
        covers=covers,
    )


def item_matrices(
    run: Noised, name: str, *, n_items: int, size: int, vector_bound: float, covers: str
) -> Request:
    """``A_i = sum_j w_ij v_j v_j^T``: a symmetric matrix per item, for vectors of norm at most ``vector_bound``."""
    return calibrated_request(
        run,
        SumSource.ITEM_QUADRATIC,
        name,
        rows=n_items,
        width=packed_size(size),
        layout="symmetric",
        grid_step=vector_bound**2 / QUADRATIC_BOUND,
        l2_bound=QUADRATIC_BOUND,
        same_sign=True,
        covers=covers,
    )


def user_matrix(run: Noised, name: str, *, size: int, vector_bound: float, covers: str) -> Request:
    """``M = sum_j v_j v_j^T``: one symmetric matrix, for vectors of norm at most ``vector_bound``."""
    return calibrated_request(
        run,
        SumSource.QUADRATIC,
        name,
        width=packed_size(size),
        layout="symmetric",
        grid_step=vector_bound**2 / VECTOR_BOUND**2,
        l2_bound=VECTOR_BOUND**2,
        same_sign=True,
        covers=covers,
    )


def real_stddev(request: Request) -> float:
    """Noise deviation of a release in real units."""
    return request.release.noise_stddev * request.release.grid_step
