"""Many small linear regressions that share users: the synthetic problem of Krichene et al. (2023), appendix C.

Task i has theta_i, user j has x_j; both are Gaussian vectors in d dimensions, projected on the unit ball. User j
gives ``y_ij = <theta_i, x_j> + N(0, 0.001^2)`` to task i with probability q_i, where the q_i follow the density
``a x^(a - 1)`` on [0, 1] and are scaled to sum to 20: 20 tasks a user, q_i n users a task. Users' vectors are known
to their owners, so one release, or one descent, ends it: no alternation. The sizes n_i are exact and public, as in
the paper.

Everything goes the way of a real run: contributions on the integer grid, exact sums, a ledger that pays for noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedboard import Budget, Ledger
from fedboard.common import kernels
from fedboard.common.algorithms.adadpsgd.algorithm import lipschitz_rates, weight_sums
from fedboard.common.algorithms.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.arrays import FloatArray, ShortArray
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import (
    LINEAR_BOUND,
    QUADRATIC_BOUND,
    VECTOR_BOUND,
    clip_responses,
    clip_vectors,
    quantise_weights,
)
from fedboard.common.contribution_bounding.weights import WeightScheme, entry_weights, item_weights
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, ItemIndex, index_by_item
from fedboard.common.protocols.sums.row_bounds import rows_within_bounds
from fedboard.server.runtime import NoisedSums
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.ratings import Triples
from fedboard.simulations.data.splits.coins import SplitCoins, below

_LABEL_NOISE = 1e-3
_TEST_SHARE = 0.2
_INSIDE = 1.0 - 1e-6  # keeps a clipped gradient inside its bound whatever floating point does
_LARGEST_RESPONSE = 4.0  # 2 |<theta, x> - y| with theta and x in the unit ball, but for the labels' noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large the problem is; the defaults are the paper's."""

    n_tasks: int = 100
    n_users: int = 10_000
    dimension: int = 5
    tasks_per_user: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Regressions:
    """One drawn problem."""

    train: Cohort
    """Tasks are its items, y_ij its ratings. Private."""
    test: Triples
    features: FloatArray
    """x_j: float64, shape (n_users, d), norm <= 1. Private."""
    counts: FloatArray
    """n_i >= 1 in training: float64, shape (n_tasks,). Public in this experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solver:
    """How the private algorithms are set; the paper leaves these to its code."""

    epsilon: float
    delta: float = 1e-5
    exponent: float = 0.5
    """mu of the weights ``n_i^-mu``; 0 is the unweighted objective."""
    ridge: float = 1.0
    """lambda of the sufficient statistics, in units of a weight of 1."""
    gradient_clip: float = 1.0
    """Gamma of gradient descent; labels are at most 1 but for noise, so is Gamma_y of the statistics."""
    radius: float = 1.0
    """Of the domain that gradient descent projects on."""
    most_steps: int = 30
    """Theorem 3.12 asks for thousands of steps here; more than these change little."""
    seed: int = 0


def draw_regressions(skew: float, seed: int, sizes: Sizes = Sizes()) -> Regressions:
    """Draw the problem.

    Args:
        skew: a > 0 of the density of task sizes; the smaller, the longer the tail.
        seed: of everything that is drawn; what a user gives, and what of it is held out, does not depend on how
            many come after her.
        sizes: how large.
    """
    of_tasks, of_users, of_pairs, of_labels = (np.random.default_rng([seed, part]) for part in range(4))
    n, m = sizes.n_users, sizes.n_tasks
    share = of_tasks.random(m) ** (1.0 / skew)
    share *= sizes.tasks_per_user / share.sum()
    parameters = _in_unit_ball(of_tasks.standard_normal((m, sizes.dimension)))
    features = _in_unit_ball(of_users.standard_normal((n, sizes.dimension)))
    users, tasks = (part.astype(np.int32) for part in np.nonzero(of_pairs.random((n, m)) < share))
    labels = np.einsum("pd,pd->p", features[users], parameters[tasks])
    labels = (labels + of_labels.normal(0.0, _LABEL_NOISE, labels.size)).astype(np.float32)
    keys = id_keys(range(n), Kind.USER), id_keys(range(m), Kind.ITEM)
    held_out = below(SplitCoins(seed).of_ratings(*keys, users, tasks), _TEST_SHARE)
    known = ~held_out
    train = cohort_from_triples(users[known], tasks[known], labels[known], n_users=n, n_items=m)
    return Regressions(
        train=train,
        test=Triples(users=users[held_out], items=tasks[held_out], values=labels[held_out]),
        features=features,
        counts=np.maximum(np.bincount(train.items, minlength=m), 1).astype(np.float64),
    )


def rmse_of(problem: Regressions, parameters: FloatArray) -> float:
    """Root mean square error over all held-out examples."""
    test = problem.test
    predicted = np.einsum("pd,pd->p", problem.features[test.users], parameters[test.items])
    return float(np.sqrt(np.mean((predicted - test.values) ** 2)))


def solve_statistics(problem: Regressions, solver: Solver, scratch: Path) -> FloatArray:
    """Algorithm 1: ``theta_i = (PSD(sum w x x^T + noise) + ridge I)^-1 (sum w y x + noise)``, both sums private.

    Returns:
        float64, shape (n_tasks, d).
    """
    run = _Run(problem, solver)
    names, rank = ("quadratic", "linear"), problem.features.shape[1]
    z = math.sqrt(2.0) / run.mu
    requests = (
        _request(
            SumSource.ITEM_QUADRATIC,
            names[0],
            problem,
            z,
            1.0 / QUADRATIC_BOUND,
            width=rank * (rank + 1) // 2,
        ),
        _request(SumSource.ITEM_LINEAR, names[1], problem, z, 1.0 / LINEAR_BOUND, width=rank),
    )
    labels = clip_responses(problem.train.ratings, 1.0)
    with _ledger(scratch, solver) as ledger:
        released = run.release(requests, run.contribution(labels), ledger)
    ridge = np.full(problem.counts.size, solver.ridge)
    left, right = (released.array(name) for name in names)
    return kernels.solve_psd(left, right, ridge=ridge, gram=None, backend="numpy").astype(np.float64)


def solve_descent(problem: Regressions, solver: Solver, scratch: Path) -> FloatArray:
    """Algorithm 2 with the rates of theorem 3.12 (a), each example's gradient clipped, projected on the ball.

    Returns:
        The last iterate, float64, shape (n_tasks, d).
    """
    run, steps = _Run(problem, solver), step_count(problem, solver)
    z, rank = math.sqrt(steps) / run.mu, problem.features.shape[1]
    theta = np.zeros((problem.counts.size, rank))
    with _ledger(scratch, solver) as ledger:
        for t in range(1, steps + 1):
            request = descent_request(f"step-{t}", problem, solver, z)
            released = run.release((request,), run.contribution(run.responses(theta, solver)), ledger)
            rates = lipschitz_rates(
                t,
                diameter=2.0 * solver.radius,
                clip=solver.gradient_clip,
                noise_multiplier=z,
                rank=rank,
                pull=run.pull,
            )
            theta += rates[:, None] * released.array(request.name)
            theta *= (solver.radius / np.maximum(np.linalg.norm(theta, axis=1), solver.radius))[:, None]
    return theta


def descent_request(name: str, problem: Regressions, solver: Solver, noise_multiplier: float) -> Request:
    """The weighted, clipped gradients of one step; a user's whole part has norm at most Gamma."""
    unit = _LARGEST_RESPONSE / LINEAR_BOUND
    bound = min(math.floor(solver.gradient_clip / unit), LINEAR_BOUND)
    width = problem.features.shape[1]
    return _request(SumSource.ITEM_LINEAR, name, problem, noise_multiplier, unit, width=width, l2_bound=bound)


def lipschitz_step_count(mu: float, rank: int, counts: FloatArray, omega: FloatArray) -> float:
    """Steps at which optimisation and noise cost the same, part (a): ``mu^2 / d  sum n_i^2 / sum omega_i^-2``.

    Args:
        mu: of all steps together, > 0.
        rank: d.
        counts: n_i, float64, shape (n_tasks,): released, or public.
        omega: average weight of an example of the task, float64, shape (n_tasks,). Public.
    """
    return mu**2 / rank * float(np.sum(counts**2) / np.sum(omega**-2.0))


def step_count(problem: Regressions, solver: Solver) -> int:
    """T of theorem 3.12 (a), at most ``most_steps``."""
    run = _Run(problem, solver)
    wanted = lipschitz_step_count(
        run.mu, problem.features.shape[1], problem.counts, run.pull / problem.counts
    )
    return max(1, min(round(wanted), solver.most_steps))


class _Run:
    """What both algorithms share: weights, vectors on the grid, and the way from rows to noised sums."""

    def __init__(self, problem: Regressions, solver: Solver) -> None:
        self.problem, train = problem, problem.train
        self.mu = mu_for(solver.epsilon, solver.delta)
        omega = item_weights(WeightScheme.ADAPTIVE, problem.counts, exponent=solver.exponent)
        weights = entry_weights(WeightScheme.ADAPTIVE, train, omega)
        self.pull = weight_sums(problem.counts, omega, float(train.n_users), AdaDpsgdConfig())
        self.weights = quantise_weights(weights)
        self.vectors = clip_vectors(problem.features, 1.0)
        self.index: ItemIndex = index_by_item(train.indptr, train.items, train.n_items)
        self.noise = SeededNoise(solver.seed)
        self.rows = train.user_of_entry()

    def responses(self, theta: FloatArray, solver: Solver) -> ShortArray:
        """-2 (<theta_i, x_j> - y_ij), scaled so that its product with x_j is no longer than Gamma."""
        train, features = self.problem.train, self.vectors.astype(np.float64) / VECTOR_BOUND
        longest = _INSIDE * solver.gradient_clip / np.maximum(np.linalg.norm(features, axis=1), 1e-300)
        errors = train.ratings - np.einsum("pd,pd->p", theta[train.items], features[self.rows])
        clipped = np.clip(2.0 * errors, -longest[self.rows], longest[self.rows])
        return clip_responses(clipped, _LARGEST_RESPONSE)

    def contribution(self, responses: ShortArray) -> Contribution:
        """Everybody's rows."""
        train = self.problem.train
        return Contribution(
            n_items=train.n_items,
            indptr=train.indptr,
            items=train.items,
            weights=self.weights,
            vectors=self.vectors,
            responses=responses,
        )

    def release(self, requests: Sequence[Request], rows: Contribution, ledger: Ledger) -> NoisedSums:
        """Check bounds, sum, pay, add noise."""
        keep = rows_within_bounds(rows, requests)
        sums = FactoredSums.of(rows, keep=keep, index=self.index if keep.all() else None)
        booked = {r.name: r.release.book(ledger, self.noise) for r in requests}
        return NoisedSums(sums=sums, requests=requests, booked=booked)


def _request(
    source: SumSource,
    name: str,
    problem: Regressions,
    z: float,
    grid_step: float,
    *,
    width: int,
    l2_bound: int = LINEAR_BOUND,
) -> Request:
    quadratic = source is SumSource.ITEM_QUADRATIC
    return Request(
        source=source,
        release=GaussianRelease(
            name=name,
            rows=problem.counts.size,
            width=width,
            layout="symmetric" if quadratic else "vector",
            grid_step=grid_step,
            l2_bound=l2_bound,
            same_sign=quadratic,
            adjacency=Adjacency.ADD_REMOVE,
            noise_multiplier=z,
            covers="weighted statistics of linear regressions",
        ),
    )


def _in_unit_ball(vectors: FloatArray) -> FloatArray:
    return np.asarray(
        vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1.0), dtype=np.float64
    )


def _ledger(scratch: Path, solver: Solver) -> Ledger:
    """A ledger of its own for this run: one epsilon is all it may spend."""
    number = sum(1 for _ in scratch.glob("regression-*.ledger"))
    budget = Budget(epsilon=solver.epsilon, delta=solver.delta, adjacency=Adjacency.ADD_REMOVE)
    return Ledger.create(scratch / f"regression-{number}.ledger", budget)
