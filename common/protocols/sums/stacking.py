"""Putting the rows of many clients below one another, so that they are summed in one pass."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution


def joined(parts: Sequence[Contribution]) -> Contribution:
    """One contribution with the rows of all parts, in their order.

    Args:
        parts: at least one; of one catalogue, with the same arrays. Private.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    return Contribution(
        n_items=first.n_items,
        indptr=_joined_indptr([part.indptr for part in parts]),
        items=np.concatenate([part.items for part in parts]),
        weights=_joined([part.weights for part in parts]),
        vectors=_joined([part.vectors for part in parts]),
        responses=_joined([part.responses for part in parts]),
        totals={name: np.concatenate([part.totals[name] for part in parts]) for name in first.totals},
    )


def row_range(contribution: Contribution, start: int, stop: int) -> Contribution:
    """Rows ``start:stop`` of the contribution, without copying."""
    first, last = int(contribution.indptr[start]), int(contribution.indptr[stop])
    weights, responses, vectors = contribution.weights, contribution.responses, contribution.vectors
    return replace(
        contribution,
        indptr=contribution.indptr[start : stop + 1] - first,
        items=contribution.items[first:last],
        weights=None if weights is None else weights[first:last],
        responses=None if responses is None else responses[first:last],
        vectors=None if vectors is None else vectors[start:stop],
        totals={name: rows[start:stop] for name, rows in contribution.totals.items()},
    )


def only_rows(contribution: Contribution, keep: BoolArray) -> Contribution:
    """The contribution without every row that ``keep`` (bool, shape (n_users,)) leaves out."""
    entries = np.repeat(keep, np.diff(contribution.indptr))
    counts = np.diff(contribution.indptr)[keep]
    weights, responses, vectors = contribution.weights, contribution.responses, contribution.vectors
    return replace(
        contribution,
        indptr=_indptr(counts),
        items=contribution.items[entries],
        weights=None if weights is None else weights[entries],
        responses=None if responses is None else responses[entries],
        vectors=None if vectors is None else vectors[keep],
        totals={name: rows[keep] for name, rows in contribution.totals.items()},
    )


def _joined_indptr(parts: Sequence[IntArray]) -> IntArray:
    return _indptr(np.concatenate([np.diff(indptr) for indptr in parts]))


def _indptr(counts: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


def _joined(parts: Sequence[ShortArray | None]) -> ShortArray | None:
    present: list[NDArray[np.int16]] = [part for part in parts if part is not None]
    return np.concatenate(present) if len(present) == len(parts) else None
