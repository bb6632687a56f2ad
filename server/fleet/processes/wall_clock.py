"""Whether this machine's clock was put back: what was written down before is then of the future.

Flower's SuperLink counts a device as present until a moment that it writes into its database, and gives nobody else
its place before. With a clock that was days ahead for a while, devices that start again would wait for days.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

MOST_BACK_SECONDS = 30.0
"""A clock that is put back by less is as any clock; devices' hearts beat every 10 s."""


class WallClock:
    """The clock that people read, beside one that only goes on."""

    def __init__(
        self, *, clock: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        """Look for the first time."""
        self._clock, self._steady = clock, steady
        self._ahead = clock() - steady()

    def put_back(self) -> float:
        """By how many seconds it was put back since the last look; 0 where it was by less than counts."""
        before, self._ahead = self._ahead, self._clock() - self._steady()
        back = before - self._ahead
        return back if back > MOST_BACK_SECONDS else 0.0


def written_ahead(door: Path, *, clock: Callable[[], float] = time.time) -> float:
    """By how many seconds the clock was ahead of now when the door last wrote what it has seen, before this start.

    Args:
        door: the file that it writes; need not be there.
        clock: seconds since 1970 UTC.
    """
    try:
        ahead = float(json.loads(door.read_text(encoding="utf-8"))["written"]) - clock()
    except (OSError, ValueError, LookupError, TypeError):
        return 0.0
    return ahead if ahead > MOST_BACK_SECONDS else 0.0
