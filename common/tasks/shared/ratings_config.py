"""What the configurations of all algorithms on ratings have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fedboard.common.checks import require
from fedboard.common.privacy.adjacency import Adjacency

LARGEST_RANK = 512
"""Beyond it, matrices per item would not fit in memory; found out before anything is released."""
SUM_SHARE_OF_MEAN = 0.8
"""The sum is noisier than the number of ratings (its sensitivity is half_range times larger), so it gets more."""


class Feedback(StrEnum):
    """What a rating says."""

    EXPLICIT = "explicit"
    """A rating on a public range; unrated items say nothing."""
    IMPLICIT = "implicit"
    """Presence alone; unrated items count as weak zeros (``unobserved_weight``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingsConfig:
    """The field ``shared`` of every algorithm's configuration. Every field is public by definition.

    In files and on boards its keys stand beside the algorithm's own, see ``fedboard.common.tasks.shared.written``.
    """

    feedback: Feedback = Feedback.EXPLICIT
    rating_low: float = 1.0
    """Lower end of the public rating range."""
    rating_high: float = 5.0
    """Upper end of the public rating range."""
    count_cap: int = 100
    """A user's counts are scaled so that she weighs no more than one with this many ratings."""
    mean_cap: float = 50.0
    """A user's part in the private mean weighs no more than this many ratings (smooth bounding)."""
    public_seed: int = 0
    """Seed of the random first factors; public."""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise_multipliers: Mapping[str, float] = field(default_factory=dict)
    """By release name; filled in by calibration."""

    def __post_init__(self) -> None:
        """Check every public range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        require(self.rating_low < self.rating_high, "rating_high", "> rating_low", self.rating_high)
        require(self.count_cap >= 1, "count_cap", "a whole number >= 1", self.count_cap)
        for name in ("count_cap", "mean_cap"):
            require(0.0 < getattr(self, name) < float("inf"), name, "finite and > 0", getattr(self, name))

    @property
    def centre(self) -> float:
        """Middle of the public rating range."""
        return (self.rating_low + self.rating_high) / 2

    @property
    def half_range(self) -> float:
        """Half the width of the public rating range."""
        return (self.rating_high - self.rating_low) / 2
