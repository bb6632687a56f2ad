"""Settings of top-k lists, their releases, and the device's part: what a user gives to each round.

Every contribution is normalised on the device, so every bound is 1, reached by nearly everybody, and there is no
clipping norm to choose. What is asked does not depend on what was released: where there is too little to learn more
than popularity, devices put counts into the same sums (``server.py``).

x_j in {0, 1}^m' are a user's items among those that are learnt, k_j their number, z_j = x_j / sqrt(k_j). Rows are
computed one by one (sparse times dense), so that a user's integers do not depend on who is computed with her.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from fedboard.common.algorithms.shared.preparation import (
    answer,
    capped_counts,
    counts_request,
    users_request,
)
from fedboard.common.algorithms.shared.ratings_config import (
    LARGEST_RANK,
    RatingsConfig,
    RatingSettings,
    ReleaseShares,
)
from fedboard.common.algorithms.shared.sums import item_vectors, user_matrix, user_totals
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.checks import Fraction, Positive, Share, UpToOne, whole
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.clipping import RESPONSE_BOUND, clip_vectors, quantise_weights
from fedboard.common.errors import PrivacyError

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

    BEFORE: ClassVar = ("users", "counts", "start", "energies")
    users: Share = 0.0005
    """The private number of users."""
    counts: Share = 0.05
    """The private item counts."""
    start: Share = 0.285
    """The second moments along public columns."""
    energies: Share = 0.04
    """The energies along what was found; the directions get the rest."""


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
    shared = settings.shared
    match stage:
        case Stage.COUNTS:
            return (counts_request(shared, n_items=n_items), users_request(shared))
        case Stage.START:
            size = start_columns(settings, n_items) + 1
            covers = "sum of v v^T, v each user's items along public columns, scaled to norm 1"
            return (user_matrix(shared, str(stage), size=size, vector_bound=1.0, covers=covers),)
        case Stage.DIRECTIONS:
            request = item_vectors(
                shared,
                str(stage),
                n_items=n_items,
                width=settings.width + 2,
                largest=1.0,
                covers="sum of z v^T per item, z each user's items and v their part along the board, "
                "both of norm 1",
            )
        case Stage.ENERGIES:
            request = user_totals(
                shared,
                str(stage),
                width=energies_width(settings),
                bound=settings.energy_bound,
                steps=ENERGY_UNITS,
                covers="energy of each user's items along the board's directions and public kernels, "
                "scaled to the bound",
            )
    return (request,)


def start_columns(settings: TopKConfig, n_items: int) -> int:
    """Columns of the start, without the constant one."""
    return min(settings.start_width, n_items)


def energies_width(settings: TopKConfig) -> int:
    """Numbers in the energies: directions, then kernels, then zeros."""
    return max(settings.width + KERNELS, _LEAST_ENERGIES)


CONSTANT = 0.3
"""beta: last coordinate of a user's vector in the start; it measures how much of the sum is diagonal."""
OWN_SHARE = 0.2
"""gamma: the last coordinate in the directions is gamma / sqrt(k_j), which measures the diagonal item by item."""


def learnt_part(cohort: Cohort, board: Board) -> Cohort:
    """The same users with their learnt items alone."""
    return cohort.where(np.asarray(board.arrays["learnt"])[cohort.items] != 0)


def unit_rows(cohort: Cohort) -> FloatArray:
    """Each entry's z, float64, shape (n_ratings,): squares of a user's sum to 1, or she has none. Private."""
    own: FloatArray = 1.0 / np.sqrt(np.maximum(cohort.counts, 1).astype(np.float64))
    return np.repeat(own, cohort.counts)


def times(cohort: Cohort, entries: FloatArray, matrix: FloatArray) -> FloatArray:
    """Row j: sum of a user's entries times her items' rows of a public matrix; float64, (n_users, width)."""
    public = np.asarray(matrix, dtype=np.float64)
    by_count = np.argsort(-cohort.counts, kind="stable")
    rated, first = cohort.counts[by_count], (cohort.indptr[:-1] - cohort.indptr[0])[by_count]
    sums = np.zeros((cohort.n_users, public.shape[1]))
    for place in range(int(rated[0]) if rated.size else 0):
        # Everybody's entry at this place: users are in the order of how many they have, so its owners come first.
        here = first[: np.searchsorted(-rated, -place)] + place
        sums[: here.size] += entries[here, None] * public[cohort.items[here]]
    found = np.empty_like(sums)
    found[by_count] = sums
    return found


def counted(cohort: Cohort, settings: TopKConfig) -> Contribution:
    """Each user's row of counts, scaled to at most sqrt(count_cap)."""
    return answer(
        cohort,
        weights=quantise_weights(capped_counts(cohort, settings.shared.count_cap)),
    )


def started(cohort: Cohort, board: Board) -> Contribution:
    """A user's v = (Q^T z, beta), scaled to norm 1; zeros for whoever has fewer than two learnt items."""
    own = learnt_part(cohort, board)
    along = times(own, unit_rows(own), board.arrays["item_factors"])
    vectors = np.column_stack([along, np.full(own.n_users, CONSTANT)])
    return Contribution(
        n_items=own.n_items,
        indptr=np.zeros(own.n_users + 1, dtype=np.int64),
        items=own.items[:0],
        vectors=clip_vectors(_unit(vectors, own), 1.0),
    )


def directed(cohort: Cohort, board: Board, settings: TopKConfig) -> Contribution:
    """A user's z v^T.

    v = ((U S)^T z, gamma / sqrt(k)) scaled to norm sqrt(1 - count_share), or zeros if she has no two items;
    then sqrt(count_share), which counts.
    """
    learnt = np.asarray(board.arrays["learnt"])[cohort.items] != 0
    own, weights = cohort.where(learnt), np.zeros(cohort.n_ratings)
    entries = unit_rows(own)
    weights[learnt] = entries
    last = OWN_SHARE / np.sqrt(np.maximum(own.counts, 1).astype(np.float64))
    vectors = _unit(np.column_stack([times(own, entries, board.arrays["item_factors"]), last]), own)
    share = settings.count_share
    vectors = np.column_stack([np.sqrt(1.0 - share) * vectors, np.sqrt(share) * (own.counts > 0)])
    return answer(
        cohort,
        weights=quantise_weights(weights),
        responses=np.where(learnt, RESPONSE_BOUND, 0).astype(np.int16),
        vectors=clip_vectors(vectors, 1.0),
    )


def energies(cohort: Cohort, board: Board, settings: TopKConfig) -> Contribution:
    """((E^T z)^2 - (E^2)^T z^2, z^T K_q z off the diagonal), scaled to the bound where it is longer."""
    own, width = learnt_part(cohort, board), settings.width
    entries, factors = unit_rows(own), np.asarray(board.arrays["item_factors"], dtype=np.float64)
    none = np.zeros((KERNELS, 0, 0))
    forms = np.asarray(board.arrays.get("kernel_forms", none), dtype=np.float64)
    along = times(own, entries, factors)
    columns, parts = factors[:, width:], along[:, width:]
    quadratic = [_row_sums(_product(parts, form) * parts) for form in forms]
    squares = np.column_stack(
        [factors[:, :width] ** 2, *(_row_sums((columns @ form) * columns) for form in forms)]
    )
    values = np.column_stack([along[:, :width] ** 2, *quadratic]) - times(own, entries**2, squares)
    values[:, 0] /= 2.0  # popularity has most of it; the server doubles it
    values[own.counts < 2] = 0.0
    values = np.pad(values, ((0, 0), (0, energies_width(settings) - values.shape[1])))
    return Contribution(
        n_items=own.n_items,
        indptr=np.zeros(own.n_users + 1, dtype=np.int64),
        items=own.items[:0],
        totals={str(Stage.ENERGIES): bounded(values, settings.energy_bound)},
    )


def bounded(values: FloatArray, bound: float) -> IntArray:
    """Rows of norm at most ``bound`` on the grid, toward zero: ``ENERGY_UNITS`` grid units stand for the bound.

    Args:
        values: float64, shape (n_users, width). Private.
        bound: > 0. Public.

    Returns:
        int64, of the same shape; squares of a row sum to at most ``ENERGY_UNITS ** 2`` in exact integers.

    Raises:
        PrivacyError: a row is not finite, or longer than its bound on the grid; which one is not said.
    """
    norms = np.sqrt(np.einsum("nd,nd->n", values, values))
    if not np.isfinite(norms).all():
        raise PrivacyError("numbers that leave the device must be finite; NaN or infinity was refused")
    scale = ENERGY_UNITS / np.maximum(norms, bound)
    rows: IntArray = np.trunc(values * scale[:, None]).astype(np.int64)
    if (np.einsum("nd,nd->n", rows, rows) > ENERGY_UNITS**2).any():
        raise PrivacyError("a row of energies exceeds its bound on the grid")
    return rows


def _unit(vectors: FloatArray, own: Cohort) -> FloatArray:
    """Rows of norm 1; zeros for whoever has no pair of items."""
    norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    return vectors * np.where(own.counts > 1, 1.0 / np.maximum(norms, 1e-12), 0.0)[:, None]


def _product(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Row by row, unlike BLAS, whose last bits depend on how many rows there are."""
    found = np.zeros((rows.shape[0], matrix.shape[1]))
    for column, along in zip(rows.T, matrix, strict=True):
        found += column[:, None] * along
    return found


def _row_sums(values: FloatArray) -> FloatArray:
    found: FloatArray = np.einsum("nd->n", values)
    return found
