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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The protocol. ``form`` picks the wire form; ``backend`` the kernels, never the result."""

    NAME: ClassVar[str] = "trusted"
    form: str = "factored"
    backend: str = "numpy"

    def __post_init__(self) -> None:
        """Check the form.

        Raises:
            InputError: an unknown form.
        """
        if self.form not in ("factored", "dense"):
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
        """Drop rows that break a bound and messages that do not fit, then sum exactly, in any order."""
        parts = list(messages)
        dense = [part.sums for part in parts if isinstance(part, DenseMessage)]
        members: list[ExactSums] = [
            self._checked(part.contribution, requests) for part in parts if isinstance(part, FactoredMessage)
        ]
        if dense or not members:
            members.append(DenseSums.total(dense, requests))
        return members[0] if len(members) == 1 else DenseSums.total_of(members, requests)

    def _checked(self, contribution: Contribution, requests: Sequence[Request]) -> ExactSums:
        try:
            keep = rows_within_bounds(contribution, requests)
        except InputError:  # no row of it can be told, so all of them count as refused
            nothing = DenseSums.total((), requests)
            return replace(nothing, rejected_rows=contribution.n_users)
        return FactoredSums.of(contribution, keep=keep, backend=self.backend)

    def message_bytes(self, message: TrustedMessage) -> int:
        """Payload bytes; framing not counted."""
        if isinstance(message, DenseMessage):
            return sum(value.nbytes for value in message.sums.values())
        return int(np.sum(factored_bytes(message.contribution)))


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
    ranks = [r.release.width for r in requests if r.source is Source.ITEM_LINEAR]
    asks_responses = ranks or any(r.source is Source.ITEM_PAIRS for r in requests)
    if asks_responses and contribution.responses is None:
        return False
    if ranks and (
        contribution.vectors is None or contribution.vectors.shape != (contribution.n_users, ranks[0])
    ):
        return False
    for request in requests:
        if request.source is Source.TOTAL:
            rows = contribution.totals.get(request.name)
            shape = (contribution.n_users, request.release.width)
            if rows is None or rows.dtype != np.int64 or rows.shape != shape:
                return False
    return True


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
            rows = contribution.totals[request.name].astype(np.float64)
            keep &= np.sqrt(np.einsum("jw,jw->j", rows, rows)) <= request.release.l2_bound
            if request.release.same_sign:  # the smaller factor of ``replace`` relies on it
                keep &= np.all(rows >= 0, axis=1)
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
