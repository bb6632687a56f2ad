"""How long nodes took so far, and so how long the next answer is waited for: from a least to a longest time."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedboard.server.fleet.plan.job import Job

TOLD = "slowest_answer_seconds"
"""Field of the rounds' log."""
_REMEMBERED = 64
"""Answers."""
_TIMES_THE_SLOWEST = 4.0


@dataclass(slots=True, kw_only=True)
class Pace:
    """Of the nodes of one run. Public settings and clocks alone go in, never what an answer holds."""

    job: Job
    _took: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    @staticmethod
    def of(job: Job, lines: Iterable[Mapping[str, Any]]) -> "Pace":
        """Go on from the rounds' log."""
        pace = Pace(job=job)
        for line in lines:
            if isinstance(seconds := line.get(TOLD), int | float):
                pace.took(float(seconds))
        return pace

    def took(self, seconds: float) -> None:
        """A node has answered, so long after it was first asked."""
        self._took.append(seconds)

    @property
    def slowest(self) -> float:
        """Of the last answers, seconds; 0 where there are none."""
        return max(self._took, default=0.0)

    def patience(self, least: float, *, attempt: int = 1) -> float:
        """How long answers are waited for: four times the slowest, twice as long each time they are asked again.

        Args:
            least: seconds that are waited for in any case; ``deadline_seconds`` or a step's.
            attempt: 1 for the first time.

        Returns:
            Seconds, at most ``least`` as often as the longest deadline holds the usual one.
        """
        most = least * self.job.rounds.longest_seconds / self.job.rounds.deadline_seconds
        return min(most, max(least, _TIMES_THE_SLOWEST * self.slowest) * 2.0 ** (attempt - 1))
