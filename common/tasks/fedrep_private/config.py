"""Public configuration of private FedRep, and how its privacy budget is shared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fedboard.common.checks import require
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.tasks.representation.config import INITIALISATION, Pairs
from fedboard.common.tasks.representation.losses import LossName

USERS = "users"
"""Name of the release of their number, by which sums become means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedRepConfig:
    """Everything a device must know to take part. Every field is public by definition."""

    rank: int = 2
    """k: length of the personal vectors v_j."""
    loss: LossName = LossName.SQUARED
    clip_norms: tuple[float, ...] = (0.5, 0.25, 0.12, 0.06, 0.06)
    """psi of each round; their number is that of the rounds T. A user's gradient that is longer is scaled down to
    it, and noise is in proportion to it. In units of a label times a length of v; the paper has one psi for all
    rounds."""
    learning_rate: float = 1.0
    """eta: the step is so many mean gradients of ``l / m``, where ``l = (s - y)^2 / 2``; the paper's loss lacks the
    half, so its eta is half of this."""
    initial_clip: float = 1e-4
    """Norm in the units of squared labels up to which a user's part in the start is not scaled; tiny, so that all
    weigh alike."""
    response_bound: float | None = None
    """zeta: labels are clipped to ``[-zeta, zeta]`` in the start; None: no bound of their own."""
    vector_bound: float | None = None
    """R: personal vectors are shortened to this norm for what is sent; None for no bound."""
    user_ridge: float = 1e-3
    """Strength of the ridge on v_j."""
    pairs: Pairs = Pairs.ALL
    """Which pairs of a user's examples start the representation."""
    split_examples: bool = False
    """Whether v_j is fitted on the first half of a user's examples and the gradient taken on the rest, as in the
    paper's proof; its experiments, and the default, take all for both."""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise_multipliers: Mapping[str, float] = field(default_factory=dict)
    """Release name -> z; from ``calibrated``."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        require(self.rank >= 1, "rank", "an int >= 1", self.rank)
        norms = self.clip_norms
        require(bool(norms) and all(map(_positive, norms)), "clip_norms", "numbers > 0", norms)
        for name in ("learning_rate", "initial_clip", "user_ridge"):
            require(_positive(getattr(self, name)), name, "a finite number > 0", getattr(self, name))
        for name in ("response_bound", "vector_bound"):
            value = getattr(self, name)
            require(value is None or _positive(value), name, "none or a finite number > 0", value)

    @property
    def rounds(self) -> int:
        """T, the gradient steps after the start."""
        return len(self.clip_norms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedRepShares:
    """How mu^2 is shared; each in (0, 1), together below 1. What is left is for the gradients, in equal parts."""

    initialisation: float = 0.3
    """For the start."""
    users: float = 0.02
    """For their number."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a share is not in (0, 1), or nothing is left for the gradients.
        """
        for name in ("initialisation", "users"):
            require(0 < getattr(self, name) < 1, f"share of {name}", "in (0, 1)", getattr(self, name))
        both = self.initialisation + self.users
        require(both < 1, "share of initialisation and users together", "< 1", both)


def shares_by_release(settings: FedRepConfig, shares: FedRepShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, in its order; sums to 1."""
    each = (1.0 - shares.initialisation - shares.users) / settings.rounds
    start = {INITIALISATION: shares.initialisation, USERS: shares.users}
    return start | {gradient_name(t): each for t in range(1, settings.rounds + 1)}


def calibrated(
    settings: FedRepConfig, *, epsilon: float, delta: float, shares: FedRepShares | None = None
) -> FedRepConfig:
    """The same settings with the noise that keeps each user within (epsilon, delta).

    Raises:
        PrivacyError: epsilon or delta is out of range.
    """
    by_release = shares_by_release(settings, shares or FedRepShares())
    return replace(settings, noise_multipliers=noise_multipliers(epsilon, delta, by_release))


def gradient_name(t: int) -> str:
    """Name of the release of the gradient in round t = 1, 2, ..."""
    return f"round-{t}/gradient"


def _positive(value: float) -> bool:
    return 0 < value < math.inf
