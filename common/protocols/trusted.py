"""A trusted aggregator: it sees each contribution for the time of a round, sums exactly, and adds the noise.

Two wire forms. *Factored* sends a user's rows as they are, rank + 4 |Omega_j| numbers, and the aggregator
forms the products. *Dense* sends the sums of a whole cohort; it is smaller when a cohort hosts many users.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.contribution import Contribution, Request, Source
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.clipping import (
    LINEAR_BOUND,
    QUADRATIC_BOUND,
    RESPONSE_BOUND,
    VECTOR_BOUND,
    WEIGHT_ONE,
    check_rows,
)
from fedboard.common.protocol import ExactSums, NoiseAt, Trust
from fedboard.common.protocols.joining import joined, only_rows
from fedboard.common.protocols.sums import DenseSums, FactoredSums, whole_sums


@dataclass(frozen=True, slots=True)
class FactoredMessage:
    """The rows of one client, as they are."""

    contribution: Contribution


@dataclass(frozen=True, slots=True)
class DenseMessage:
    """The exact sums of a cohort; its rows can no longer be checked, so its host is trusted with the bounds."""

    sums: Mapping[str, IntArray]


TrustedMessage = FactoredMessage | DenseMessage

_OF_WEIGHTS = {Source.ITEM_COUNT, Source.ITEM_LINEAR, Source.ITEM_QUADRATIC}
_OF_RESPONSES = {Source.ITEM_LINEAR, Source.ITEM_QUADRATIC, Source.ITEM_PAIRS}
_OF_VECTORS = {Source.ITEM_LINEAR, Source.ITEM_QUADRATIC, Source.QUADRATIC}
_OF_ITEMS = _OF_WEIGHTS | {Source.ITEM_PAIRS}
"""Which sums need which arrays; see ``FactoredSums``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The protocol. ``form`` picks the wire form; ``backend`` the kernels, never the result."""

    NAME: ClassVar[str] = "trusted"
    FORMS: ClassVar[tuple[str, ...]] = ("factored", "dense")
    form: str = "factored"
    backend: str = "numpy"

    def __post_init__(self) -> None:
        """Check the form.

        Raises:
            InputError: an unknown form.
        """
        if self.form not in self.FORMS:
            raise InputError(f"the trusted protocol's form is 'factored' or 'dense', got {self.form!r}")

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def noise_at(self) -> NoiseAt:
        """The aggregator draws the noise."""
        return NoiseAt.SERVER

    @property
    def trust(self) -> Trust:
        """Who sees what."""
        seen = (
            "each user's clipped rows" if self.form == "factored" else "the sum of each cohort's clipped rows"
        )
        bounded = (
            "moves the sum by at most one honest bound: the aggregator checks every row and drops what breaks it"
            if self.form == "factored"
            else "is bounded by its cohort's host, whose sums the aggregator cannot check"
        )
        return Trust(
            sees=f"The aggregator sees {seen} for the time of a round; it publishes noised sums only.",
            privacy_relies_on="The aggregator must add the noise, keep the ledger and forget the rows.",
            malicious_client=f"A malicious client {bounded}.",
        )

    def encode(self, contribution: Contribution, requests: Sequence[Request]) -> TrustedMessage:
        """Check every bound on the client, then pack.

        Raises:
            PrivacyError: a row breaks its bound.
        """
        if not bool(np.all(rows_within_bounds(contribution, requests))):
            raise PrivacyError("a contribution breaks its declared bound; nothing was sent")
        if self.form == "factored":
            return FactoredMessage(contribution)
        whole = FactoredSums.of(contribution, backend=self.backend)
        return DenseMessage(whole_sums(whole, requests))

    def combine(self, messages: Iterable[TrustedMessage], requests: Sequence[Request]) -> ExactSums:
        """Drop rows that break a bound and messages that do not fit, then sum exactly, in any order.

        Messages are taken one at a time; the rows of all of them are held until the sums are formed.
        """
        parts: list[Contribution] = []
        dense: DenseSums | None = None
        rejected = 0
        for message in messages:
            if isinstance(message, DenseMessage):
                before = () if dense is None else (dense.sums,)
                dense = DenseSums.total((*before, message.sums), requests)
                continue
            kept = _kept(message.contribution, requests)
            rejected += message.contribution.n_users - (0 if kept is None else kept.n_users)
            if kept is not None and kept.n_users:
                parts.append(kept)
        if not parts:
            return replace(dense or DenseSums.total((), requests), rejected_rows=rejected)
        factored = FactoredSums.of(joined(parts), backend=self.backend)
        if dense is None:
            return replace(factored, rejected_rows=rejected)
        return replace(DenseSums.total_of((dense, factored), requests), rejected_rows=rejected)

    def message_bytes(self, message: TrustedMessage) -> int:
        """Payload bytes; framing not counted."""
        if isinstance(message, DenseMessage):
            return sum(value.nbytes for value in message.sums.values())
        return int(np.sum(factored_bytes(message.contribution)))


def _kept(contribution: Contribution, requests: Sequence[Request]) -> Contribution | None:
    """The rows that keep their bounds, with what was asked for and nothing else; None where no row can be told."""
    try:
        keep = rows_within_bounds(contribution, requests)
    except InputError:
        return None
    return _asked(contribution if keep.all() else only_rows(contribution, keep), requests)


def _asked(contribution: Contribution, requests: Sequence[Request]) -> Contribution:
    """Without the arrays that nobody asked for, whose shapes nobody has checked."""
    sources = {request.source for request in requests}
    totals = {r.name: contribution.totals[r.name] for r in requests if r.source is Source.TOTAL}
    vectors = contribution.vectors if sources & _OF_VECTORS else None
    if not sources & _OF_ITEMS:
        nothing = np.zeros_like(contribution.indptr)
        return Contribution(
            n_items=0, indptr=nothing, items=contribution.items[:0], vectors=vectors, totals=totals
        )
    weights = contribution.weights if sources & _OF_WEIGHTS else None
    responses = contribution.responses if sources & _OF_RESPONSES else None
    return replace(contribution, weights=weights, responses=responses, vectors=vectors, totals=totals)


def _fits(contribution: Contribution, requests: Sequence[Request]) -> bool:
    """Whether the arrays have the shapes and types that these requests ask for."""
    per_item = [r.release.rows for r in requests if r.source.per_item]
    if any(rows != contribution.n_items for rows in per_item):
        return False
    of_pairs = contribution.n_items * (contribution.n_items + 1) // 2
    if any(r.release.width != of_pairs for r in requests if r.source is Source.ITEM_PAIRS):
        return False
    if per_item and contribution.weights is None:
        return False
    if contribution.responses is None and any(r.source in _OF_RESPONSES for r in requests):
        return False
    if any(r.source in _OF_VECTORS and not _has_rank_of(contribution, r) for r in requests):
        return False
    for request in requests:
        if request.source is Source.TOTAL:
            rows = contribution.totals.get(request.name)
            shape = (contribution.n_users, request.release.width)
            if rows is None or rows.dtype != np.int64 or rows.shape != shape:
                return False
    return True


def _has_rank_of(contribution: Contribution, request: Request) -> bool:
    vectors = contribution.vectors
    if vectors is None or vectors.ndim != 2 or len(vectors) != contribution.n_users:
        return False
    rank = vectors.shape[1]
    return request.release.width == (rank if request.source is Source.ITEM_LINEAR else rank * (rank + 1) // 2)


_IMPLIED = {
    Source.ITEM_COUNT: WEIGHT_ONE,
    Source.ITEM_QUADRATIC: QUADRATIC_BOUND,
    Source.QUADRATIC: VECTOR_BOUND**2,
    Source.ITEM_PAIRS: RESPONSE_BOUND**2,
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
    bounds = [r.release.l2_bound for r in requests if r.source is Source.ITEM_LINEAR]
    return min((bound for bound in bounds if bound < LINEAR_BOUND), default=None)


def rows_within_bounds(contribution: Contribution, requests: Sequence[Request]) -> BoolArray:
    """Which rows keep every bound that these requests declare; bool, shape (n_users,).

    Raises:
        InputError: the arrays do not fit these requests, so no row can be told.
        PrivacyError: a release declares a bound that nothing here would enforce.
    """
    _require_enforced(requests)
    if not _fits(contribution, requests):
        raise InputError("a contribution does not have the arrays, shapes and types that were asked for")
    keep = ~check_rows(
        contribution.indptr,
        contribution.items,
        n_items=contribution.n_items,
        vectors=contribution.vectors,
        weights=contribution.weights,
        responses=contribution.responses,
        joint_bound=_joint_bound(requests),
        unit_responses=any(r.source is Source.ITEM_PAIRS for r in requests),
    )
    for request in requests:
        if request.source is Source.TOTAL:
            keep &= request.release.keeps_bound(contribution.totals[request.name])
    return keep


def factored_bytes(contribution: Contribution) -> IntArray:
    """Bytes that each user's rows take in factored form, int64, shape (n_users,)."""
    per_entry = 4 + sum(a.itemsize for a in (contribution.weights, contribution.responses) if a is not None)
    fixed = sum(total.itemsize * total.shape[1] for total in contribution.totals.values())
    if contribution.vectors is not None:
        fixed += contribution.vectors.itemsize * contribution.vectors.shape[1]
    sizes: IntArray = np.diff(contribution.indptr) * per_entry + fixed
    return sizes


__all__ = [
    "DenseMessage",
    "FactoredMessage",
    "Trusted",
    "TrustedMessage",
    "factored_bytes",
    "rows_within_bounds",
]
