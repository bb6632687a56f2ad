"""What an aggregation protocol is: how contributions become one exact sum, and whom that asks to be trusted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request

Message = TypeVar("Message")


class NoiseAt(StrEnum):
    """Where the noise of a release is drawn."""

    SERVER = "server"
    SHARES = "shares"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trust model, in sentences that the certificate carries as they are."""

    sees: str
    """What the aggregator sees of one client."""
    privacy_relies_on: str
    """Who must behave for the guarantee to hold."""
    malicious_client: str
    """What one client can do to the sum, and what stops it."""


class ExactSums(Protocol):
    """The exact sums of one round, still secret: they leave only through a booked release."""

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' exact sums, by name: int64, shape (stop - start, width)."""
        ...

    @property
    def rejected_rows(self) -> int:
        """Rows left out because they broke a bound; known to the aggregator only."""
        ...


class AggregationProtocol(Protocol[Message]):
    """Turns the contributions of many clients into exact sums.

    Guarantee: ``combine(encode(c) for c in parts)`` gives, for every request, the sum over all rows that keep
    their bounds, to the last bit, in any order and for any split of the users into parts.
    """

    @property
    def name(self) -> str:
        """Registered name."""
        ...

    @property
    def noise_at(self) -> NoiseAt:
        """Where noise is drawn."""
        ...

    @property
    def trust(self) -> Trust:
        """Who sees what, who must be trusted."""
        ...

    def encode(self, contribution: Contribution, requests: Sequence[Request]) -> Message:
        """Client side: check the bounds, pack the rows.

        Raises:
            PrivacyError: a row breaks its declared bound; nothing is sent.
        """
        ...

    def combine(self, messages: Iterable[Message], requests: Sequence[Request]) -> ExactSums:
        """Server side: check what can be seen again, and sum."""
        ...

    def message_bytes(self, message: Message) -> int:
        """Size of a message on the wire, bytes."""
        ...


__all__ = ["AggregationProtocol", "ExactSums", "NoiseAt", "Trust"]
