"""Whose questions a client answers: the first thing that is looked at, before anything of a message is read."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fedboard.common.contribution import Request, numbers_of
from fedboard.common.keys.validity import Clock
from fedboard.common.wire.refusals import Refusal, RefusedError

LARGEST_QUESTION = 64 << 20
"""Most bytes of a question with its board, unless a device is told otherwise."""
LARGEST_ANSWER = 256 << 20
"""Most bytes of the sums that an answer holds, unless a device is told otherwise."""
_NUMBER_BYTES = 8


class Pinned(Protocol):
    """What a client has pinned of those who may ask: a ``PinnedServer``, or a root that names them."""

    @property
    def id(self) -> str:
        """A short public name."""
        ...

    def open(self, signed: bytes, *, beside: bytes | None = None, clock: Clock = time.time) -> memoryview:
        """The message, if it was signed by whom that names; raises ``RefusedError``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Whose questions a client answers, and how large they may be."""

    server: Pinned | None
    """None: nobody's, so that everything is refused."""
    largest: int = LARGEST_QUESTION
    """Most bytes of a question, with the board beside it."""
    largest_answer: int = LARGEST_ANSWER
    """Most bytes of all sums together, where an answer holds sums: what they take grows with the square of the
    rank, and the question with the rank alone."""
    clock: Clock = time.time

    @property
    def id(self) -> str:
        """A short public name of the server's key; empty where nobody is asked by."""
        return "" if self.server is None else self.server.id

    def content(self, signed: bytes, beside: bytes | None = None) -> memoryview:
        """The message of this server.

        Args:
            signed: from anybody.
            beside: the board that came with it.

        Raises:
            RefusedError: ``too-large``, ``unsigned``, ``bad-signature`` or ``expired``.
        """
        if len(signed) + len(beside or b"") > self.largest:
            raise RefusedError(Refusal.TOO_LARGE)
        if self.server is None:
            raise RefusedError(Refusal.BAD_SIGNATURE)
        return self.server.open(signed, beside=beside, clock=self.clock)

    def require_affordable(self, requests: Sequence[Request]) -> None:
        """Hold the sums that are asked for against the limit, before any is made.

        Args:
            requests: of a round that is answered with sums and not with rows.

        Raises:
            RefusedError: ``too-large``.
        """
        numbers = numbers_of(requests)
        if _NUMBER_BYTES * numbers > self.largest_answer:
            raise RefusedError(Refusal.TOO_LARGE)
