"""A tree of tasks that merges exact sums as they come, so that few of them wait at any time."""

from collections import defaultdict
from collections.abc import Sequence

from fedboard.simulations.engine.on_ray.cluster import Cluster, Ref
from fedboard.simulations.engine.on_ray.jobs import merged_part

FAN_IN = 8
"""Parts that one task merges."""


class MergeTree:
    """The parts of one round, lane by lane. What is merged depends on who is done first, its sum does not."""

    def __init__(self, cluster: Cluster) -> None:
        """Start with nothing."""
        self._cluster = cluster
        self._waiting: dict[int, list[list[Ref]]] = defaultdict(list)
        """By level: the parts, by lane, of each subtree that is done."""

    def add(self, parts: Sequence[Ref]) -> None:
        """Take the parts of one span, one for each lane."""
        level, new = 0, list(parts)
        while True:
            waiting = self._waiting[level]
            waiting.append(new)
            if len(waiting) < FAN_IN:
                return
            new = self._merged(waiting)
            waiting.clear()
            level += 1

    def finish(self) -> list[Ref]:
        """The sums over all that was added, one part for each lane; nothing can be added any more."""
        left = [parts for level in sorted(self._waiting) for parts in self._waiting[level]]
        self._waiting.clear()
        while len(left) > 1:
            left = [self._merged(left[first : first + FAN_IN]) for first in range(0, len(left), FAN_IN)]
        return left[0] if left else []

    def _merged(self, several: Sequence[Sequence[Ref]]) -> list[Ref]:
        if len(several) == 1:
            return list(several[0])
        return [self._cluster.call(merged_part, *of_lane) for of_lane in zip(*several, strict=True)]
