"""Private FedRep: what a user can move, what noise there is for it, what is booked, and that it learns."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedboard.common.algorithms.representation.algorithm import representation_of
from fedboard.common.algorithms.representation.config import LossName
from fedboard.common.algorithms.representation.device import GRID
from fedboard.common.algorithms.supervised.examples import Examples
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from research.jain.fedrep_private import (
    USERS,
    FedRepConfig,
    FedRepPrivate,
    FedRepShares,
    calibrated,
    gradient_name,
    gradient_rows,
)
from tests.common.algorithms.representation.conftest import (
    DIMENSION,
    RANK,
    catalogue,
    orthonormal,
    population,
)

PSI = 0.25
SETTINGS = calibrated(FedRepConfig(rank=RANK, clip_norms=(1.0, PSI)), epsilon=5.0, delta=1e-6)


def started(settings: FedRepConfig = SETTINGS, rounds: int = 2) -> Board:
    """The board before that round of gradients."""
    board = FedRepPrivate(settings).first_board(catalogue())
    for _ in range(rounds):
        board = board.successor(representation=orthonormal(rank=settings.rank))
    return board


def real_rows(settings: FedRepConfig, examples: Examples, board: Board) -> dict[str, FloatArray]:
    """What each user gives, in real units: what the release's own grid makes of it."""
    task = FedRepPrivate(settings)
    requests = task.requests(board)
    totals = task.contribute(examples, board, requests).totals
    return {request.name: totals[request.name] * request.release.grid_step for request in requests}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("loss", list(LossName))
def test_no_user_moves_a_sum_by_more_than_psi_and_some_by_as_much(loss: LossName, split: bool) -> None:
    """The bound is reached, so a factor in it would show on either side."""
    settings = replace(SETTINGS, loss=loss, split_examples=split)
    examples = population(users=60, binary=loss is LossName.LOGISTIC)

    rows = real_rows(settings, examples, started(settings))[gradient_name(2)]

    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() <= PSI
    assert norms[1] == pytest.approx(PSI, rel=1e-5)  # the one with huge examples
    assert norms[0] == norms[3] == 0.0


@pytest.mark.parametrize(("adjacency", "times"), [(Adjacency.ADD_REMOVE, 1.0), (Adjacency.REPLACE, 2.0)])
def test_noise_is_the_multiplier_times_what_one_user_can_move(adjacency: Adjacency, times: float) -> None:
    """Measured against the rows themselves, not against what a request says of them."""
    settings = replace(SETTINGS, adjacency=adjacency)
    examples = population(users=60)
    task = FedRepPrivate(settings)
    for board in (task.first_board(catalogue()), started(settings)):
        rows = real_rows(settings, examples, board)
        for request in task.requests(board):
            longest = float(np.linalg.norm(rows[request.name], axis=1).max())
            release = request.release
            noise = release.noise_stddev * release.grid_step
            booked = release.event()["noise_multiplier"]
            assert booked == settings.noise_multipliers[request.name]
            assert noise == pytest.approx(booked * times * longest, rel=1e-5)


def test_what_is_asked_spends_the_budget_and_no_more() -> None:
    """Of the requests that are made, release by release, not of what calibration says it gave."""
    task, board = FedRepPrivate(SETTINGS), FedRepPrivate(SETTINGS).first_board(catalogue())
    booked: list[float] = []
    while requests := task.requests(board):
        booked += [float(request.release.event()["noise_multiplier"]) for request in requests]
        board = board.successor(representation=orthonormal())

    assert len(booked) == 2 + SETTINGS.rounds
    assert epsilon_of(1e-6, mu=compose(booked)) == pytest.approx(5.0, rel=1e-9)


def test_a_gradient_is_that_of_the_mean_loss_of_the_users_own_vector() -> None:
    """By differences of the loss itself, with v held where the user's solve left it."""
    settings = replace(SETTINGS, clip_norms=(1.0, 1e6))
    generator = np.random.default_rng(3)
    features = generator.standard_normal((9, DIMENSION)).astype(np.float32)
    labels = generator.standard_normal(9).astype(np.float32)
    one = Examples(indptr=np.array([0, 9]), features=features, labels=labels)
    board = started(settings)
    found = real_rows(settings, one, board)[gradient_name(2)][0].reshape(DIMENSION, RANK)
    u = representation_of(board)
    v = FedRepPrivate(settings).fit_local(one, board)[0]

    def loss(moved: FloatArray) -> float:
        return float(np.mean((features.astype(np.float64) @ moved @ v - labels) ** 2) / 2)

    step = 1e-5
    for place in np.ndindex(DIMENSION, RANK):
        nudge = np.zeros_like(u)
        nudge[place] = step
        slope = (loss(u + nudge) - loss(u - nudge)) / (2 * step)
        assert found[place] == pytest.approx(-slope, abs=2e-3 * np.abs(found).max() + 1.0 / GRID * 1e6)


class Released:
    """Sums of what everybody gives, without noise."""

    noise_ratio = 1.0

    def __init__(self, task: FedRepPrivate, examples: Examples, board: Board) -> None:
        requests = task.requests(board)
        totals: Mapping[str, np.ndarray] = task.contribute(examples, board, requests).totals
        self.sums = {r.name: totals[r.name].sum(axis=0) * r.release.grid_step for r in requests}

    def array(self, name: str) -> FloatArray:
        return self.sums[name][None, :]

    def map_items(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("nothing here is per item")


def test_without_noise_it_finds_what_the_users_share() -> None:
    generator = np.random.default_rng(0)
    truth = orthonormal(5)
    vectors = generator.standard_normal((300, RANK))
    features = generator.standard_normal((300 * 8, DIMENSION)).astype(np.float32)
    labels = np.einsum("nk,nk->n", features @ truth, np.repeat(vectors, 8, axis=0)).astype(np.float32)
    examples = Examples(indptr=np.arange(301) * 8, features=features, labels=labels)
    settings = FedRepConfig(rank=RANK, clip_norms=(1.0, 0.5, 0.2, 0.1, 0.05))
    task = FedRepPrivate(calibrated(settings, epsilon=5.0, delta=1e-6))
    board = task.first_board(catalogue())
    far = []
    while task.requests(board):
        board = task.update(board, Released(task, examples, board))  # type: ignore[arg-type]
        far.append(
            float(np.linalg.norm(truth - representation_of(board) @ (representation_of(board).T @ truth)))
        )

    assert far[-1] < 1e-2 < far[0]
    assert all(later < before for before, later in pairwise(far))
    assert board.arrays["users"][0] == pytest.approx(300)


def test_nothing_of_the_size_of_the_square_is_asked_for() -> None:
    task = FedRepPrivate(SETTINGS)
    widths = [
        [r.release.width for r in task.requests(board)]
        for board in (task.first_board(catalogue()), started())
    ]

    assert widths == [[DIMENSION * (DIMENSION + 1) // 2, 1], [DIMENSION * RANK]]


def test_what_is_not_finite_is_refused() -> None:
    examples = population()
    padded = replace(examples, labels=examples.labels.copy()).padded()
    padded.labels[4, 0] = np.nan

    with pytest.raises(PrivacyError, match="must be finite"):
        gradient_rows(padded, orthonormal(), SETTINGS, clip_norm=1.0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rank": 0}, "rank must be"),
        ({"clip_norms": ()}, "clip_norms must be"),
        ({"clip_norms": (1.0, 0.0)}, "clip_norms must be"),
        ({"learning_rate": float("inf")}, "learning_rate must be"),
        ({"vector_bound": -1.0}, "vector_bound must be"),
    ],
)
def test_ranges_are_checked(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(SETTINGS, **wrong)  # type: ignore[arg-type]


def test_shares_leave_something_for_the_gradients() -> None:
    with pytest.raises(InputError, match="together must be < 1"):
        FedRepShares(initialisation=0.6, users=0.4)


def test_a_request_without_noise_is_refused() -> None:
    task = FedRepPrivate(replace(SETTINGS, noise_multipliers={USERS: 1.0}))

    with pytest.raises(PrivacyError, match="noise multiplier"):
        task.requests(task.first_board(catalogue()))
