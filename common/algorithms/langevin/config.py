"""Public configuration of noisy Langevin steps, how their budget is shared, and their releases and sensitivities.

Nothing here looks at data.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.shared.preparation import counts_request, mean_requests
from fedboard.common.algorithms.shared.ratings_config import (
    Feedback,
    RatingSettings,
    ReleaseShares,
    grown,
    mean_shares,
    settings_as,
)
from fedboard.common.algorithms.shared.sums import item_vectors
from fedboard.common.checks import NotNegative, Positive, Rounds, Share, require, whole
from fedboard.common.contribution import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class LangevinConfig(RatingSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    rank: int = 8
    """Length of the embeddings, d."""
    steps: Rounds = 16
    """Langevin steps after the preparation round, T; each is a release of its own."""
    most_ratings: Annotated[int, whole()] = 100
    """tau: each device takes at most so many of its ratings, drawn at random."""
    largest_weight: Positive = 1.0
    """rho: a user's weight is min(rho, tau / her number of ratings)."""
    weight_exponent: float = 0.25
    """mu in omega_i = n_i^-mu, the square root of the preconditioner: rare items make longer steps."""
    clip_norm: Positive = 1.0
    """Bound on a user's whole contribution, in units of that of a user with tau ratings, each of average omega,
    with residual 1 and ``|x_j|`` = 1."""
    likelihood: Positive = 1.0
    """s: how much a squared star counts in the density that is sampled; smaller is hotter."""
    precision: Positive = 40.0
    """Of the normal prior on an item's coordinates."""
    temperature: Positive = 1.0
    """zeta: variance of the released noise in a step over the step's length."""
    step_limit: Positive = 1.0
    """Longest step, in units of one over the largest curvature: where the noise would allow a longer one, the step
    is cut, and colder."""
    decay: NotNegative = 0.33
    """The budget of step t, hence the length of the step, falls as t^-decay."""
    averaged_steps: Annotated[int, whole()] = 1
    """The last board is the mean of so many last states; 1 for the sample itself."""
    vector_bound: float = 1.0
    """Gamma: bound on ``|x_j|``, x_j = (bias_scale, v_j)."""
    bias_scale: float = 0.5
    """s: the constant first coordinate of x_j, which carries the item biases."""
    user_ridge: float = 3.0
    """Strength of the device's ridge on v_j, lambda in eq. 5."""
    user_ridge_exponent: float = 0.25
    """The ridge grows with the user's own number of ratings to this power; 0 in the paper."""
    user_bias_ridge: float = 2.0
    """Strength of the device's ridge on her own bias; grows the same way."""
    device_seed: int = 0
    """Seed of which ratings are kept; in a deployment each device draws its own."""

    def __post_init__(self) -> None:
        """Check every public range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        feedback = self.shared.feedback
        explicit = feedback is Feedback.EXPLICIT
        require(explicit, "feedback", "explicit: the likelihood of this task is one of ratings", feedback)
        super(LangevinConfig, self).__post_init__()
        averaged = self.averaged_steps
        require(averaged <= self.steps, "averaged_steps", f"at most {self.steps}, the steps", averaged)
        _ = self.model  # checks what both share

    @property
    def model(self) -> ResidualConfig:
        """What this task has in common with ``residual``: all but the item step."""
        unused = {
            "clip_norm": self.vector_bound,
            "bias_clip_norm": self.bias_scale,
        }  # a step's bound is the board's
        return settings_as(ResidualConfig, self, rounds=self.steps, **unused)

    @property
    def largest_weights_norm(self) -> float:
        """Largest L2 norm of a user's weights w_j over her trimmed ratings: sqrt(tau rho), or less if rho < 1."""
        return math.sqrt(self.most_ratings * self.largest_weight * min(1.0, self.largest_weight))

    @property
    def width(self) -> int:
        """Length of x_j."""
        return self.rank + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LangevinShares(ReleaseShares):
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    BEFORE: ClassVar = ("mean", "counts")
    mean: Share = 0.002
    """Both sums of the private mean together."""
    counts: Share = 0.04
    """The private item counts."""


def shares_by_release(config: LangevinConfig, shares: LangevinShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, by release name, in the order of the run; sums to 1."""
    result = mean_shares(shares.mean) | {"counts": shares.counts}
    steps = grown(1.0 - sum(result.values()), config.steps, -config.decay)
    return result | {f"step-{t}": of_step for t, of_step in enumerate(steps, start=1)}


def preparation(settings: LangevinConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private mean and private counts, asked in one visit."""
    return (*mean_requests(settings.shared), counts_request(settings.shared, n_items=n_items))


def step(settings: LangevinConfig, t: int, *, n_items: int, clip_norm: float | None) -> tuple[Request, ...]:
    """The gradient of step t, from 1.

    A user's whole contribution, ``f_j a_i w_j r_ij x_j`` over her items, has norm at most clip_norm whatever her
    ratings are: that is the sensitivity.

    Args:
        settings: public.
        t: number of the step.
        n_items: size of the catalogue.
        clip_norm: real bound, from the board; None for the largest that the grid expresses.

    Raises:
        InputError: clip_norm is not a finite number > 0.
    """
    largest = settings.vector_bound * settings.model.residual_bound
    bound = largest if clip_norm is None else clip_norm
    require(0.0 < bound < math.inf, "clip_norm", "finite and > 0", bound)
    request = item_vectors(
        settings.shared,
        f"step-{t}",
        n_items=n_items,
        width=settings.width,
        largest=largest,
        clip_norm=bound,
        covers="g_i = sum of w r x per item over at most tau ratings a user, each user's part clipped as a whole",
    )
    return (request,)
