"""Public configuration of AdaDPSGD, how its budget is shared, and its releases: sums, grids, sensitivities.

Nothing here looks at data.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig, needs_population
from fedboard.common.algorithms.adadpals.config import preparation as model_preparation
from fedboard.common.algorithms.shared.preparation import users_request
from fedboard.common.algorithms.shared.ratings_config import (
    Feedback,
    RatingSettings,
    ReleaseShares,
    grown,
    mean_shares,
    settings_as,
)
from fedboard.common.algorithms.shared.sums import item_vectors, user_matrix
from fedboard.common.checks import Positive, Rounds, Share, whole
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.weights import WeightScheme

_IMPLICIT_RESIDUAL = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaDpsgdConfig(RatingSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    rank: int = 8
    """Length of the embeddings, d."""
    steps: Rounds = 24
    """Gradient steps after the preparation round, T; each is a release of its own."""
    steps_per_solve: Annotated[int, whole()] = 1
    """k: users solve their vectors anew before every k-th step, and keep them for the k steps."""
    weights: WeightScheme = WeightScheme.ADAPTIVE
    """How a user's budget is shared among her items."""
    weight_exponent: float = 0.25
    """mu in omega_i = n_i^-mu; 0 shares evenly, larger favours rare items."""
    items_per_user: int = 50
    """k of the sampled weightings (``uniform``, ``tail``)."""
    mean_budget: float = 1.0
    """beta-bar of the clipped weightings: a user's squared weights before clipping, on average."""
    gradient_clip: Positive = 2.0
    """Gamma_g: bound on the gradient ``2 (<u_i, v_j> - y_ij) v_j`` of one example."""
    vector_bound: Positive = 2.0
    """Longest v_j that contributions express; longer ones are scaled down."""
    rate: Positive = 1.0
    """Multiplies the theorem's rates."""
    radius: Positive = 3.0
    """C: item vectors are projected on the ball of this radius; its diameter enters the rates."""
    first_norm: Positive = 0.3
    """Root mean square norm of the random first item vectors; small, since what is not learnt stays."""
    user_ridge: float = 2.0
    """Strength of the device's ridge, lambda_v."""
    user_ridge_exponent: float = 0.25
    """The ridge grows with the user's own number of ratings to this power."""
    item_ridge: float = 20.0
    """Strength of the item ridge, lambda."""
    item_ridge_exponent: float = 0.5
    """The item ridge grows with the private count to this power."""
    unobserved_weight: float = 0.0
    """alpha0 on the device: weight of the unobserved term (implicit feedback)."""
    item_unobserved_weight: float = 0.0
    """alpha0 in the item step, for an item of average weight omega."""
    head_fraction: float = 1.0
    """Share of the items, by private count, that are learnt at all; the rest keep zero factors."""
    device_seed: int = 0
    """Seed of the items that ``uniform`` samples; in a deployment each device draws its own."""

    def __post_init__(self) -> None:
        """Check every public range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        super(AdaDpsgdConfig, self).__post_init__()
        _ = self.model  # checks what both share

    @property
    def model(self) -> AdaDpalsConfig:
        """What this task has in common with AdaDPALS: all but the item step."""
        # A clipping norm of 1, which nothing else uses, makes its item ridge one in absolute units.
        return settings_as(AdaDpalsConfig, self, rounds=self.steps, clip_norm=1.0, first_norm=1.0)

    @property
    def response_bound(self) -> float:
        """Largest ``2 |<u_i, v_j> - y_ij|`` that contributions express; errors beyond the range count as it."""
        if self.shared.feedback is Feedback.IMPLICIT:
            return 2.0 * _IMPLICIT_RESIDUAL
        return 2.0 * (self.shared.rating_high - self.shared.rating_low)

    def solves(self, t: int) -> bool:
        """Whether users solve their vectors anew before step t, from 1."""
        return (t - 1) % self.steps_per_solve == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaDpsgdShares(ReleaseShares):
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    BEFORE: ClassVar = ("mean", "counts", "users", "gram")
    mean: Share = 0.002
    """Both sums of the private mean together; unused for implicit feedback."""
    counts: Share = 0.06
    """The private item counts."""
    users: Share = 0.001
    """The private number of users."""
    gram: Share = 0.05
    """All global Gram matrices together; unused for explicit feedback."""
    step_growth: float = 0.0
    """Step t gets a share proportional to t^step_growth; the theorem has 0."""


def gradient_name(t: int) -> str:
    """Name of the release of step t, from 1."""
    return f"step-{t}/gradient"


def gram_name(t: int) -> str:
    """Name of the release of the users' Gram matrix at step t, from 1."""
    return f"step-{t}/gram"


def shares_by_release(config: AdaDpsgdConfig, shares: AdaDpsgdShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, by release name; sums to 1.

    The order is the order of the run.
    """
    explicit = config.shared.feedback is Feedback.EXPLICIT
    result = mean_shares(shares.mean) if explicit else {}
    result |= {"counts": shares.counts, "users": shares.users}
    solves = 0 if explicit else sum(config.solves(t) for t in range(1, config.steps + 1))
    left = 1.0 - sum(result.values()) - (shares.gram if solves else 0.0)
    for t, of_step in enumerate(grown(left, config.steps, shares.step_growth), start=1):
        result[gradient_name(t)] = of_step
        if solves and config.solves(t):
            result[gram_name(t)] = shares.gram / solves
    return result


def preparation(settings: AdaDpsgdConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private mean (explicit feedback), private counts, and the private number of users, which the rates need."""
    shared = model_preparation(settings.model, n_items=n_items)
    return shared if needs_population(settings.model) else (*shared, users_request(settings.shared))


def gradient_step(settings: AdaDpsgdConfig, t: int, *, n_items: int) -> tuple[Request, ...]:
    """The gradient sums of step t, from 1; for implicit feedback the Gram matrix of users' vectors once a solve.

    A user's whole contribution to the gradient has norm at most Gamma_g: each example's is clipped to it, and the
    squares of her weights sum to at most 1. Her vector and her responses alone would allow far more, so the bound
    is checked on their product.
    """
    shared = settings.shared
    gradient = item_vectors(
        shared,
        gradient_name(t),
        n_items=n_items,
        width=settings.rank,
        largest=settings.vector_bound * settings.response_bound,
        clip_norm=settings.gradient_clip,
        covers="sum of w clip(-2 (<u, v> - y) v) per item, each example's gradient clipped",
    )
    if shared.feedback is Feedback.EXPLICIT or not settings.solves(t):
        return (gradient,)
    covers, bound = "G = sum of v v^T over users", settings.vector_bound
    return (
        gradient,
        user_matrix(shared, gram_name(t), size=settings.rank, vector_bound=bound, covers=covers),
    )
