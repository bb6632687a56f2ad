"""The task: what it asks, what is booked, and where it arrives."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.algorithms.representation.algorithm import (
    Representation,
    leading_directions,
    solved_step,
)
from fedboard.common.algorithms.representation.config import (
    AlternationTarget,
    LossName,
    RepresentationConfig,
    calibrated,
)
from fedboard.common.algorithms.representation.device import GRID
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from tests.common.algorithms.representation.conftest import (
    DIMENSION,
    RANK,
    SETTINGS,
    catalogue,
    started_board,
)


def test_the_plan_is_what_the_rounds_ask_for_with_the_boards_sizes() -> None:
    task = Representation(SETTINGS)
    board = task.first_board(catalogue())
    planned = [[request.name for request in requests] for requests in task.plan()]

    asked = []
    while requests := task.requests(board):
        asked.append([request.name for request in requests])
        widths = {request.name: request.release.width for request in requests}
        assert all(request.release.l2_bound == GRID for request in requests)
        board = board.successor()

    assert asked == planned
    assert planned[0] == ["initialisation"]
    assert planned[1] == ["round-1/curvature", "round-1/gradient"]
    assert widths == {"round-3/curvature": 21 * 3, "round-3/gradient": DIMENSION * RANK}


@pytest.mark.parametrize("cohorts", [1, 3])
def test_calibration_spends_the_budget_of_one_user_and_no_more(cohorts: int) -> None:
    settings = calibrated(RepresentationConfig(cohorts=cohorts), epsilon=2.0, delta=1e-6)

    hers = [
        z
        for name, z in settings.noise_multipliers.items()
        if cohorts == 1 or name.startswith(("initialisation", "round-2"))
    ]
    assert epsilon_of(1e-6, mu=compose(hers)) == pytest.approx(2.0, rel=1e-9)


def test_without_noise_nothing_can_be_asked() -> None:
    task = Representation(RepresentationConfig(rank=RANK))

    with pytest.raises(PrivacyError, match="noise multiplier"):
        task.requests(task.first_board(catalogue()))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"step_bounds": ()}, "step_bounds"),
        ({"step_bounds": (0.1, -1.0)}, "step_bounds"),
        ({"cohorts": 2}, "cohorts"),
        ({"loss": LossName.LOGISTIC, "answer": AlternationTarget.RESPONSE}, "answer"),
    ],
)
def test_settings_out_of_range_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        RepresentationConfig(**wrong)  # type: ignore[arg-type]


def test_a_rank_above_the_features_is_refused() -> None:
    with pytest.raises(InputError, match="features"):
        Representation(replace(SETTINGS, rank=DIMENSION + 1)).first_board(catalogue())


def test_replacing_a_user_doubles_the_sensitivity() -> None:
    one = Representation(SETTINGS).requests(started_board())[0].release
    two = Representation(replace(SETTINGS, adjacency=Adjacency.REPLACE)).requests(started_board())[0].release

    assert two.noise_stddev == pytest.approx(2 * one.noise_stddev)


def test_the_start_takes_the_leading_eigenvectors() -> None:
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
    matrix = basis @ np.diag([-9.0, 5.0, 1.0, 4.0, 0.0]) @ basis.T

    found = leading_directions(matrix, 2)

    np.testing.assert_allclose(abs(found.T @ basis), [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0]], atol=1e-9)


def test_where_noise_hides_the_curvature_the_step_is_short() -> None:
    curvature, gradient = np.zeros(3 * 1), np.ones(2)

    step = solved_step(curvature, gradient, dimension=2, noise_stddev=10.0)

    assert np.linalg.norm(step) == pytest.approx(np.sqrt(2) / (10.0 * np.sqrt(2 * 2)))
