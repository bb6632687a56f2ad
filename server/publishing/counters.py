"""What a board service counts of itself: how much, never by whom."""

from bisect import bisect_left
from collections import Counter

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram, seconds; one more bucket holds what takes longer."""


class ServiceCounters:
    """Numbers since the start. Written by the service's thread alone; others may read them at any time."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        """By method and outcome: ``ok``, or the status that it ended with."""
        self.bytes_sent = 0
        """Of files, before gRPC's and TLS's own."""
        self.rate_limited = 0
        self.streams = 0
        """Downloads under way."""
        self.watchers = 0
        self.latest_version = -1
        """Newest version that is served; -1: none."""
        self.latency_counts = [0] * (len(LATENCY_BUCKETS) + 1)
        self.latency_sum = 0.0

    def finished(self, method: str, outcome: str, seconds: float | None) -> None:
        """Count a request.

        Args:
            method: of the service.
            outcome: a fixed word.
            seconds: it took; None for one that waits on purpose (``Watch``).
        """
        self.requests[method, outcome] += 1
        if seconds is not None:
            self.latency_counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
            self.latency_sum += seconds
