"""AdaDPSGD against a slow, obvious version of its formulas; its promise about single users; rates by hand."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.adadpsgd.algorithm import AdaDpsgd, lipschitz_rates, weight_sums
from fedboard.common.algorithms.adadpsgd.config import (
    AdaDpsgdConfig,
    AdaDpsgdShares,
    shares_by_release,
)
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written, with_noise
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.contribution_bounding.clipping import clip_responses
from fedboard.common.contribution_bounding.personal import SCALE_STEPS, scale_contribution
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import rows_within_bounds
from fedboard.server.runtime import NoisedSums
from tests.common.algorithms.conftest import (
    N_ITEMS,
    N_USERS,
    exact_sums,
    isometric_norm,
    largest_linear,
    largest_shares,
    population,
    presence,
    through,
    without,
)

COUNTS = np.array([10.0, 40.0])
OMEGA = np.array([0.5, 0.25])


def test_rates_are_those_of_the_paper_in_its_own_units() -> None:
    """Scaling weights and noise by sqrt(beta) scales the gradient, and the rate back."""
    mu, rank, clip, steps, t = 0.8, 5, 1.5, 50, 3
    root = mu / math.sqrt(2)
    bound = clip * np.sqrt((OMEGA * root * COUNTS) ** 2 + steps * rank / 2)
    paper = 2.0 / bound / math.sqrt(t)
    ours = lipschitz_rates(
        t, diameter=2.0, clip=clip, noise_multiplier=math.sqrt(steps) / mu, rank=rank, pull=OMEGA * COUNTS
    )

    np.testing.assert_allclose(ours, paper * root, rtol=1e-12)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (WeightScheme.ADAPTIVE, [30.0, 10.0]),
        (WeightScheme.ADAPTIVE_CLIPPED, [60.0, 20.0]),
        (WeightScheme.UNIFORM, [30.0, 10.0]),
    ],
)
def test_the_sum_of_an_items_weights_is_guessed_for_average_users(
    scheme: WeightScheme, expected: list[float]
) -> None:
    """20 users with 4 ratings each, all weights alike: 1/2 on each item; sampling one of four halves that."""
    settings = AdaDpsgdConfig(weights=scheme, items_per_user=4)
    population = None if scheme is WeightScheme.ADAPTIVE_CLIPPED else 20.0
    found = weight_sums(np.array([60.0, 20.0]), np.ones(2), population, settings)

    np.testing.assert_allclose(found, expected)
    if scheme is WeightScheme.UNIFORM:
        one = weight_sums(
            np.array([60.0, 20.0]), np.ones(2), 20.0, AdaDpsgdConfig(weights=scheme, items_per_user=1)
        )
        np.testing.assert_allclose(one, [15.0, 5.0])


FEEDBACKS: dict[Feedback, dict[str, object]] = {
    Feedback.EXPLICIT: {},
    Feedback.IMPLICIT: {
        "feedback": Feedback.IMPLICIT,
        "unobserved_weight": 0.1,
        "item_unobserved_weight": 0.05,
    },
}
BUDGET = Budget(epsilon=9.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)


def a_task(epsilon: float = 5.0, **settings: object) -> AdaDpsgd:
    usual = {"rank": 4, "steps": 4, "count_cap": 10, "mean_cap": 5.0, "items_per_user": 6, "radius": 2.0}
    config = from_written({**usual, **settings}, AdaDpsgdConfig)  # type: ignore[arg-type]
    shares = shares_by_release(config, AdaDpsgdShares())
    return AdaDpsgd(with_noise(config, noise_multipliers(epsilon, 1e-5, shares)))


def rated(feedback: Feedback, **size: int) -> Cohort:
    return population(**size) if feedback is Feedback.EXPLICIT else presence(population(**size))


def a_board(task: AdaDpsgd, step: int, seed: int = 0) -> Board:
    """The board before this step, made up: everything on it is public anyway."""
    rng, s = np.random.default_rng(seed), task.settings
    counts = rng.integers(1, 40, N_ITEMS).astype(np.float64)
    omega = counts**-0.25
    factors, solved = rng.normal(0.0, 0.5, (2, N_ITEMS, s.rank)).astype(np.float32)
    gram = rng.normal(0.0, 2.0, (s.rank, s.rank))
    board = task.first_board(Catalogue(item_ids=tuple(map(str, range(N_ITEMS))))).successor(
        mean=np.array([3.4]),
        item_counts=counts,
        item_weights=omega,
        item_scale=omega * counts.sum() / (omega * counts).sum(),
        item_ridge=np.linspace(1.0, 3.0, N_ITEMS),
        item_pull=0.3 * counts**0.75,
        learnt=np.ones(N_ITEMS, dtype=np.uint8),
        item_factors=factors,
        **({"solve_factors": solved} if s.steps_per_solve > 1 else {}),
        **({"gram": gram @ gram.T} if s.shared.feedback is Feedback.IMPLICIT else {}),
    )
    return replace(board, version=step)


def toward_zero(values: np.ndarray, bound: float, units: int) -> np.ndarray:
    return np.trunc(values / bound * units) * bound / units


def obvious_rows(task: AdaDpsgd, cohort: Cohort, board: Board) -> tuple[np.ndarray, np.ndarray]:
    """Sums of clipped gradients and of v v^T, with loops; contributions on the public grid."""
    s, implicit = task.settings, task.settings.shared.feedback is Feedback.IMPLICIT
    now = board.arrays["item_factors"].astype(np.float64)
    solved = board.arrays.get("solve_factors", board.arrays["item_factors"]).astype(np.float64)
    gradient, gram = np.zeros((N_ITEMS, s.rank)), np.zeros((s.rank, s.rank))
    for j in range(cohort.n_users):
        row = cohort.rows(j, j + 1)
        if row.n_ratings == 0:
            continue
        x, omega = solved[row.items], board.arrays["item_weights"][row.items]
        y = row.ratings - (0.0 if implicit else np.float32(board.arrays["mean"][0]))
        own = x.T @ x + s.user_ridge * row.n_ratings**s.user_ridge_exponent * np.eye(s.rank)
        own += s.unobserved_weight * solved.T @ solved
        v = np.linalg.solve(own, x.T @ y)
        v = toward_zero(v * min(1.0, s.vector_bound / np.linalg.norm(v)), s.vector_bound, 2**12)
        gram += np.outer(v, v)
        for i, w, label in zip(row.items, omega / np.linalg.norm(omega), y, strict=True):
            along = -2.0 * (now[i] @ v - label)
            along *= min(1.0, s.gradient_clip / max(np.linalg.norm(along * v), 1e-300))
            along = np.clip(along, -s.response_bound, s.response_bound)
            gradient[i] += toward_zero(w, 1.0, 2**14) * toward_zero(along, s.response_bound, 2**12) * v
    return gradient, gram


def obvious_step(task: AdaDpsgd, cohort: Cohort, board: Board, noise: SeededNoise) -> np.ndarray:
    """SPEC 4.2 with loops, no grid in the sums, floating-point noise of the same deviation."""
    s, t, z = task.settings, board.version, task.settings.shared.noise_multipliers
    gradient, gram = obvious_rows(task, cohort, board)
    draws = noise.stream(f"step-{t}/gradient").normal(0, gradient.size).reshape(gradient.shape)
    gradient = gradient + z[f"step-{t}/gradient"] * s.gradient_clip * draws
    unobserved = np.zeros((s.rank, s.rank))
    if s.shared.feedback is Feedback.IMPLICIT:
        unobserved = board.arrays["gram"]
        if f"step-{t}/gram" in z:
            upper = np.triu_indices(s.rank)
            noisy = np.zeros((s.rank, s.rank))
            noisy[upper] = z[f"step-{t}/gram"] * noise.stream(f"step-{t}/gram").normal(0, upper[0].size)
            noisy[upper] *= s.vector_bound**2 * np.where(upper[0] == upper[1], 1.0, np.sqrt(0.5))
            values, vectors = np.linalg.eigh(gram + noisy + np.triu(noisy, 1).T)
            unobserved = (vectors * np.maximum(values, 0.0)) @ vectors.T
    start = board.arrays["item_factors"].astype(np.float64)
    moved = np.empty_like(start)
    for i, u in enumerate(start):
        reg, pull = board.arrays["item_ridge"][i], board.arrays["item_pull"][i]
        alpha = s.item_unobserved_weight * board.arrays["item_scale"][i]
        velocity = gradient[i] - 2 * reg * u - 2 * alpha * unobserved @ u
        curvature = 2 * reg + 2 * alpha * np.linalg.eigvalsh(unobserved)[-1]
        largest = s.gradient_clip * np.sqrt(pull**2 + z[f"step-{t}/gradient"] ** 2 * s.rank)
        eta = s.rate / (largest * np.sqrt(t) / (2 * s.radius) + curvature)
        moved[i] = u + eta * velocity
        moved[i] *= min(1.0, s.radius / np.linalg.norm(moved[i]))
    return moved


def updated(task: AdaDpsgd, cohort: Cohort, board: Board, noise: SeededNoise, path: Path) -> Board:
    requests = task.requests(board)
    sums = FactoredSums.of(task.contribute(cohort, board, requests))
    with Ledger.create(path, BUDGET) as ledger:
        booked = {r.name: r.release.book(ledger, noise) for r in requests}
    return task.update(board, NoisedSums(sums=sums, requests=requests, booked=booked))


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_clip": 7.0},
        {"gradient_clip": 0.3, "steps_per_solve": 2},
        {"gradient_clip": 1.0, "vector_bound": 0.4, "steps_per_solve": 3, "rate": 0.5, "radius": 0.5},
    ],
)
@pytest.mark.parametrize("feedback", list(Feedback))
def test_a_step_is_what_a_slow_obvious_version_computes(
    tmp_path: Path, feedback: Feedback, settings: dict[str, object], step: int
) -> None:
    cohort = rated(feedback, n_users=150)
    task = a_task(**FEEDBACKS[feedback], **settings)
    board, noise = a_board(task, step), SeededNoise(3)

    new = updated(task, cohort, board, noise, tmp_path / "l")

    expected = obvious_step(task, cohort, board, noise)
    found = new.arrays["item_factors"]
    moved = np.linalg.norm(expected - board.arrays["item_factors"])
    assert np.linalg.norm(found - expected) <= 2e-4 * moved
    if task.settings.steps_per_solve > 1:
        solves_next = step % task.settings.steps_per_solve == 0
        kept = found if solves_next else board.arrays["solve_factors"]
        np.testing.assert_array_equal(new.arrays["solve_factors"], kept)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", list(WeightScheme))
@pytest.mark.parametrize("feedback", list(Feedback))
def test_no_user_moves_a_sum_by_more_than_the_booked_bound(scheme: WeightScheme, feedback: Feedback) -> None:
    cohort = rated(feedback)
    task = a_task(weights=scheme, gradient_clip=0.2, vector_bound=0.5, **FEEDBACKS[feedback])
    board = a_board(task, 1)
    gradient = next(r.release for r in task.requests(board) if r.name == "step-1/gradient")
    largest = largest_shares(task, cohort, [board])

    assert max(largest.values()) <= 1.0
    # What is booked is the clipping norm itself, and some user spends nearly all of it.
    assert math.isclose(gradient.l2_bound * gradient.grid_step, 0.2, rel_tol=1e-4)
    if scheme is WeightScheme.ADAPTIVE:
        assert largest["step-1/gradient"] > (0.9 if feedback is Feedback.EXPLICIT else 0.5)


def twin(task: AdaDpsgd, cohort: Cohort, board: Board) -> Contribution:
    """The same contribution with gradients as they are."""
    unclipped = replace(task, settings=replace(task.settings, gradient_clip=1e6))
    requests = unclipped.requests(board)
    return unclipped.contribute(cohort, board, requests)


def test_without_clipping_each_example_the_booked_bound_would_not_hold() -> None:
    task, cohort = a_task(gradient_clip=0.2), population()
    board = a_board(task, 1)
    requests = task.requests(board)

    honest, broken = task.contribute(cohort, board, requests), twin(task, cohort, board)

    assert rows_within_bounds(honest, requests).all()
    # Whoever sends that is noticed on the device and at the aggregator.
    assert not rows_within_bounds(broken, requests).all()
    assert largest_linear(broken, requests) > 1.5


def test_clipping_each_items_sum_instead_would_bound_nobodys_part() -> None:
    """Line 5 of the paper's algorithm 2, taken literally."""
    clip, cohort = 0.2, population(n_users=6)
    task = a_task(gradient_clip=clip)
    board = a_board(task, 1)
    (request,) = task.requests(board)

    def clipped_sums(rows: Cohort) -> np.ndarray:
        found = whole_sums(FactoredSums.of(twin(task, rows, board)), [request])[request.name]
        sums = found * request.release.grid_step
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return sums * np.minimum(1.0, clip / np.maximum(norms, 1e-300))

    moved = [np.linalg.norm(clipped_sums(cohort) - clipped_sums(without(cohort, j))) for j in range(6)]
    honest = [
        np.linalg.norm(exact_sums(task, cohort.rows(j, j + 1), board)[request.name])
        * request.release.grid_step
        for j in range(6)
    ]

    assert max(moved) > 2 * clip
    assert max(honest) <= clip


@pytest.mark.parametrize("feedback", list(Feedback))
def test_a_personal_scale_shrinks_a_users_part_by_itself(feedback: Feedback) -> None:
    task, cohort = a_task(gradient_clip=0.2, **FEEDBACKS[feedback]), rated(feedback)
    board = a_board(task, 1)
    requests = task.requests(board)
    whole = task.contribute(cohort, board, requests)
    scale = np.floor(0.3 * SCALE_STEPS) / SCALE_STEPS

    scaled = scale_contribution(whole, requests, np.full(N_USERS, scale))

    for request in requests:
        for j in range(N_USERS):
            keep = np.arange(N_USERS) == j
            before, after = (
                isometric_norm(request, whole_sums(FactoredSums.of(rows, keep=keep), [request])[request.name])
                for rows in (whole, scaled)
            )
            assert after <= scale * request.release.l2_bound
            assert 0.9 * scale * before <= after <= 1.001 * scale * before


def test_every_release_has_the_noise_of_the_plan_in_real_units(tmp_path: Path) -> None:
    """Published with nobody there, a release is its noise; a tenth more or less would be seen."""
    task = a_task(20.0, steps=2, gradient_clip=0.7, vector_bound=1.5, **FEEDBACKS[Feedback.IMPLICIT])
    z, board = task.settings.shared.noise_multipliers, a_board(task, 1)
    nobody = population().rows(0, 1)  # has no rating
    wide = replace(nobody, n_items=4000)
    board = replace(
        board,
        catalogue=Catalogue(item_ids=tuple(map(str, range(4000)))),
        arrays={
            name: np.resize(value, (4000, *value.shape[1:])) if value.shape[0] == N_ITEMS else value
            for name, value in board.arrays.items()
        },
    )
    requests, noise = task.requests(board), SeededNoise(1)
    sums = FactoredSums.of(task.contribute(wide, board, requests))
    with Ledger.create(tmp_path / "l", replace(BUDGET, epsilon=20.0)) as ledger:
        booked = {r.name: r.release.book(ledger, noise) for r in requests}
        events = {str(event["name"]): event for event in ledger.events()}
    released = NoisedSums(sums=sums, requests=requests, booked=booked)

    found = released.array("step-1/gradient").std() / (z["step-1/gradient"] * 0.7)
    assert abs(found - 1.0) < 0.03
    for request in requests:
        assert events[request.name]["noise_multiplier"] == z[request.name]
    with pytest.raises(PrivacyError):  # each is published once
        released.array("step-1/gradient")


@pytest.mark.parametrize("feedback", list(Feedback))
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_lost_step_is_skipped(tmp_path: Path, feedback: Feedback, lost: int) -> None:
    task, cohort = a_task(steps_per_solve=2, **FEEDBACKS[feedback]), rated(feedback)
    with Ledger.create(tmp_path / "l", BUDGET) as ledger:
        *_, board = through(task, cohort, ledger, lost=lost)

    assert board.version == task.settings.steps + 1
    assert np.isfinite(board.arrays["item_factors"]).all()


def test_a_bound_beyond_what_the_grid_can_hold_is_that_of_the_grid() -> None:
    task = a_task(gradient_clip=1e6, vector_bound=1.0)
    (request,) = task.requests(a_board(task, 1))

    assert request.release.l2_bound * request.release.grid_step == 8.0  # 2 (5 - 1) times a vector of length 1
    assert clip_responses(np.array([8.0]), task.settings.response_bound)[0] == 2**12
