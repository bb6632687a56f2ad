"""How many bytes each sender may hand in: so many a minute, saved up for a minute at most."""

import time
from collections.abc import Callable, Hashable


class Allowance:
    """Of each sender; one that has used up hers waits until it has come back."""

    def __init__(self, *, bytes_per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Make ready; everybody has a whole minute's bytes.

        Args:
            bytes_per_minute: > 0.
            clock: seconds.
        """
        self._most, self._clock = bytes_per_minute, clock
        self._used: dict[Hashable, tuple[float, float]] = {}
        """By sender: when she was last seen, and what was used up then and has not come back."""

    def take(self, sender: Hashable, n_bytes: int) -> bool:
        """Use up so many bytes; False, and nothing is used, if the sender has no more than fewer left."""
        now = self._clock()
        seen, used = self._used.get(sender, (now, 0.0))
        used = max(0.0, used - (now - seen) * self._most / 60.0)
        fits = used + n_bytes <= self._most
        self._used[sender] = (now, used + n_bytes * fits)
        return fits
