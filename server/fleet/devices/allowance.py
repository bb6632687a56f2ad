"""How much each sender may hand in, bytes, requests or answers: so many a minute, saved up for a minute at most."""

import time
from collections.abc import Callable, Hashable

_MOST_SENDERS = 20_000
"""Before those who have everything back are forgotten; strangers are without number."""


class Allowance:
    """Of each sender; one that has used up hers waits until it has come back."""

    def __init__(self, *, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Make ready; everybody has a whole minute's.

        Args:
            per_minute: > 0.
            clock: seconds.
        """
        self._most, self._clock = per_minute, clock
        self._used: dict[Hashable, tuple[float, float]] = {}
        """By sender: when she was last seen, and what was used up then and has not come back."""
        self._next_look = 0.0

    def take(self, sender: Hashable, amount: int) -> bool:
        """Use up so many; False, and nothing is used, if the sender has no more than fewer left."""
        now = self._clock()
        if len(self._used) >= _MOST_SENDERS and now >= self._next_look:
            self._forget(now)
        seen, used = self._used.get(sender, (now, 0.0))
        used = max(0.0, used - (now - seen) * self._most / 60.0)
        fits = used + amount <= self._most
        self._used[sender] = (now, used + amount * fits)
        return fits

    def _forget(self, now: float) -> None:
        self._next_look = now + 1.0
        self._used = {who: (seen, used) for who, (seen, used) in self._used.items() if now - seen < 60.0}
