"""Counting on: what the rounds that are left do where nothing but popularity can be learnt.

What is asked, and so the ledger and the course of a run, is the same whatever was released. So devices put counts
into the sums that the plan has, z the row of counts of a user among the items that still matter, of norm 1:

* start: v v^T with v = (z among the items that lead so far, 1) / sqrt 2, of norm 1; beside the last coordinate
  stands z / 2, with noise that is smaller by sqrt 2 than on the diagonal: half the precision of counts alone;
* directions: z v^T with v = (0, ..., 0, 1): a release of z, whole, among the items that may yet lead;
* energies: z among the items that lead by then, as many as there are energies, at the bound.

A list shows few items. The fewer are still counted, the fewer share a person's norm, and the more each of hers
counts: later rounds tell leading items apart better than the same budget spent on all items at once.
"""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import AnyArray, Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.kernels.shared.packed import unpack_symmetric
from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, clip_vectors, quantise_weights
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.shared.releases import real_stddev
from fedboard.common.tasks.topk.config import Stage, TopKConfig
from fedboard.common.tasks.topk.local import bounded, learnt_part, times, unit_rows
from fedboard.common.tasks.topk.popularity import Counts, counts_of, first, joined
from fedboard.common.tasks.topk.releases import energies_width, start_columns


def leaders(noisy: FloatArray, settings: TopKConfig) -> AnyArray:
    """The columns of the start: one for each item that leads so far; float32, shape (n_items, width)."""
    width = start_columns(settings, noisy.size)
    columns = np.zeros((noisy.size, width), dtype=np.float32)
    columns[first(noisy, width), np.arange(width)] = 1.0
    return columns


def recounted(cohort: Cohort, board: Board, stage: Stage, settings: TopKConfig) -> Contribution:
    """Counts in the form of a round's sums. Private."""
    none = np.zeros(cohort.n_users + 1, dtype=np.int64)
    match stage:
        case Stage.START:
            columns = np.asarray(board.arrays["item_factors"])
            own = cohort.where(np.any(columns != 0, axis=1)[cohort.items])
            given = np.column_stack([times(own, unit_rows(own), columns), own.counts > 0]) / np.sqrt(2.0)
            vectors = clip_vectors(given, 1.0)
            return Contribution(n_items=cohort.n_items, indptr=none, items=cohort.items[:0], vectors=vectors)
        case Stage.ENERGIES:
            width = energies_width(settings)
            places = first(np.asarray(board.arrays["item_counts"]), width)
            columns = np.zeros((cohort.n_items, width))
            columns[places, np.arange(places.size)] = settings.energy_bound
            own = cohort.where(np.isin(cohort.items, places))
            rows = bounded(times(own, unit_rows(own), columns), settings.energy_bound)
            totals = {str(stage): rows}
            return Contribution(n_items=cohort.n_items, indptr=none, items=cohort.items[:0], totals=totals)
        case _:
            return _counted_whole(cohort, board, settings)


def _counted_whole(cohort: Cohort, board: Board, settings: TopKConfig) -> Contribution:
    learnt = np.asarray(board.arrays["learnt"])[cohort.items] != 0
    weights = np.zeros(cohort.n_ratings)
    weights[learnt] = unit_rows(learnt_part(cohort, board))
    last = np.zeros((cohort.n_users, settings.width + 2), dtype=np.int16)
    last[:, -1] = VECTOR_BOUND
    return Contribution(
        n_items=cohort.n_items,
        indptr=cohort.indptr,
        items=cohort.items,
        weights=quantise_weights(weights),
        responses=np.full(cohort.n_ratings, RESPONSE_BOUND, dtype=np.int16),
        vectors=last,
    )


def counts_so_far(
    board: Board, released: ReleasedSums, request: Request, stage: Stage, settings: TopKConfig
) -> Counts:
    """The counts after a round that counted on."""
    n_items = board.catalogue.n_items
    stddev = real_stddev(request) * released.noise_ratio
    again, counted = np.zeros(n_items), np.zeros(n_items, dtype=np.bool_)
    sums = released.array(request.name)
    if stage is Stage.START:
        columns = np.asarray(board.arrays["item_factors"])
        items, places = np.nonzero(columns)
        again[items] = 2.0 * unpack_symmetric(sums, rank=columns.shape[1] + 1)[0][places, -1]
        counted[items] = True
        stddev *= np.sqrt(2.0)
    elif stage is Stage.DIRECTIONS:
        counted = np.asarray(board.arrays["learnt"]) != 0
        again[counted] = sums[counted, settings.width + 1]
    else:
        leading = first(np.asarray(board.arrays["item_counts"]), energies_width(settings))
        again[leading] = sums[0, : leading.size] / settings.energy_bound
        counted[leading] = True
        stddev /= settings.energy_bound
    return joined(counts_of(board), again, counted, stddev)
