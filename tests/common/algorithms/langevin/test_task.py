"""Private Langevin steps: what is released of each user, the arithmetic of a step, and a small run."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.algorithms.langevin.algorithm import (
    Langevin,
    LangevinConfig,
    LangevinShares,
    shares_by_release,
    step_length,
)
from fedboard.common.algorithms.residual.device import ItemModel, Unclipped, fit_users, residuals
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written, with_noise
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import rows_within_bounds
from tests.common.algorithms.conftest import (
    N_ITEMS,
    N_USERS,
    largest_linear,
    largest_shares,
    population,
)

EPSILON, DELTA = 5.0, 1e-5


class Given:
    """Released sums that are given."""

    def __init__(self, sums: dict[str, np.ndarray]) -> None:
        self._sums = sums

    def array(self, name: str) -> np.ndarray:
        return self._sums[name]

    def map_items(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("this task reads its releases whole")


def langevin_task(**changed: object) -> Langevin:
    settings: dict[str, object] = {"rank": 3, "steps": 3, "most_ratings": 6, "clip_norm": 0.6} | changed
    config = from_written(settings, LangevinConfig)  # type: ignore[arg-type]
    multipliers = noise_multipliers(EPSILON, DELTA, shares_by_release(config, LangevinShares()))
    return Langevin(with_noise(config, multipliers))


def langevin_boards(task: Langevin, cohort: Cohort) -> list[Board]:
    """One board for each round, from sums without noise."""
    found = [task.first_board(Catalogue(item_ids=tuple(map(str, range(N_ITEMS)))))]
    while requests := task.requests(found[-1]):
        sums = whole_sums(FactoredSums.of(task.contribute(cohort, found[-1], requests)), requests)
        real = {r.name: sums[r.name] * r.release.grid_step for r in requests}
        found.append(task.update(found[-1], Given(real)))
    return found


def unclipped(task: Langevin, cohort: Cohort, board: Board) -> Unclipped:
    settings = task.settings
    model = ItemModel(
        mean=float(board.arrays["mean"][0]),
        biases=board.arrays["item_biases"],
        factors=np.asarray(board.arrays["item_factors"]),
    )
    local = fit_users(cohort, model, settings.model, backend="numpy", user_ridge=settings.user_ridge)
    return Unclipped.of(
        cohort,
        task.weigh(cohort, board),
        residuals(cohort, local, model),
        np.hstack([np.full((cohort.n_users, 1), settings.bias_scale), local[:, 1:]]),
        residual_bound=settings.model.residual_bound,
        vector_bound=settings.vector_bound,
    )


@pytest.mark.parametrize(
    "changed", [{}, {"largest_weight": 4.0}, {"clip_norm": 0.05}, {"weight_exponent": 0.5}]
)
def test_no_user_moves_a_gradient_by_more_than_the_booked_bound(changed: dict[str, object]) -> None:
    task, cohort = langevin_task(**changed), population()
    largest = largest_shares(task, cohort, langevin_boards(task, cohort)[:-1])

    assert max(largest.values()) <= 1.0
    steps = [share for name, share in largest.items() if name.startswith("step-")]
    assert max(steps) > 0.97  # the bound is not idle


def test_without_the_joint_clip_the_booked_bound_would_not_hold() -> None:
    task, cohort = langevin_task(clip_norm=0.3), population()
    board = langevin_boards(task, cohort)[1]
    (request,) = task.requests(board)
    part = unclipped(task, cohort, board)
    clip_norm = float(board.arrays["clip_norm"][0])

    honest, twin = part.clipped(part.norms(), clip_norm), part.clipped(np.zeros(N_USERS), clip_norm)

    np.testing.assert_array_equal(honest.responses, task.contribute(cohort, board, (request,)).responses)
    assert largest_linear(honest, (request,)) <= 1.0
    assert largest_linear(twin, (request,)) > 1.5
    assert not rows_within_bounds(twin, (request,)).all()


def test_a_user_gives_gradients_of_at_most_tau_ratings() -> None:
    task, cohort = langevin_task(), population()
    board = langevin_boards(task, cohort)[1]

    weights = task.contribute(cohort, board, task.requests(board)).weights

    assert weights is not None
    given = np.add.reduceat(np.append(weights > 0, False), cohort.indptr[:-1]) * (cohort.counts > 0)
    np.testing.assert_array_equal(given, np.minimum(cohort.counts, 6))


def test_a_step_is_the_gradient_of_the_log_density_and_noise_of_the_right_size() -> None:
    task, cohort = langevin_task(step_limit=1e9, clip_norm=1e3, likelihood=0.7), population()
    board = langevin_boards(task, cohort)[1]
    (request,) = task.requests(board)
    settings, roots = task.settings, np.asarray(board.arrays["item_weights"])
    part = unclipped(task, cohort, board)
    exact = np.zeros((N_ITEMS, settings.width))
    of_entry = (part.weights * part.residuals)[:, None] * part.vectors[cohort.user_of_entry()]
    np.add.at(exact, cohort.items, of_entry)

    moved = task.update(board, Given({request.name: exact}))
    noise = np.random.default_rng(0).standard_normal(exact.shape) * real_stddev(request)
    disturbed = task.update(board, Given({request.name: exact + noise}))

    def state(of: Board) -> np.ndarray:
        biases = of.arrays["item_biases"].astype(float) / settings.bias_scale
        return np.column_stack([biases, of.arrays["item_factors"]])

    before, length = state(board), step_length(board, request, settings)
    # d log density / d B_i = 2 s sum of w_j r x - precision B_i, by the weights before the preconditioner.
    slope = 2 * settings.likelihood * exact / roots[:, None] - settings.precision * before
    np.testing.assert_allclose(state(moved), before + length / 2 * (roots**2)[:, None] * slope, atol=1e-5)
    # Langevin noise at temperature 1: variance (length) x (preconditioner).
    added = (state(disturbed) - state(moved)) / (np.sqrt(length) * roots[:, None])
    assert abs(np.std(added) - 1.0) < 0.2
    assert moved.arrays["temperature"][0] == pytest.approx(1.0)


def test_a_step_longer_than_the_limit_is_cut_and_colder() -> None:
    task, cohort = langevin_task(step_limit=1e-3), population()

    boards = langevin_boards(task, cohort)

    assert 0 < boards[2].arrays["temperature"][0] < 0.5
    free = langevin_task(step_limit=1e9)
    (request,) = task.requests(boards[1])
    assert step_length(boards[1], request, task.settings) < step_length(boards[1], request, free.settings)


def test_the_last_board_is_the_mean_of_the_last_states() -> None:
    cohort = population()
    single, averaged = (langevin_boards(langevin_task(averaged_steps=k), cohort) for k in (1, 2))

    mean = (single[-1].arrays["item_factors"] + single[-2].arrays["item_factors"]) / 2

    np.testing.assert_allclose(averaged[-1].arrays["item_factors"], mean, atol=1e-6)
    np.testing.assert_array_equal(averaged[-2].arrays["item_factors"], single[-2].arrays["item_factors"])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"feedback": Feedback.IMPLICIT}, "feedback"),
        ({"averaged_steps": 4}, "averaged_steps"),
        ({"bias_scale": 2.0}, "bias_scale"),
    ],
)
def test_settings_out_of_range_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        langevin_task(**wrong)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf])
def test_a_board_that_states_no_bound_of_a_contribution_is_refused(bound: float) -> None:
    task = langevin_task()
    board = langevin_boards(task, population())[1]
    board = replace(board, arrays={**board.arrays, "clip_norm": np.array([bound])})

    with pytest.raises(InputError, match="clip_norm"):
        task.requests(board)
