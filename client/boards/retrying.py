"""How a reader waits for a service that is busy or away."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from fedboard.common.boards.methods import CHUNK_BYTES
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError

PASSING: Final = frozenset({FeedCode.UNREACHABLE, FeedCode.RATE_LIMITED})
"""Refusals after which it is worth while to ask again."""

_Got = TypeVar("_Got")


def allowed_seconds(n_bytes: int, seconds: float) -> float:
    """For so many bytes of a file in all, with so many seconds for each ``CHUNK_BYTES``."""
    return seconds * (1 + n_bytes / CHUNK_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often and how soon a reader asks again. Waits are drawn anew, so that readers do not come all at once."""

    attempts: int = 6
    """Failures in a row, without a single byte between them, after which she gives up."""
    first_seconds: float = 0.5
    """The first wait is drawn evenly from zero to this; each further bound is twice as long."""
    longest_seconds: float = 60.0
    poll_seconds: float = 60.0
    """Between two looks at a source that cannot tell of new boards by itself."""
    piece_seconds: float = 30.0
    """For each ``CHUNK_BYTES`` of a file, over all attempts, however often a byte comes."""
    sleep: Callable[[float], None] = time.sleep

    def wait(self, failures: int) -> None:
        """Sleep after so many failures in a row (>= 1)."""
        bound = min(self.longest_seconds, self.first_seconds * 2 ** (failures - 1))
        self.sleep(random.uniform(0.0, bound))

    def ask(self, ask: Callable[[], _Got]) -> _Got:
        """Ask, and again while the source is busy or away.

        Args:
            ask: one question.

        Raises:
            FeedRefusedError: of another kind, or the last of so many.
        """
        failures = 0
        while True:
            try:
                return ask()
            except FeedRefusedError as error:
                failures += 1
                if error.code not in PASSING or failures >= self.attempts:
                    raise
                self.wait(failures)
