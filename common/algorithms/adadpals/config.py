"""Public configuration of AdaDPALS, how its budget is shared, and its releases: sums, grids, sensitivities.

Nothing here looks at data.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fedboard.common.algorithms.shared.adaptive_clipping import (
    ClippedSettings,
    adapts_clipping,
    clip_requests,
)
from fedboard.common.algorithms.shared.preparation import (
    counts_request,
    mean_requests,
    moments_request,
    users_request,
)
from fedboard.common.algorithms.shared.ratings_config import (
    Feedback,
    Rank,
    ReleaseShares,
    as_written,
    grown,
    mean_shares,
)
from fedboard.common.algorithms.shared.sums import item_matrices, item_vectors, user_matrix
from fedboard.common.checks import Fraction, NotNegative, Positive, Rounds, Share, UpToOne, require, whole
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.weights import WeightScheme


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaDpalsConfig(ClippedSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    rank: Rank = 8
    """Length of the embeddings, d."""
    rounds: Rounds = 4
    """Alternations after the preparation round, T."""
    weights: WeightScheme = WeightScheme.ADAPTIVE
    """How a user's budget is shared among her items."""
    weight_exponent: Fraction = 0.25
    """mu in omega_i = n_i^-mu; 0 shares evenly, larger favours rare items."""
    items_per_user: Annotated[int, whole()] = 50
    """k of the sampled weightings (``uniform``, ``tail``)."""
    mean_budget: Positive = 1.0
    """beta-bar of the clipped weightings: a user's squared weights before clipping, on average."""
    clip_norm: Positive = 0.7
    """Gamma: bound on |v_j| in contributions. The board's factors have unit weighted RMS norm."""
    label_bound: Positive = 2.0
    """Gamma_y: bound on a centred label in contributions; enforced, unlike in the paper's code. With ``biases`` in
    units of the released deviation of ratings."""
    biases: bool = False
    """Explicit feedback only: item biases from a round of their own, and each user's own; not in the paper."""
    user_bias_ridge: Positive = 2.0
    """Strength of the device's ridge on her own bias, with ``biases``; grows with her ratings as ``user_ridge``."""
    user_ridge: Positive = 3.0
    """Strength of the device's ridge, lambda_v."""
    user_ridge_exponent: float = 0.25
    """The ridge grows with the user's own number of ratings to this power."""
    item_ridge: Positive = 40.0
    """Strength of the item ridge in units of clip_norm^2."""
    item_ridge_exponent: float = 0.25
    """The item ridge grows with the private count to this power."""
    unobserved_weight: NotNegative = 0.0
    """alpha0 on the device: weight of the unobserved term (implicit feedback)."""
    item_unobserved_weight: NotNegative = 0.0
    """alpha0 in the item solve, for an item of average weight omega."""
    weighted_unobserved: bool = True
    """Whether an item's unobserved term grows with its omega, as its observed one does; in the paper's code it does
    not, so that larger weights lift the scores of rare items."""
    unit_gauge: bool = True
    """Whether the server scales the item factors to a count-weighted RMS norm of 1 in every round; the paper's code
    does not, and its bounds and ridges mean what they do at the scale that comes out."""
    first_norm: Positive = 1.0
    """RMS norm of the random first factors; it matters where there is no gauge."""
    head_fraction: UpToOne = 1.0
    """Share of the items, by private count, that are learnt at all; the rest keep zero factors."""
    device_seed: int = 0
    """Seed of the items that ``uniform`` samples; in a deployment each device draws its own."""

    def __post_init__(self) -> None:
        """Check every public range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        super(AdaDpalsConfig, self).__post_init__()
        explicit = self.shared.feedback is Feedback.EXPLICIT
        require(explicit or not self.biases, "biases", "false for implicit feedback", self.biases)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShares(ReleaseShares):
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    BEFORE: ClassVar = ("mean", "counts", "users", "clip", "bias_counts", "bias_sums")
    mean: Share = 0.002
    """Both sums of the private mean together; unused for implicit feedback."""
    counts: Share = 0.12
    """The private item counts."""
    users: Share = 0.001
    """The private number of users; used by the clipped weightings only."""
    bias_counts: Share = 0.05
    """The counts of the round of item biases; unused without ``biases``."""
    bias_sums: Share = 0.12
    """The sums of that round."""
    clip: Share = 0.002
    """All private quantiles that the clipping norm follows together; unused without ``clip_quantile``."""
    gram: Share = 0.05
    """The global Gram matrix, as a share of each round; unused for explicit feedback."""
    quadratic: Share = 0.5
    """Item Gram matrices, as a share of what a round has left; the right-hand sides get the rest."""
    round_growth: float = 0.0
    """Round t gets a share proportional to t^round_growth."""


MOMENTS_WITH_BIASES = 0.01
"""Share of mu^2 of the users, their mean rating and mean square, which stand for the mean with ``biases``."""


def written_config(config: AdaDpalsConfig) -> dict[str, Any]:
    """The configuration, JSON-able; without what is unused, as it was written before there was any of it."""
    written = as_written(config)
    later = {"weighted_unobserved": True, "unit_gauge": True, "first_norm": 1.0}
    unused = {key for key, default in later.items() if written[key] == default}
    if not config.biases:
        unused |= {"biases", "user_bias_ridge"}
    return {key: value for key, value in written.items() if key not in unused}


def needs_population(config: AdaDpalsConfig) -> bool:
    """Whether the weighting looks at the number of users, which is then released."""
    return config.weights.needs_population


def shares_by_release(config: AdaDpalsConfig, shares: BudgetShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, by release name; sums to 1.

    The order is the order of the run.
    """
    explicit = config.shared.feedback is Feedback.EXPLICIT
    result = {}
    if config.biases:
        result["moments"] = MOMENTS_WITH_BIASES
    elif explicit:
        result |= mean_shares(shares.mean)
    result["counts"] = shares.counts
    if needs_population(config):
        result["users"] = shares.users
    if config.biases:
        result |= {"bias/counts": shares.bias_counts, "bias/sums": shares.bias_sums}
    adapting = sum(adapts_clipping(config, t) for t in range(1, config.rounds + 1))
    left = 1.0 - sum(result.values()) - (shares.clip if adapting else 0.0)
    for t, of_round in enumerate(grown(left, config.rounds, shares.round_growth), start=1):
        if not explicit:
            result[f"round-{t}/gram"] = of_round * shares.gram
            of_round *= 1 - shares.gram
        result[f"round-{t}/quadratic"] = of_round * shares.quadratic
        result[f"round-{t}/linear"] = of_round * (1 - shares.quadratic)
        if adapts_clipping(config, t):
            result[f"round-{t}/clip"] = shares.clip / adapting
    return result


def preparation(settings: AdaDpalsConfig, *, n_items: int) -> tuple[Request, ...]:
    """Private mean (explicit feedback only; with biases the deviation too) and private counts, in one visit."""
    mean: tuple[Request, ...] = ()
    if settings.biases:
        mean = (moments_request(settings.shared),)
    elif settings.shared.feedback is Feedback.EXPLICIT:
        mean = mean_requests(settings.shared)
    users = (users_request(settings.shared),) if needs_population(settings) else ()
    return (*mean, counts_request(settings.shared, n_items=n_items), *users)


def alternation(settings: AdaDpalsConfig, t: int, *, n_items: int, clip_norm: float) -> tuple[Request, ...]:
    """Item statistics of round t, the global Gram matrix (implicit feedback), the clipping norm's quantile.

    Args:
        settings: public.
        t: number of the round, >= 1.
        n_items: size of the catalogue.
        clip_norm: Gamma of this round, from the board. Public.
    """
    shared, rank = settings.shared, settings.rank
    requests: tuple[Request, ...] = (
        item_matrices(
            shared,
            f"round-{t}/quadratic",
            n_items=n_items,
            size=rank,
            vector_bound=clip_norm,
            covers="A_i = sum of w v v^T per item",
        ),
        item_vectors(
            shared,
            f"round-{t}/linear",
            n_items=n_items,
            width=rank,
            largest=clip_norm * settings.label_bound,
            covers="b_i = sum of w y v per item, labels clipped",
        ),
    )
    if shared.feedback is Feedback.IMPLICIT:
        covers = "G = sum of v v^T over users"
        gram = user_matrix(shared, f"round-{t}/gram", size=rank, vector_bound=clip_norm, covers=covers)
        requests = (*requests, gram)
    return (*requests, *clip_requests(settings, t))
