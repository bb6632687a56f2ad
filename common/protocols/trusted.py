"""A trusted aggregator: it sees each contribution for the time of a round, sums exactly, and adds the noise.

Two wire forms. *Factored* sends a user's rows as they are, rank + 4 |Omega_j| numbers, and the aggregator
forms the products. *Dense* sends the sums of a whole cohort; it is smaller when a cohort hosts many users.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protocol import ExactSums, NoiseAt, Trust
from fedboard.common.protocols.row_bounds import rows_within_bounds
from fedboard.common.protocols.running_sums import RunningSums
from fedboard.common.protocols.sums import FactoredSums, whole_sums


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

        Messages are taken one at a time; see ``RunningSums`` for what is held of them.
        """
        running = RunningSums(requests=tuple(requests), backend=self.backend)
        for message in messages:
            if isinstance(message, DenseMessage):
                running.add_sums(message.sums)
            else:
                running.add_rows(message.contribution)
        return running.sums()

    def message_bytes(self, message: TrustedMessage) -> int:
        """Payload bytes; framing not counted."""
        if isinstance(message, DenseMessage):
            return sum(value.nbytes for value in message.sums.values())
        return int(np.sum(factored_bytes(message.contribution)))


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
