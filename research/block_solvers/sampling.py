"""DPMF: one sample from a scaled posterior of matrix factorisation by stochastic gradient Langevin dynamics.

Target density, over item vectors and biases and the users' own,

  exp( -s sum_j w_j sum_{i of her tau} (y_ij - p_ij)^2 - (precision / 2) |all rows|^2 ),   s = epsilon / (4 B),

p_ij the prediction, clipped to within kappa of the rating range: so a user's part of the sum is at most B whatever
the vectors are, where the paper samples again until all predictions lie there. Pass t moves a row by
``-(eta / 2) gradient + N(0, temperature eta)``; eta differs between rows (a constant preconditioner, which leaves
the target as it is). A curator who sees all ratings runs it; only the items' rows are for publication, and every
user solves her own (eq. 5). For what this guarantees see ``guarantees``.

Reference: Liu, Wang and Smola (2015), Algorithm 1, sec. 4 and 5.4; the paper's eq. 4 has eta where Welling and Teh
(2011) have eta / 2, which samples the density squared.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from fedboard.common.algorithms.langevin.algorithm import kept_ratings, user_weights
from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.checks import require_whole
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from research.block_solvers.factorisation import Factorisation, Stream, start
from research.block_solvers.rating_sweep import FactorRows, SweepRates


def trimmed(cohort: Cohort, *, most: int, seed: int) -> Cohort:
    """The same users with at most ``most`` ratings each, drawn at random."""
    return cohort.where(kept_ratings(cohort, most=most, seed=seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class GammaPrior:
    """Of each precision. Public."""

    shape: float = 1.0
    """alpha > 0."""
    rate: float = 100.0
    """beta > 0: one over the scale."""

    def __post_init__(self) -> None:
        """Check both.

        Raises:
            InputError: one is not finite and > 0.
        """
        for name in ("shape", "rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} of a Gamma prior must be finite and > 0, got {getattr(self, name)}")


def draw_precisions(rows: FactorRows, prior: GammaPrior, rng: np.random.Generator) -> FloatArray:
    """One Gibbs step: a precision for each factor, then for the bias; float64, shape (rank + 1,).

    Pure but for ``rng``: it reads the rows and the prior alone.

    Args:
        rows: of one side, settled.
        prior: public.
        rng: of this chain's Gibbs steps alone.
    """
    squares = np.append(
        np.einsum("nk,nk->k", rows.factors, rows.factors, dtype=np.float64),
        np.einsum("n,n->", rows.biases, rows.biases, dtype=np.float64),
    )
    n_rows = rows.clocks.size
    drawn: FloatArray = rng.gamma(prior.shape + n_rows / 2, 1.0 / (prior.rate + squares / 2))
    return drawn


def pull_apart(rows: FactorRows, precisions: FloatArray, steps: FloatArray) -> None:
    """Half a pass of what the precisions pull beyond the least of them; in place.

    The sweep pulls all coordinates of a row alike, by the least precision. The rest acts by itself, half before and
    half after the sweep: ``exp(-(eta / 2) (lambda_k - least) / 2)``, with an error of second order in the step.

    Args:
        rows: of one side.
        precisions: float64, shape (rank + 1,).
        steps: eta of each row for a whole pass, float64, shape (n,).
    """
    beyond = (precisions - precisions.min()) / 4
    rows.factors[:] *= _decay(steps, beyond[:-1])
    rows.biases[:] *= _decay(steps, beyond[-1:])[:, 0]


def _decay(steps: FloatArray, beyond: FloatArray) -> Float32Array:
    found: Float32Array = np.exp(-np.outer(steps, beyond)).astype(np.float32)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingGuarantee:
    """Two readings of one sample, never to be mixed up. Public."""

    kind: Literal["asymptotic"] = "asymptotic"
    user_epsilon: float
    """Of an exact sample, for adding or removing a user who has the whole bound B, as the paper states it."""
    rating_epsilon: float
    """Of an exact sample, for changing the value of one rating: user_epsilon rho / tau, at most user_epsilon."""
    rating_presence: bool
    """Whether the same holds for adding or removing a rating: only if no weight depends on the number of
    ratings."""
    finite_step_epsilon: float = math.inf
    """Of what was really computed: none."""
    statement: str

    def record(self) -> Mapping[str, Any]:
        """JSON-able; infinity as null."""
        known = asdict(self)
        known["finite_step_epsilon"] = None
        return known


def sampling_guarantee(
    epsilon: float, *, temperature: float, most_ratings: int, largest_weight: float
) -> SamplingGuarantee:
    """Read a sample from ``exp(-epsilon / (4 B temperature) F)``, whose likelihood is bounded by B for each user.

    A colder chain (temperature below 1, as the paper's zeta) samples another distribution: that of epsilon /
    temperature. Nothing here enters a ledger or a certificate: how far finitely many steps are from the
    distribution is not known, and single steps of the unclipped chain have no finite bound.

    Args:
        epsilon: of the paper's Algorithm 1, > 0.
        temperature: > 0.
        most_ratings: tau >= 1.
        largest_weight: rho > 0.

    Raises:
        InputError: an argument is out of its range.

    Reference: Liu, Wang and Smola (2015), theorems 1 and 2, sec. 6.7.
    """
    if not (0 < epsilon < math.inf and 0 < temperature < math.inf):
        raise InputError(f"epsilon and temperature must be finite and > 0, got {epsilon} and {temperature}")
    if most_ratings < 1 or not 0 < largest_weight < math.inf:
        raise InputError(f"tau must be >= 1 and rho > 0, got {most_ratings} and {largest_weight}")
    read = epsilon / temperature
    return SamplingGuarantee(
        user_epsilon=read,
        rating_epsilon=read * min(1.0, largest_weight / most_ratings),
        rating_presence=largest_weight <= 1.0,
        statement=(
            f"asymptotic: epsilon {read:g} for a user if the sample were exact. It is not: after finitely many "
            "steps of stochastic gradient Langevin dynamics without clipping no finite epsilon is known. For a "
            "guarantee that holds, and is booked, run --algorithm langevin."
        ),
    )


def personal_epsilons(epsilon: float, bounds: Any, total_bound: float) -> Any:
    """Each user's own epsilon of an exact sample: ``epsilon B_j / (2 B)``.

    Args:
        epsilon: of the sample.
        bounds: B_j = N_j w_j range^2, a number or an array, at most ``total_bound``.
        total_bound: B.

    Reference: Liu, Wang and Smola (2015), theorem 2.
    """
    return epsilon * bounds / (2 * total_bound)


_POSITIVE = ("epsilon", "kappa", "largest_weight", "precision", "step", "temperature")


@dataclass(frozen=True, slots=True, kw_only=True)
class DpmfConfig:
    """Options of one sample. Every field is public."""

    epsilon: float
    """Of the exact sample, for a user (asymptotic)."""
    rating_range: tuple[float, float]
    most_ratings: int = 100
    """tau: trim the ratings to it before they are arranged."""
    kappa: float = 1.0
    """How far beyond the rating range a prediction counts."""
    largest_weight: float = 1.0
    """rho: bound on a user's weight; above 1 users with few ratings weigh more."""
    rank: int = 16
    passes: int = 60
    step: float = 10.0
    """Step of the first pass, in units of each row's own: one over the density's precision along its bias."""
    decay: float = 0.3
    """Pass t, from 1, takes the step step / t^decay."""
    temperature: float = 1.0
    """zeta: variance of the noise over the step. Below 1 the chain samples a colder density: see ``guarantees``."""
    precision: float = 15.0
    """Of the normal prior on every coordinate."""
    gamma_prior: GammaPrior | None = None
    """Set, every coordinate of either side has a precision of its own, drawn anew after each pass (``precisions``);
    ``precision`` is where they start."""
    mean: float | None = None
    """Constant part of predictions; None for the middle of the rating range, which costs no privacy."""
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be finite and > 0, got {getattr(self, name)}")
        for name in ("rank", "passes", "threads", "most_ratings"):
            require_whole(name, getattr(self, name))
        if not self.rating_range[0] < self.rating_range[1]:
            raise InputError(f"rating_range must ascend, got {self.rating_range}")

    @property
    def centre(self) -> float:
        """Constant part of predictions."""
        return sum(self.rating_range) / 2 if self.mean is None else self.mean

    @property
    def largest_loss(self) -> float:
        """Bound on one rating's squared error, with predictions clipped."""
        return (self.rating_range[1] - self.rating_range[0] + self.kappa) ** 2

    @property
    def bound(self) -> float:
        """B: bound on a user's part of F."""
        return self.most_ratings * self.largest_loss

    @property
    def inverse_temperature(self) -> float:
        """Scale s = epsilon / (4 B) of F in the density."""
        return self.epsilon / (4 * self.bound)

    @property
    def guarantee(self) -> SamplingGuarantee:
        """What it guarantees, in both readings."""
        return sampling_guarantee(
            self.epsilon,
            temperature=self.temperature,
            most_ratings=self.most_ratings,
            largest_weight=self.largest_weight,
        )


def sample_dpmf(
    stream: Stream,
    config: DpmfConfig,
    *,
    budget_shares: FloatArray | None = None,
    table: Float32Array | None = None,
    on_progress: Callable[[int, Factorisation], None] | None = None,
) -> Factorisation:
    """Run the chain from a draw of the prior and keep its last state.

    Args:
        stream: ratings, at most tau a user (``kept_ratings``). Private.
        config: public.
        budget_shares: B_j / B in [0, 1], float64, shape (n_users,), for users who want an epsilon_j of their
            own: ``2 epsilon_j / epsilon``. None for 1.
        table: draws to read noise from, for the experiment on it alone; it has no privacy proof.
        on_progress: called after each pass with its number, from 1, and the state so far.

    Returns:
        The state, settled: all noise is in. Items' rows are the release, users' rows stay private.

    Raises:
        InputError: a user has more than tau ratings.
    """
    weights = user_weights(
        stream.head.user_counts,
        most=config.most_ratings,
        largest=config.largest_weight,
        budget_shares=budget_shares,
    )
    model = start(
        stream,
        rank=config.rank,
        deviation=config.precision**-0.5,
        mean=config.centre,
        seed=config.seed,
        threads=config.threads,
    )
    if table is not None:
        model.table = table
    order, unrated = np.random.default_rng([config.seed, 1]), np.random.default_rng([config.seed, 2])
    gibbs = np.random.default_rng([config.seed, 3])
    for number in range(1, config.passes + 1):
        rates = langevin_rates(stream, config, weights, number, model.precisions)
        with _pulled_apart(model, config, rates):
            model.sweep(rates, order)
            model.settle(rates)  # the variance of a tick changes with the step
        if config.gamma_prior is not None:
            _draw_unrated(model, config, unrated)
            users, items = (
                draw_precisions(side, config.gamma_prior, gibbs) for side in (model.users, model.items)
            )
            model.precisions = users, items
        if on_progress is not None:
            on_progress(number, model)
    if config.gamma_prior is None:
        _draw_unrated(model, config, unrated)
    return model


def langevin_rates(
    stream: Stream,
    config: DpmfConfig,
    weights: FloatArray,
    number: int,
    precisions: tuple[FloatArray, FloatArray] | None = None,
) -> SweepRates:
    """Gains, pulls and noise of pass ``number``, from 1; of several precisions the least pulls here."""
    head = stream.head
    of_users, of_items = (
        (config.precision,) * 2 if precisions is None else (float(p.min()) for p in precisions)
    )
    step, low, high = config.step / number**config.decay, *config.rating_range
    mean_weight = float(weights @ head.user_counts) / max(head.n_ratings, 1)
    item_weights: FloatArray = head.item_counts.astype(np.float64) * mean_weight
    return SweepRates(
        weights=weights.astype(np.float32),
        user_rates=_rates(
            head.user_counts, weights * head.user_counts, step, head.n_ratings, config, of_users
        ),
        item_rates=_rates(head.item_counts, item_weights, step, head.n_ratings, config, of_items),
        mean=config.centre,
        biased=True,
        noisy=True,
        prediction_range=(low - config.kappa, high + config.kappa),
        user_gap=head.n_ratings // 4,
    )


def _rates(
    counts: IntArray, weights: FloatArray, step: float, ticks: int, config: DpmfConfig, precision: float
) -> Float32Array:
    """Gain and pull of a touch and deviation of a tick, per row, float32, shape (n, 3).

    A row's eta is ``step`` over the density's precision along its bias, ``precision + 2 s sum of the weights of its
    ratings``: rows with many ratings and with few settle in the same number of passes.
    """
    eta = step / (precision + 2 * config.inverse_temperature * weights)
    gain = eta * config.inverse_temperature
    pull = np.minimum(eta * precision / 2 / np.maximum(counts, 1), 1.0)
    deviation = np.sqrt(config.temperature * eta / max(ticks, 1))
    return np.column_stack([gain, pull, deviation]).astype(np.float32)


@contextmanager
def _pulled_apart(model: Factorisation, config: DpmfConfig, rates: SweepRates) -> Iterator[None]:
    """What coordinates of larger precision are pulled more, half of it before what is done inside, half after."""
    if model.precisions is None:
        yield
        return
    gains = (rates.user_rates[:, 0], rates.item_rates[:, 0])
    steps = [gain.astype(np.float64) / config.inverse_temperature for gain in gains]

    def pull() -> None:
        for side, own, step in zip((model.users, model.items), model.precisions or (), steps, strict=True):
            pull_apart(side, own, step)

    pull()
    yield
    pull()


def _draw_unrated(model: Factorisation, config: DpmfConfig, rng: np.random.Generator) -> None:
    """Items without ratings are never touched: their part of the density is the prior, drawn exactly."""
    unrated = model.stream.head.item_counts == 0
    precisions = (
        np.full(config.rank + 1, config.precision) if model.precisions is None else model.precisions[1]
    )
    # The bias has the first draw and the last precision.
    drawn = rng.standard_normal((int(unrated.sum()), config.rank + 1)) / np.sqrt(np.roll(precisions, 1))
    model.items.factors[unrated] = drawn[:, 1:]
    model.items.biases[unrated] = drawn[:, 0]
