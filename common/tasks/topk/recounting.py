"""Counting on: what the rounds that are left do where nothing but popularity can be learnt.

What is asked, and so the ledger and the course of a run, is the same whatever was released. So devices put counts
into the sums that the plan has, z the row of counts of a user, of norm at most 1:

* start: v v^T with v = (z of the items that lead so far, 1) / sqrt 2, norm at most 1; beside the last coordinate
  stands z / 2, with noise that is smaller by sqrt 2 than on the diagonal: half the precision of counts alone;
* directions: z v^T with v = (0, ..., 0, 1): a release of z, whole;
* energies: nothing.
"""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import AnyArray, Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.kernels.shared.packed import unpack_symmetric
from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, clip_vectors, quantise_weights
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.shared.preparation import capped_counts
from fedboard.common.tasks.shared.releases import real_stddev
from fedboard.common.tasks.topk.config import Stage, TopKConfig
from fedboard.common.tasks.topk.local import times
from fedboard.common.tasks.topk.releases import KERNELS, start_columns


def leaders(noisy: FloatArray, settings: TopKConfig) -> AnyArray:
    """The columns of the start: one for each item that leads so far; float32, shape (n_items, width)."""
    width = start_columns(settings, noisy.size)
    columns = np.zeros((noisy.size, width), dtype=np.float32)
    columns[np.argsort(-noisy, kind="stable")[:width], np.arange(width)] = 1.0
    return columns


def recounted(cohort: Cohort, board: Board, stage: Stage, settings: TopKConfig) -> Contribution:
    """Counts in the form of a round's sums; zeros for the energies. Private."""
    entries = capped_counts(cohort, settings.shared.count_cap)
    none = np.zeros(cohort.n_users + 1, dtype=np.int64)
    if stage is Stage.START:
        along = times(cohort, entries, board.arrays["item_factors"])
        vectors = np.column_stack([along, np.ones(cohort.n_users)]) / np.sqrt(2.0)
        return Contribution(
            n_items=cohort.n_items, indptr=none, items=cohort.items[:0], vectors=clip_vectors(vectors, 1.0)
        )
    if stage is Stage.ENERGIES:
        rows = np.zeros((cohort.n_users, settings.width + KERNELS), dtype=np.int64)
        return Contribution(
            n_items=cohort.n_items, indptr=none, items=cohort.items[:0], totals={str(stage): rows}
        )
    last = np.zeros((cohort.n_users, settings.width + 1), dtype=np.int16)
    last[:, -1] = VECTOR_BOUND
    return Contribution(
        n_items=cohort.n_items,
        indptr=cohort.indptr,
        items=cohort.items,
        weights=quantise_weights(entries),
        responses=np.full(cohort.n_ratings, RESPONSE_BOUND, dtype=np.int16),
        vectors=last,
    )


def counts_so_far(
    board: Board, released: ReleasedSums, request: Request, stage: Stage, settings: TopKConfig
) -> tuple[FloatArray, FloatArray]:
    """Noisy counts and their variances, both float64, shape (n_items,), each round weighed by its precision."""
    noisy = np.asarray(board.arrays["noisy_counts"], dtype=np.float64)
    variance = np.asarray(board.arrays["count_variance"], dtype=np.float64)
    unit = np.sqrt(settings.shared.count_cap)  # a row of counts of norm 1, in users
    stddev = unit * real_stddev(request) * released.noise_ratio
    again, precision = np.zeros(noisy.size), np.zeros(noisy.size)
    sums = released.array(request.name)  # also of the energies: what leaves the server is always the same
    if stage is Stage.START:
        columns = np.asarray(board.arrays["item_factors"])
        items, places = np.nonzero(columns)
        whole = unpack_symmetric(sums, rank=columns.shape[1] + 1)[0]
        again[items] = 2.0 * unit * whole[places, -1]
        precision[items] = 1.0 / (2.0 * stddev**2)
    elif stage is Stage.DIRECTIONS:
        again = unit * sums[:, settings.width]
        precision[:] = 1.0 / stddev**2
    together = 1.0 / variance + precision
    return (noisy / variance + again * precision) / together, 1.0 / together
