"""What the configurations of all algorithms on ratings share."""

from enum import StrEnum

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


__all__ = ["LARGEST_RANK", "SUM_SHARE_OF_MEAN", "Feedback"]
