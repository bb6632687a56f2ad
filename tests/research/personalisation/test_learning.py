"""A private run on examples: exact sums, noise as booked, everybody asked as often as stated, and it learns."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.recommending.personal_model import PersonalModel, settings_of
from fedboard.common.algorithms.representation.algorithm import Representation, representation_of
from fedboard.common.algorithms.representation.config import RepresentationConfig, calibrated
from fedboard.common.algorithms.supervised.examples import Examples, ExampleTask
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import BudgetExceededError, InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.simulations.baselines.examples import (
    fit_all,
    own_models,
    shared_without_privacy,
)
from fedboard.simulations.data.synthetic.examples import SharedLinear
from research.jain.methods import DisjointCohorts
from research.jain.single_model import SingleModel, SingleModelConfig
from research.personalisation import learning as runtime_module
from research.personalisation.learning import ExampleRuntime, Learner
from tests.common.algorithms.representation.conftest import SETTINGS, catalogue, population, started_board

SOURCE = SharedLinear(users=1500, examples=6, dimension=8, rank=2)
EPSILON, DELTA = 5.0, 1e-6


def learner(task: ExampleTask, *, epsilon: float = EPSILON, seed: int = 0, cohorts: int = 1) -> Learner:
    budget = Budget(epsilon=epsilon, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    found = Learner(task=task, budget=budget, noise=SeededNoise(seed))
    return found if cohorts == 1 else replace(found, participation=DisjointCohorts(cohorts))


def learnt(task: ExampleTask, place: Path, source: SharedLinear = SOURCE, *, cohorts: int = 1) -> Board:
    examples = source.sample(1).examples
    return learner(task, cohorts=cohorts).learn(examples, source.catalogue, place, dataset="made up")


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1])
def test_sums_are_exact_for_any_blocks_and_threads(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task, examples = Representation(SETTINGS), population(users=200)
    board = started_board() if version else task.first_board(catalogue())
    requests = task.requests(board)
    found = []
    for numbers, workers in ((1, 1), (1000, 3), (1 << 21, 1)):
        monkeypatch.setattr(runtime_module, "_NUMBERS_PER_BLOCK", numbers)
        runtime = ExampleRuntime(task=task, examples=examples, protocol=Trusted(), workers=workers)
        found.append(whole_sums(runtime.gather(board, requests).sums, requests))
    by_user = [
        task.contribute(examples.rows(np.array([j], dtype=np.int32)), board, requests).totals
        for j in range(examples.n_users)
    ]
    for request in requests:
        right = sum(totals[request.name][0] for totals in by_user)
        np.testing.assert_array_equal(found[0][request.name][0], right)
        # float kernels may round a block of another size differently, by grid units
        for other in found[1:]:
            np.testing.assert_allclose(other[request.name][0], right, atol=examples.n_users)


@pytest.mark.slow
def test_the_noise_of_every_release_is_what_was_booked(tmp_path: Path) -> None:
    """Nobody holds an example, so what is released is noise alone; half or twice of it would show."""
    seen: dict[str, FloatArray] = {}

    @dataclass(frozen=True)
    class Watched(Representation):
        def update(self, board: Board, released: object) -> Board:
            class Watching:
                def array(self, name: str) -> FloatArray:
                    seen[name] = released.array(name)  # type: ignore[attr-defined]
                    return seen[name]

            return super().update(board, Watching())  # type: ignore[arg-type]

    nobody = Examples(
        indptr=np.zeros(4, dtype=np.int64),
        features=np.empty((0, 40), dtype=np.float32),
        labels=np.empty(0, dtype=np.float32),
    )
    task = Watched(calibrated(RepresentationConfig(rank=2), epsilon=EPSILON, delta=DELTA))
    learner(task).learn(nobody, catalogue(40), tmp_path / "run", dataset="nobody")

    with Ledger.open(tmp_path / "run" / "ledger.sqlite", read_only=True) as ledger:
        booked = {event["name"]: event for event in ledger.events()}
    assert set(seen) == set(booked) == {request.name for part in task.plan() for request in part}
    for name, values in seen.items():
        event = booked[name]
        stated = event["noise_stddev"] * event["grid_step"]
        ratio = float(np.std(values)) / stated
        assert ratio == pytest.approx(1.0, abs=5 / np.sqrt(2 * values.size)), name
        assert event["noise_stddev"] == task.settings.noise_multipliers[name] * event["l2_bound"]


@pytest.mark.slow
@pytest.mark.parametrize("cohorts", [1, 3])
def test_the_budget_is_spent_booked_and_certified(cohorts: int, tmp_path: Path) -> None:
    settings = RepresentationConfig(cohorts=cohorts)
    task = Representation(calibrated(settings, epsilon=EPSILON, delta=DELTA))

    board = learnt(task, tmp_path / "run", cohorts=cohorts)

    certificate = Certificate.from_dict(dict(board.certificate or {}))
    assert certificate.holds
    assert certificate.claim.epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert len(certificate.releases) == 7
    assert any("cohort" in sentence for sentence in certificate.assumptions) == (cohorts > 1)
    stated = [event.get("participation") for event in certificate.releases]
    assert [part is None for part in stated] == [True] + [cohorts == 1] * 6


def test_cohorts_that_are_booked_one_after_the_other_would_not_fit(tmp_path: Path) -> None:
    """The negative control: asking everybody in every round with the noise of cohorts exceeds the budget."""
    task = Representation(calibrated(RepresentationConfig(cohorts=3), epsilon=EPSILON, delta=DELTA))

    with pytest.raises(BudgetExceededError):
        learnt(task, tmp_path / "run", cohorts=1)


def test_with_cohorts_each_user_answers_the_start_and_one_alternation(tmp_path: Path) -> None:
    asked: list[tuple[int, FloatArray]] = []

    @dataclass(frozen=True)
    class Watched(Representation):
        def contribute(self, examples: Examples, board: Board, requests: tuple[Request, ...]) -> Contribution:
            asked.append((board.version, examples.labels.copy()))
            return super().contribute(examples, board, requests)

    task = Watched(calibrated(RepresentationConfig(cohorts=3), epsilon=EPSILON, delta=DELTA))
    learnt(task, tmp_path / "run", replace(SOURCE, users=10, examples=1), cohorts=3)

    labels = SOURCE.__class__(users=10, examples=1, dimension=8).sample(1).examples.labels
    by_round = [np.concatenate([part for version, part in asked if version == t]) for t in range(4)]
    np.testing.assert_array_equal(by_round[0], labels)
    np.testing.assert_array_equal(np.sort(np.concatenate(by_round[1:])), np.sort(labels))
    np.testing.assert_array_equal(by_round[1], labels[::3])


@pytest.mark.slow
@pytest.mark.parametrize("cohorts", [1, 3])
def test_personal_models_beat_own_data_and_a_single_model(cohorts: int, tmp_path: Path) -> None:
    drawn = SOURCE.sample(1)
    settings = calibrated(RepresentationConfig(cohorts=cohorts), epsilon=EPSILON, delta=DELTA)

    board = learnt(Representation(settings), tmp_path / "shared", cohorts=cohorts)
    single = learnt(
        SingleModel.calibrated(SingleModelConfig(), epsilon=EPSILON, delta=DELTA), tmp_path / "single"
    )

    shared = representation_of(board)
    private = drawn.mean_squared_error(shared, fit_all(drawn.examples, shared, settings))
    own = drawn.mean_squared_error(np.eye(8), own_models(drawn.examples))
    one = drawn.mean_squared_error(np.asarray(single.arrays["model"])[:, None], np.ones(1))
    without = shared_without_privacy(drawn.examples, settings)
    floor = drawn.mean_squared_error(without, fit_all(drawn.examples, without, settings))
    assert floor < private < 0.02 < 0.2 < own
    assert private < 0.02 < 1.5 < one


def test_one_person_fits_and_predicts_from_the_board_as_the_simulation_does(tmp_path: Path) -> None:
    task = Representation(calibrated(RepresentationConfig(), epsilon=EPSILON, delta=DELTA))
    learnt(task, tmp_path / "run")
    board = Board.load(tmp_path / "run" / "boards" / "board-0004.board")
    drawn = SOURCE.sample(1)
    own = drawn.examples.rows(np.array([7], dtype=np.int32))

    model = PersonalModel.fit(own, board)

    assert settings_of(board) == task.settings
    np.testing.assert_allclose(
        model.vector, fit_all(drawn.examples, representation_of(board), task.settings)[7]
    )
    fresh = np.random.default_rng(0).standard_normal((50, 8))
    truth = fresh @ drawn.representation @ drawn.vectors[7]
    assert float(np.mean((model.predict(fresh) - truth) ** 2)) < 0.05 * float(np.mean(truth**2))
    np.testing.assert_allclose(
        task.predict(task.fit_local(own, board), board, own), model.predict(own.features), rtol=1e-6
    )


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    task = Representation(calibrated(RepresentationConfig(), epsilon=EPSILON, delta=DELTA))
    drawn = SOURCE.sample(1)
    with pytest.raises(InputError, match="features"):
        learner(task).learn(drawn.examples, catalogue(9), tmp_path / "run", dataset="made up")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    with pytest.raises(InputError, match="in use"):
        learner(task).learn(drawn.examples, SOURCE.catalogue, tmp_path / "used", dataset="made up")
    first = task.first_board(SOURCE.catalogue)
    with pytest.raises(InputError, match="board 0"):
        PersonalModel.fit(drawn.examples, first)
    with pytest.raises(InputError, match="one person"):
        PersonalModel.fit(drawn.examples, replace(first, version=1))
    with pytest.raises(InputError, match="single-model"):
        PersonalModel.fit(drawn.examples, SingleModel(SingleModelConfig()).first_board(SOURCE.catalogue))
