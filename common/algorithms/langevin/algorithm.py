"""DPMF in finitely many steps: Langevin dynamics on the item vectors whose noise is the released Gaussian noise.

The density of Liu, Wang and Smola (2015), proportional to ``exp(-s F - (precision / 2) |items|^2)`` with F the
trimmed and weighted squared error, is what the steps aim at. How near they come is not known, so the guarantee does
not rest on it: each user's gradient is clipped as a whole, summed, noised and booked like any release. One step:

* device:  c_j, v_j = ridge regression of her ratings on the board (eq. 5)
           r_ij = y_ij - mean - b_i - c_j - <u_i, v_j>
* server:  B_i <- B_i + h s a_i g_i - (h / 2) a_i^2 precision B_i,   g_i = sum_j f_j a_i w_j r_ij x_j + noise,
           x_j = (bias_scale, v_j), B_i = (b_i / bias_scale, u_i), over at most tau of her ratings

f_j clips the whole contribution; a_i from private counts is the root of a preconditioner. With deviation sigma of
the noise, ``h = temperature / (s sigma)^2`` makes its variance in the step what Langevin dynamics asks for at that
length.

Liu et al.'s bound on what one user adds to the loss: trimming to tau ratings, and a weight for each user.

F = sum_j w_j sum_i (y_ij - <u_i, v_j>)^2. With at most tau ratings a user, predictions within kappa of the rating
range and w_j = min(rho, B / (N_j range^2)), where range = r_max - r_min + kappa and B = tau range^2, no user adds
more than B. N_j is the number of ratings that she keeps.

Reference: Liu, Wang and Smola (2015), sec. 3 and 6.6.
"""

import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, ClassVar

import numpy as np

from fedboard.common.algorithms.residual.algorithm import Residual, model_of
from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.residual.device import Unclipped, fit_users, regression, residuals
from fedboard.common.algorithms.shared import array_rules as rules
from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.preparation import (
    answer,
    capped_counts,
    capped_mean,
    counts_request,
    mean_requests,
    released_mean,
)
from fedboard.common.algorithms.shared.ratings_config import (
    Feedback,
    RatingSettings,
    ReleaseShares,
    grown,
    mean_shares,
    settings_as,
)
from fedboard.common.algorithms.shared.sums import item_vectors, real_stddev
from fedboard.common.arrays import BoolArray, Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import NotNegative, Positive, Rounds, Share, require, whole
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.clipping import quantise_weights
from fedboard.common.contribution_bounding.weights import WeightScheme, entry_weights, item_weights
from fedboard.common.errors import InputError
from fedboard.common.task import ReleasedSums

_INSIDE = 1.0 - 1e-9  # keeps weights inside their bound whatever floating point does


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

    @property
    def largest(self) -> float:
        """Largest ``|r_ij| |x_j|``; no contribution is longer."""
        return self.vector_bound * self.model.residual_bound


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
    bound = settings.largest if clip_norm is None else clip_norm
    require(0.0 < bound < math.inf, "clip_norm", "finite and > 0", bound)
    request = item_vectors(
        settings.shared,
        f"step-{t}",
        n_items=n_items,
        width=settings.width,
        largest=settings.largest,
        clip_norm=bound,
        covers="g_i = sum of w r x per item over at most tau ratings a user, each user's part clipped as a whole",
    )
    return (request,)


def kept_ratings(cohort: Cohort, *, most: int, seed: int) -> BoolArray:
    """Mark at most ``most`` ratings of each user, drawn at random; bool, shape (n_ratings,). Private.

    Args:
        cohort: private.
        most: tau >= 1. Public.
        seed: of the draw, which depends on it, the user's key and the item alone.
    """
    equal = np.ones(cohort.n_items)
    return entry_weights(WeightScheme.UNIFORM, cohort, equal, items_per_user=most, seed=seed) > 0


def user_weights(
    counts: IntArray, *, most: int, largest: float, budget_shares: FloatArray | None = None
) -> FloatArray:
    """w_j = min(rho, tau s_j / N_j): the user's part of F is at most s_j B.

    Args:
        counts: N_j, int64, shape (n_users,), each at most ``most``. Private.
        most: tau. Public.
        largest: rho > 0. Public.
        budget_shares: s_j = B_j / B in [0, 1], float64, shape (n_users,): users who want a smaller epsilon of
            their own; None for 1.

    Returns:
        float64, shape (n_users,). Private.

    Raises:
        InputError: an argument is out of its range.
    """
    if not 0 < largest < np.inf or most < 1:
        raise InputError(f"the largest weight must be finite and > 0 and tau >= 1, got {largest} and {most}")
    if counts.size and counts.max() > most:
        raise InputError(f"a user has more than {most} ratings: trim first")
    shares = np.ones(counts.size) if budget_shares is None else budget_shares
    if shares.shape != counts.shape or not ((shares >= 0) & (shares <= 1)).all():
        raise InputError("budget_shares must hold one number in [0, 1] per user")
    return np.minimum(largest, most * shares / np.maximum(counts, 1))


def after_preparation(board: Board, released: ReleasedSums, settings: LangevinConfig) -> Board:
    """Mean, counts, the preconditioner's root a_i, and the bound of a contribution."""
    counts = np.maximum(released.array("counts")[:, 0], 1.0)
    omega = item_weights(WeightScheme.ADAPTIVE, counts, exponent=settings.weight_exponent)
    # The largest possible norm of a user's weights is 1, as the grid wants it.
    roots = omega * (_INSIDE / (omega.max() * settings.largest_weights_norm))
    average = float(np.sqrt(np.sum(counts * roots**2) / np.sum(counts)))
    clip_norm = settings.clip_norm * float(np.sqrt(settings.most_ratings)) * average
    return board.successor(
        mean=np.array([released_mean(released, settings.shared)]),
        item_counts=counts,
        item_weights=roots,
        learnt=np.ones(counts.size, dtype=np.uint8),
        clip_norm=np.array([min(clip_norm, settings.largest)]),
    )


def after_step(board: Board, released: ReleasedSums, request: Request, settings: LangevinConfig) -> Board:
    """One Langevin step; at the end the mean of the last states, where one is asked for."""
    roots = np.asarray(board.arrays["item_weights"])
    length = step_length(board, request, settings)
    state = _coordinates(board, settings)
    gradient = settings.likelihood * roots[:, None] * released.array(request.name)
    moved = state + length * (gradient - 0.5 * settings.precision * (roots**2)[:, None] * state)
    arrays = _item_arrays(moved, settings)
    averaged = settings.averaged_steps - (settings.steps - board.version)
    if settings.averaged_steps > 1 and averaged >= 1:
        before = np.asarray(board.arrays["mean_state"]) if averaged > 1 else np.zeros_like(moved)
        mean: FloatArray = before + (moved - before) / averaged
        arrays["mean_state"] = mean.astype(np.float32)
        if board.version == settings.steps:
            arrays |= _item_arrays(mean, settings)
    # Variance of the noise in a step over the variance of Langevin dynamics at temperature 1.
    temperature = length * (settings.likelihood * real_stddev(request)) ** 2
    return board.successor(**arrays, temperature=np.array([temperature]))


def step_length(board: Board, request: Request, settings: LangevinConfig) -> float:
    """Length h = temperature / (s sigma)^2, at most ``step_limit`` over the largest curvature; public.

    Largest curvature of the preconditioned density: a_i^2 times s times item i's private count, each of its ratings
    with the weight and the ``|x_j|^2`` of a user at the bounds, shared among the coordinates, plus the prior.
    """
    roots, counts = np.asarray(board.arrays["item_weights"]), np.asarray(board.arrays["item_counts"])
    of_rating = settings.likelihood * settings.vector_bound**2 / settings.width
    curvature = float(np.max(roots**2 * (of_rating * counts + 0.5 * settings.precision)))
    wanted = settings.temperature / (settings.likelihood * real_stddev(request)) ** 2
    return min(wanted, settings.step_limit / curvature)


def _coordinates(board: Board, settings: LangevinConfig) -> FloatArray:
    biases = np.asarray(board.arrays["item_biases"], dtype=np.float64) / settings.bias_scale
    return np.column_stack([biases, board.arrays["item_factors"]])


def _item_arrays(coordinates: FloatArray, settings: LangevinConfig) -> dict[str, Float32Array]:
    return {
        "item_biases": (coordinates[:, 0] * settings.bias_scale).astype(np.float32),
        "item_factors": coordinates[:, 1:].astype(np.float32),
    }


def array_rules(board: Board, settings: LangevinConfig) -> tuple[rules.ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    model = rules.biased_model(board, settings.rank)
    if board.version == 0:
        return model
    largest = settings.largest
    clip_norm = rules.number("clip_norm", largest * rules.ROUNDING, largest)
    return (*model, *rules.prepared(board), *rules.mean_rating(settings.shared), clip_norm)


@dataclass(frozen=True, slots=True)
class Langevin(TaskOfSettings):
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "langevin"
    settings: LangevinConfig

    def first_board(self, catalogue: Catalogue) -> Board:
        """A draw of the prior from the public seed; holds no data."""
        rng = np.random.default_rng(self.settings.shared.public_seed)
        drawn = rng.standard_normal((catalogue.n_items, self.settings.rank)) / self.settings.precision**0.5
        return self.begun(
            catalogue.without_features,
            item_factors=drawn.astype(np.float32),
            item_biases=np.zeros(catalogue.n_items, dtype=np.float32),
        )

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """Preparation, then the steps."""
        if version == 0:
            shared = self.settings.shared  # private mean and private counts, asked in one visit
            return (*mean_requests(shared), counts_request(shared, n_items=n_items))
        if version > self.settings.steps:
            return ()
        clip_norm = None if board is None else float(board.arrays["clip_norm"][0])
        return step(self.settings, version, n_items=n_items, clip_norm=clip_norm)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """Each user's bias and embedding from all her ratings, float32, shape (n_users, 1 + rank). Private."""
        return self._shared.fit_local(cohort, board)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        if board.version == 0:
            return answer(
                cohort,
                weights=quantise_weights(capped_counts(cohort, self.settings.shared.count_cap)),
                totals=capped_mean(cohort, self.settings.shared),
            )
        settings, shared, model = self.settings, self.settings.model, model_of(board)
        # Her vector is from all her ratings, her gradient from those that she keeps.
        local = fit_users(cohort, model, shared, backend=self.backend, user_ridge=shared.user_ridge)
        constant = np.full((cohort.n_users, 1), settings.bias_scale)
        part = Unclipped.of(
            cohort,
            self.weigh(cohort, board),
            residuals(cohort, local, model),
            np.hstack([constant, local[:, 1:]]),
            residual_bound=shared.residual_bound,
            vector_bound=settings.vector_bound,
        )
        return part.clipped(part.norms(), float(board.arrays["clip_norm"][0]))

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """w_j a_i of each rating that is kept, 0 of the others; float64, shape (n_ratings,). Private."""
        most, largest = self.settings.most_ratings, self.settings.largest_weight
        own = user_weights(np.minimum(cohort.counts, most), most=most, largest=largest)
        weights: FloatArray = np.repeat(own, cohort.counts) * board.arrays["item_weights"][cohort.items]
        weights[~kept_ratings(cohort, most=most, seed=self.settings.device_seed)] = 0.0
        return weights

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        if board.version == 0:
            return after_preparation(board, released, self.settings)
        (request,) = self.requests(board)
        return after_step(board, released, request, self.settings)

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings on the public range, float64, shape (n_pairs,)."""
        return self._shared.predict(local, board, users, items)

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """Vectors whose inner products order the items for each user: (1, v_j) and (b_i, u_i)."""
        return self._shared.ranking_factors(local, board)

    @property
    def _shared(self) -> Residual:
        """The task whose model of ratings this one's is."""
        return Residual(self.settings.model, backend=self.backend)


ALGORITHM = Algorithm(
    name=Langevin.NAME,
    feedback=frozenset({Feedback.EXPLICIT}),
    settings=LangevinConfig,
    shares=LangevinShares,
    shares_by_release=shares_by_release,
    task=Langevin.made,
    array_rules=array_rules,
    folder=files(__package__),
    regression=lambda settings, own, board: regression(settings.model, own, board),
)
