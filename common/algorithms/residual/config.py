"""Public configuration of residual alternating minimisation, its stages, and how its privacy budget is shared."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from fedboard.common.algorithms.shared.adaptive_clipping import (
    ClippedSettings,
    adapts_clipping,
)
from fedboard.common.algorithms.shared.preparation import (
    moments_share,
)
from fedboard.common.algorithms.shared.ratings_config import Feedback, Rank, ReleaseShares, grown
from fedboard.common.checks import BelowOne, Fraction, NotNegative, Positive, Rounds, Share, UpToOne, require

_LEAST_MOMENTS = 0.005
OF_RATINGS = ("ridge_evidence", "bias_memory", "moments_share")
"""Settings that boards of presence do not state: they change nothing there, and earlier boards had none."""


class Curvature(StrEnum):
    """Where the item step gets its matrix H_i from."""

    PRIOR = "prior"
    """c_i M: one private weighted count per item, once, and one global second moment a round."""
    RELEASED = "released"
    """A private matrix per item, released in every alternation."""


class Start(StrEnum):
    """What the first alternation measures."""

    SKETCH = "sketch"
    """Moments along random directions: each device's vector is fitted to public random factors."""
    SPECTRAL = "spectral"
    """The leading directions of a private item x item matrix; for a trusted aggregator and small catalogues."""


class StageKind(StrEnum):
    """The kinds of rounds of a run, in their order."""

    PREPARATION = "preparation"
    BIASES = "biases"
    PAIRS = "pairs"
    ALTERNATION = "alternation"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualConfig(ClippedSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    rank: Rank = 8
    """Length of the embeddings, d."""
    rounds: Rounds = 8
    """Alternations after the preparation round and the bias round, T."""
    weight_exponent: Fraction = 0.25
    """mu in omega_i = n_i^-mu; 0 shares evenly, larger favours rare items."""
    clip_norm: Positive = 1.0
    """C: bound on a user's whole contribution to a round, ``|w_j * r_j| |x_j|``; of ratings in released deviations
    of one, so that it means the same on every scale."""
    bias_clip_norm: Positive = 1.0
    """C of the bias round, in the same unit."""
    vector_bound: Positive = 1.3
    """Gamma: bound on ``|x_j|``, x_j = (bias_scale, v_j). The board's gauge makes ``|v_j|`` about 1."""
    bias_scale: Positive = 1.0
    """s: the constant first coordinate of x_j, which carries the item biases."""
    user_ridge: Positive = 3.0
    """Strength of the device's ridge on v_j, lambda_v; for ratings in squared deviations of one, and where
    ``ridge_evidence`` sets out from."""
    ridge_evidence: bool = True
    """Whether the ridge follows what it does for ratings that a user's own model has not seen, released in each
    alternation from the second; explicit feedback only."""
    user_ridge_exponent: float = 0.25
    """The ridge grows with the user's own number of ratings to this power."""
    final_user_ridge: Positive | None = None
    """lambda_v with the last board, where nothing is contributed any more; None for ``user_ridge``."""
    user_bias_ridge: Positive = 2.0
    """Strength of the device's ridge on her own bias; grows the same way."""
    curvature: Curvature = Curvature.PRIOR
    prior_ridge: Positive = 20.0
    """Ridge of the regression that fits the prior means: on an item's noisy count, and its public features."""
    noise_variance: Positive = 0.6
    """Variance of a rating around its prediction, squared deviations of one; how much it tells of its item."""
    prior_inflation: Positive = 1.0
    """Factor of the fitted prior covariance: above 1, less shrinkage."""
    unobserved_weight: NotNegative = 0.0
    """alpha0 on the device: weight of the unobserved term (implicit feedback)."""
    item_unobserved_weight: NotNegative = 0.0
    """alpha0 in the item step, for an item of average weight (implicit feedback)."""
    head_fraction: UpToOne = 1.0
    """Share of the items, by private count, that are learnt at all; the rest keep zero factors."""
    step: Positive = 1.0
    """Length of the item step."""
    iterate_memory: BelowOne = 0.0
    """Share of the last round's factors in the new ones: exponential averaging of the iterates."""
    bias_memory: Fraction = 0.9
    """What an earlier round's measurement of the biases is worth in the next, as a share of its precision; explicit
    feedback only."""
    moments_share: Share | None = None
    """Share of mu^2 for the moments of all ratings; None for what their accuracy needs. Explicit feedback only."""
    start: Start = Start.SKETCH

    def __post_init__(self) -> None:
        """Check every public range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        super(ResidualConfig, self).__post_init__()
        require(self.bias_scale <= self.vector_bound, "bias_scale", "at most vector_bound", self.bias_scale)
        bounds = {"clip_norm": self.vector_bound}
        if self.has_biases:
            bounds["bias_clip_norm"] = self.bias_scale
        for name, bound in bounds.items():
            value, largest = getattr(self, name), self.residual_bound * bound
            require(value <= largest, name, f"at most {largest:g} (no contribution is larger)", value)

    @property
    def residual_bound(self) -> float:
        """Bound on a residual, in deviations of a rating, or on one of presence; larger ones are clipped."""
        return 4.0 if self.has_biases else 1.0

    @property
    def largest_clip_norm(self) -> float:
        """An adaptive clipping norm never rises above this: no contribution is larger."""
        return self.residual_bound * self.vector_bound

    @property
    def has_biases(self) -> bool:
        """Whether items and users have biases: ratings do, presence has none."""
        return self.shared.feedback is Feedback.EXPLICIT

    @property
    def width(self) -> int:
        """Length of x_j in an alternation: the constant coordinate, where there are biases, and the embedding."""
        return self.rank + 1 if self.has_biases else self.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualShares(ReleaseShares):
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    BEFORE: ClassVar = ("users", "counts", "weighted_counts", "bias", "spectral", "clip")
    users: Share = 0.0005
    """The private number of users; implicit feedback only, since with ratings it is among the moments."""
    counts: Share = 0.04
    """The private item counts."""
    weighted_counts: Share = 0.04
    """The private weighted item counts."""
    bias: Share = 0.06
    """The bias round; explicit feedback only."""
    spectral: Share = 0.2
    """The private start; used by ``start = spectral`` only."""
    moment: Share = 0.01
    """The global second moment, as a share of each round."""
    clip: Share = 0.002
    """All private quantiles that the clipping norm follows together; unused without ``clip_quantile``."""
    ridges: Share = 0.02
    """What ridges do for users, as a share of each round that releases it; explicit feedback only."""
    curvature: Share = 0.3
    """The items' matrices, as a share of each round that releases them."""
    round_growth: float = 2.0
    """Round t gets a share proportional to t^round_growth."""


def shares_by_release(config: ResidualConfig, shares: ResidualShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, by release name, in the order of the run; sums to 1."""
    result = {}
    if config.has_biases:
        result["moments"] = _LEAST_MOMENTS if config.moments_share is None else config.moments_share
    result["counts"] = shares.counts
    if not config.has_biases:
        result["users"] = shares.users
    result["weighted-counts"] = shares.weighted_counts
    if config.has_biases:
        result["bias/linear"] = shares.bias * (1 - shares.moment)
        result["bias/moment"] = shares.bias * shares.moment
    if config.start is Start.SPECTRAL:
        result["pairs"] = shares.spectral
    adapting = sum(adapts_clipping(config, t) for t in range(1, config.rounds + 1))
    left = 1.0 - sum(result.values()) - (shares.clip if adapting else 0.0)
    require(left > 0.0, "shares before the first round together", "< 1", 1.0 - left)
    for t, of_round in enumerate(grown(left, config.rounds, shares.round_growth), start=1):
        if adapts_clipping(config, t):
            result[f"round-{t}/clip"] = shares.clip / adapting
        if config.curvature is Curvature.RELEASED:
            result[f"round-{t}/curvature"] = of_round * shares.curvature
            of_round *= 1 - shares.curvature
        if releases_ridges(config, t):
            result[f"round-{t}/ridges"] = of_round * shares.ridges
            of_round *= 1 - shares.ridges
        result[f"round-{t}/linear"] = of_round * (1 - shares.moment)
        result[f"round-{t}/moment"] = of_round * shares.moment
    return result


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a run is: what the round after a board of some version asks for."""

    kind: StageKind
    alternation: int = 0
    """Number of the alternation, from 1; 0 before."""


def stage_of(version: int, config: ResidualConfig) -> Stage:
    """The stage that the board of this version is read in."""
    kinds = [StageKind.PREPARATION, StageKind.BIASES]
    if config.start is Start.SPECTRAL:
        kinds.append(StageKind.PAIRS)
    if version < len(kinds):
        return Stage(kinds[version])
    t = version - len(kinds) + 1
    return Stage(StageKind.ALTERNATION, t) if t <= config.rounds else Stage(StageKind.DONE, t)


def complete(settings: ResidualConfig, *, given: Collection[str], mu: float) -> ResidualConfig:
    """The settings with the share of the moments that the budget of the run asks for."""
    if not settings.has_biases or "moments_share" in given:
        return settings
    return replace(settings, moments_share=moments_share(mu))


def releases_ridges(config: ResidualConfig, t: int) -> bool:
    """Whether alternation t (from 1) releases what ridges do for users: there are factors from the second on."""
    return config.ridge_evidence and config.has_biases and t > 1
