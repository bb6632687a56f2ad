"""The last check before a sum: rows of many clients below one another, and which of them keep every bound
that the releases declare.

Putting the rows of many clients below one another, so that they are summed in one pass.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import (
    LINEAR_BOUND,
    QUADRATIC_BOUND,
    RESPONSE_BOUND,
    VECTOR_BOUND,
    WEIGHT_ONE,
    check_rows,
    require_shapes,
)
from fedboard.common.errors import InputError, PrivacyError


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
    rows = slice(start, stop)
    entries = slice(int(contribution.indptr[start]), int(contribution.indptr[stop]))
    return replace(
        contribution,
        indptr=contribution.indptr[start : stop + 1] - entries.start,
        items=contribution.items[entries],
        weights=_part(contribution.weights, entries),
        responses=_part(contribution.responses, entries),
        vectors=_part(contribution.vectors, rows),
        totals={name: total[rows] for name, total in contribution.totals.items()},
    )


def only_entries(contribution: Contribution, keep: BoolArray) -> Contribution:
    """The contribution without every entry that ``keep`` (bool, shape (n_entries,)) leaves out; all rows stay."""
    return replace(
        contribution,
        indptr=_indptr(keep)[contribution.indptr],
        items=contribution.items[keep],
        weights=_part(contribution.weights, keep),
        responses=_part(contribution.responses, keep),
    )


def only_rows(contribution: Contribution, keep: BoolArray) -> Contribution:
    """The contribution without every row that ``keep`` (bool, shape (n_users,)) leaves out."""
    counts = np.diff(contribution.indptr)
    return replace(
        only_entries(contribution, np.repeat(keep, counts)),
        indptr=_indptr(counts[keep]),
        vectors=_part(contribution.vectors, keep),
        totals={name: total[keep] for name, total in contribution.totals.items()},
    )


def kept_rows(contribution: Contribution, keep: BoolArray) -> Contribution:
    """The contribution with every other row emptied: the row stays, its entries go, all its numbers are zero.

    Args:
        contribution: private.
        keep: bool, shape (n_users,): the rows that count.
    """
    vectors, kept = contribution.vectors, keep[:, None]
    return replace(
        only_entries(contribution, np.repeat(keep, np.diff(contribution.indptr))),
        vectors=None if vectors is None else np.where(kept, vectors, 0),
        totals={name: np.where(kept, total, 0) for name, total in contribution.totals.items()},
    )


def _part(values: ShortArray | None, places: slice | BoolArray) -> ShortArray | None:
    return None if values is None else values[places]


def _joined_indptr(parts: Sequence[IntArray]) -> IntArray:
    return _indptr(np.concatenate([np.diff(indptr) for indptr in parts]))


def _indptr(counts: IntArray | BoolArray) -> IntArray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


def _joined(parts: Sequence[ShortArray | None]) -> ShortArray | None:
    present: list[NDArray[np.int16]] = [part for part in parts if part is not None]
    return np.concatenate(present) if len(present) == len(parts) else None


_OF_WEIGHTS = {SumSource.ITEM_COUNT, SumSource.ITEM_LINEAR, SumSource.ITEM_QUADRATIC}
_OF_RESPONSES = {SumSource.ITEM_LINEAR, SumSource.ITEM_QUADRATIC, SumSource.ITEM_PAIRS}
_OF_VECTORS = {SumSource.ITEM_LINEAR, SumSource.ITEM_QUADRATIC, SumSource.QUADRATIC}
_OF_ITEMS = _OF_WEIGHTS | {SumSource.ITEM_PAIRS}
"""Which sums need which arrays; see ``FactoredSums``."""


def _fits(contribution: Contribution, requests: Sequence[Request]) -> bool:
    """Whether the arrays have the shapes and types that these requests ask for."""
    per_item = [r.release.rows for r in requests if r.source.per_item]
    if any(rows != contribution.n_items for rows in per_item):
        return False
    of_pairs = contribution.n_items * (contribution.n_items + 1) // 2
    if any(r.release.width != of_pairs for r in requests if r.source is SumSource.ITEM_PAIRS):
        return False
    if per_item and contribution.weights is None:
        return False
    if contribution.responses is None and any(r.source in _OF_RESPONSES for r in requests):
        return False
    if any(r.source in _OF_VECTORS and not _has_rank_of(contribution, r) for r in requests):
        return False
    for request in requests:
        if request.source is SumSource.TOTAL:
            rows = contribution.totals.get(request.name)
            shape = (contribution.n_users, request.release.width)
            if rows is None or rows.dtype != np.int64 or rows.shape != shape:
                return False
    return True


def _require_fitting(contribution: Contribution, requests: Sequence[Request]) -> None:
    if not _fits(contribution, requests):
        raise InputError("a contribution does not have the arrays, shapes and types that were asked for")


def _has_rank_of(contribution: Contribution, request: Request) -> bool:
    vectors = contribution.vectors
    if vectors is None or vectors.ndim != 2 or len(vectors) != contribution.n_users:
        return False
    rank = vectors.shape[1]
    needed = rank if request.source is SumSource.ITEM_LINEAR else rank * (rank + 1) // 2
    return bool(request.release.width == needed)


_IMPLIED = {
    SumSource.ITEM_COUNT: WEIGHT_ONE,
    SumSource.ITEM_QUADRATIC: QUADRATIC_BOUND,
    SumSource.QUADRATIC: VECTOR_BOUND**2,
    SumSource.ITEM_PAIRS: RESPONSE_BOUND**2,
}
"""What the checks of weights and vectors imply for each source; the others are compared with their own bound."""


def _require_enforced(requests: Sequence[Request]) -> None:
    for request in requests:
        if request.release.l2_bound < _IMPLIED.get(request.source, 0):
            raise PrivacyError(
                f"release {request.name!r} declares the bound {request.release.l2_bound}, but its rows are only "
                f"checked against {_IMPLIED[request.source]}"
            )


def _joint_bound(requests: Sequence[Request]) -> int | None:
    """The bound on a user's whole ``w r v``, where a release declares less than its factors' bounds imply."""
    bounds = [r.release.l2_bound for r in requests if r.source is SumSource.ITEM_LINEAR]
    return min((bound for bound in bounds if bound < LINEAR_BOUND), default=None)


def rows_within_bounds(
    contribution: Contribution,
    requests: Sequence[Request],
) -> BoolArray:
    """Which rows keep every bound that these requests declare; bool, shape (n_users,).

    Args:
        contribution: private.
        requests: public.

    Raises:
        InputError: the arrays do not fit these requests, so no row can be told.
        PrivacyError: a release declares a bound that nothing here would enforce.
    """
    _require_enforced(requests)
    _require_fitting(contribution, requests)
    keep = ~check_rows(
        contribution.indptr,
        contribution.items,
        n_items=contribution.n_items,
        vectors=contribution.vectors,
        weights=contribution.weights,
        responses=contribution.responses,
        joint_bound=_joint_bound(requests),
        unit_responses=any(r.source is SumSource.ITEM_PAIRS for r in requests),
    )
    for request in requests:
        if request.source is SumSource.TOTAL:
            keep &= request.release.keeps_bound(contribution.totals[request.name])
    return keep


def rows_to_sum(contribution: Contribution, requests: Sequence[Request]) -> Contribution | None:
    """The rows that keep their bounds, with what was asked for and nothing else; None where no row can be told."""
    try:
        asked = asked_rows(contribution, requests)
        keep = rows_within_bounds(asked, requests)
    except InputError:
        return None
    return asked if keep.all() else only_rows(asked, keep)


def asked_rows(contribution: Contribution, requests: Sequence[Request]) -> Contribution:
    """Without the arrays that nobody asked for, whose shapes nobody would check.

    Args:
        contribution: from a client that need not be honest. Private.
        requests: public.

    Raises:
        InputError: the others do not have the shapes and types that were asked for, so no row can be told.
    """
    _require_fitting(contribution, requests)
    asked = _asked(contribution, requests)
    entries = {"weights": asked.weights, "responses": asked.responses}
    require_shapes(asked.indptr, asked.items, asked.vectors, entries)
    return asked


def _asked(contribution: Contribution, requests: Sequence[Request]) -> Contribution:
    sources = {request.source for request in requests}
    totals = {r.name: contribution.totals[r.name] for r in requests if r.source is SumSource.TOTAL}
    vectors = contribution.vectors if sources & _OF_VECTORS else None
    if not sources & _OF_ITEMS:
        nothing = np.zeros_like(contribution.indptr)
        return Contribution(
            n_items=0, indptr=nothing, items=contribution.items[:0], vectors=vectors, totals=totals
        )
    weights = contribution.weights if sources & _OF_WEIGHTS else None
    responses = contribution.responses if sources & _OF_RESPONSES else None
    return replace(contribution, weights=weights, responses=responses, vectors=vectors, totals=totals)
