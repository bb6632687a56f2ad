"""What a question collects: one row of whole numbers >= 0 a user, of a sum that the aggregator checks."""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.contribution import Request, SumSource
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.pure import keeps_l1_bound
from fedboard.common.questions.subject import ROW_BOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The shape of the rows and the bound that is enforced on them; how their sum leaves is up to a release."""

    rows: ClassVar[int] = 1
    l2_bound: ClassVar[int] = ROW_BOUND
    participation: ClassVar[None] = None

    name: str
    width: int
    """Numbers in a row."""

    def keeps_bound(self, rows: IntArray) -> BoolArray:
        """Which rows have no negative number and a sum of at most ``ROW_BOUND``, which bounds their L2 norm too."""
        kept: BoolArray = keeps_l1_bound(rows, ROW_BOUND) & np.all(rows >= 0, axis=1)
        return kept

    def request(self) -> Request:
        """What the runtime asks the users."""
        # Runtimes and protocols read of a release its shape and what it enforces, not its noise.
        return Request(source=SumSource.TOTAL, release=cast(GaussianRelease, self))


def gaussian_total(
    name: str, *, width: int, bound: float, adjacency: Adjacency, noise_multiplier: float, covers: str
) -> GaussianRelease:
    """The release through which a sum of such rows leaves with Gaussian noise.

    Args:
        name: of the release.
        width: numbers in a row.
        bound: what a row of sum ``ROW_BOUND`` weighs.
        adjacency: what neighbouring means.
        noise_multiplier: z.
        covers: one phrase for ledger and certificate.

    Raises:
        PrivacyError: it would be no privacy at all.
    """
    return GaussianRelease(
        name=name,
        rows=1,
        width=width,
        layout="vector",
        grid_step=bound / ROW_BOUND,
        l2_bound=ROW_BOUND,
        same_sign=True,
        adjacency=adjacency,
        noise_multiplier=noise_multiplier,
        covers=covers,
    )


def whole_rows(weights: IntArray, *, n_users: int, width: int) -> IntArray:
    """Check the bound on the device, after rounding.

    Args:
        weights: int64, ``n_users * width`` numbers. Private.
        n_users: number of rows.
        width: numbers in a row.
    """
    rows = weights.reshape(n_users, width)
    excess = np.maximum(rows.sum(axis=1) - ROW_BOUND, 0)
    if excess.any():  # rounding of a sum: a unit
        rows[np.arange(n_users), rows.argmax(axis=1)] -= excess
    return rows
