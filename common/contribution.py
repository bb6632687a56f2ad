"""What one client gives to a round: integers on the public grid, one row a user, keyed by item.

Three row-wise ingredients cover every release of this package:

* ``vectors`` v_j and ``weights`` w_ij give per-item sums  sum_j w_ij v_j v_j^T,
* with ``responses`` r_ij they give  sum_j w_ij r_ij v_j,
* ``weights`` alone give weighted counts  sum_j w_ij,
* ``responses`` alone give pair sums  sum_j r_ij r_kj,
* ``totals`` are plain rows that are summed over users (a private mean, say).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray, ShortArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.gaussian import GaussianRelease

Part = TypeVar("Part")


class SumSource(StrEnum):
    """How a release's exact sum is computed from contributions."""

    TOTAL = "total"
    """sum_j totals[name]_j, one row."""
    ITEM_COUNT = "item-count"
    """sum_j w_ij, one number per item."""
    ITEM_LINEAR = "item-linear"
    """sum_j w_ij r_ij v_j, ``rank`` numbers per item."""
    ITEM_QUADRATIC = "item-quadratic"
    """sum_j w_ij v_j v_j^T, rank (rank + 1) / 2 numbers per item."""
    QUADRATIC = "quadratic"
    """sum_j v_j v_j^T, one packed symmetric matrix."""
    ITEM_PAIRS = "item-pairs"
    """sum_j r_j r_j^T over pairs of items, one packed symmetric matrix of n_items (n_items + 1) / 2 numbers."""

    @property
    def per_item(self) -> bool:
        """Whether the release has one row per item."""
        return self in (SumSource.ITEM_COUNT, SumSource.ITEM_LINEAR, SumSource.ITEM_QUADRATIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question of a round: which sum, and the release through which alone it may leave the server."""

    source: SumSource
    """Which sum of what clients give."""
    release: GaussianRelease
    """Its name, grid, bound and noise."""

    @property
    def name(self) -> str:
        """The release's name."""
        return self.release.name


def numbers_of(requests: Iterable[Request]) -> int:
    """How many numbers the sums of these requests have in all. Public."""
    return sum(request.release.rows * request.release.width for request in requests)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Contribution:
    """The rows of one client (a phone: one row; a cohort: many) for the requests of one round.

    Private until it is summed and noised. Whoever sums it checks the bounds first
    (``fedboard.common.contribution_bounding.clipping.check_rows``).
    """

    n_items: int
    """Size of the public catalogue."""
    indptr: IntArray
    """int64, shape (n_users + 1,)."""
    items: IndexArray
    """int32, shape (n_entries,): ascending item numbers within a row."""
    weights: ShortArray | None = None
    """int16, shape (n_entries,): w_ij on the grid 2^-14; sum of squares of a row <= 2^28."""
    vectors: ShortArray | None = None
    """int16, shape (n_users, rank): v_j on the grid clip_norm 2^-12; norm of a row <= 2^12."""
    responses: ShortArray | None = None
    """int16, shape (n_entries,): r_ij on the grid label_bound 2^-12; magnitude <= 2^12."""
    totals: Mapping[str, IntArray] = field(default_factory=dict)
    """By release name: int64, shape (n_users, width), norm of a row <= the release's ``l2_bound``."""

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return self.indptr.size - 1


def of_totals(totals: Mapping[str, IntArray], *, n_items: int, n_users: int) -> Contribution:
    """Rows that are of no items: one total a user for each release.

    Args:
        totals: by release name; int64, shape (n_users, width). Private.
        n_items: size of the public catalogue.
        n_users: number of rows.
    """
    return Contribution(
        n_items=n_items,
        indptr=np.zeros(n_users + 1, dtype=np.int64),
        items=np.empty(0, dtype=np.int32),
        totals=totals,
    )


def required(value: Part | None, name: str) -> Part:
    """A part of a contribution that requests ask for.

    Args:
        value: the part; None where the contribution has none.
        name: of the part.

    Raises:
        InputError: it has none.
    """
    if value is None:
        raise InputError(f"these requests need {name}, and the contribution has none")
    return value
