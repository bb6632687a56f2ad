"""Public configuration of private item biases, and how the privacy budget is shared."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from fedboard.common.checks import require
from fedboard.common.tasks.shared.rating_level import moments_share
from fedboard.common.tasks.shared.ratings_config import Feedback, RatingsConfig

_LEAST_MOMENTS = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasConfig:
    """Everything a device must know to take part. Every field is public by definition."""

    shared: RatingsConfig = field(default_factory=RatingsConfig)
    """What every algorithm on ratings has: their range, what neighbouring means, the noise."""
    rounds: int = 2
    """Rounds that sum over items: 1 for item means, a second with each user's own bias taken out for item biases;
    none for a constant and her own bias."""
    user_ridge: float = 5.0
    """Strength of the device's ridge on her own bias, in ratings. Everywhere between 3 and 10 is within 0.2 %."""
    moments_share: float | None = None
    """Share of mu^2 for the three numbers about all ratings; None for what their accuracy needs."""
    first_clip: float = 0.8
    """Bound on a user's whole part in the first round, in released deviations of a rating."""
    second_clip: float = 0.6
    """Likewise in the second, where residuals are smaller."""

    def __post_init__(self) -> None:
        """Check every public range; a server need not be honest.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        feedback = self.shared.feedback
        require(feedback is Feedback.EXPLICIT, "feedback", "explicit: presence has no mean", feedback)
        require(self.rounds in (0, 1, 2), "rounds", "0, 1 or 2", self.rounds)
        require(0.0 < self.user_ridge < math.inf, "user_ridge", "finite and > 0", self.user_ridge)
        share = self.moments_share
        require(share is None or 0.0 < share < 1.0, "moments_share", "in (0, 1)", share)
        for name in ("first_clip", "second_clip"):
            require(0.05 <= getattr(self, name) <= 1.0, name, "in [0.05, 1]", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasShares:
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    counts: float = 0.28
    """The weighted counts, of what the moments leave. A count's noise moves an effect of about half a star as much
    as noise of that half in its sum: (1 : 2.5) is the best ratio for it."""
    second: float = 0.6
    """The second round, of what the counts leave."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a share is outside (0, 1).
        """
        for name in ("counts", "second"):
            require(0.0 < getattr(self, name) < 1.0, f"shares.{name}", "in (0, 1)", getattr(self, name))


def complete(settings: BiasConfig, *, given: Collection[str], mu: float) -> BiasConfig:
    """The settings with the share of the moments that the budget of the run asks for."""
    if "moments_share" in given:
        return settings
    return replace(settings, moments_share=moments_share(mu))


def shares_by_release(settings: BiasConfig, shares: BiasShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, in its order; sums to 1."""
    if settings.rounds == 0:
        return {"moments": 1.0}
    moments = _LEAST_MOMENTS if settings.moments_share is None else settings.moments_share
    left = 1.0 - moments
    sums = left * (1.0 - shares.counts)
    found = {"moments": moments, "counts": left * shares.counts}
    if settings.rounds == 1:
        return found | {"first": sums}
    return found | {"first": sums * (1.0 - shares.second), "second": sums * shares.second}
