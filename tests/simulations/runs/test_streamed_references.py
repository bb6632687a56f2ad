"""What a streamed run is held against: the same models as in memory, and a sentence where one cannot be had."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.baselines import als
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import Ratings
from fedboard.simulations.data.stream import HeldStream
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation import evaluation
from fedboard.simulations.problem import Problem, StreamedProblem, problem_of, streamed_problem
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.trainer import Listener, Simulated
from fedboard.simulations.runs.without_privacy import compared, run_reference
from fedboard.simulations.sections import RunConfig
from tests.simulations.engine.conftest import some_ratings

EXPLICIT = SimulationConfig(
    algorithm="residual", settings={"rank": 2}, run=RunConfig(kernels="numpy", baselines=True)
)


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return some_ratings(n_users=300, n_items=40, seed=2)


@pytest.fixture(autouse=True)
def no_counts_of_others() -> Iterator[None]:
    evaluation._CENSUSES.clear()
    yield
    evaluation._CENSUSES.clear()


def stream_of(ratings: Ratings, config: SimulationConfig = EXPLICIT) -> StreamedProblem:
    return streamed_problem(HeldStream.of_ratings(ratings), config)


def comparison(problem: Problem | StreamedProblem, folder: Path) -> dict[str, Any]:
    task = build_task(EXPLICIT, rating_range=problem.rating_range, backend="numpy").task
    board = task.first_board(problem.catalogue)
    folder.mkdir()
    with WorkerPool(1) as pool:
        simulated = Simulated(
            config=EXPLICIT,
            run=RunDirectory(folder),
            problem=problem,
            task=task,
            backend="numpy",
            listener=Listener(),
        )
        return compared(simulated, board, pool=pool)


def test_references_of_a_stream_are_those_in_memory(ratings: Ratings, tmp_path: Path) -> None:
    expected = comparison(problem_of(ratings, EXPLICIT), tmp_path / "in-memory")
    found = comparison(stream_of(ratings), tmp_path / "streamed")

    assert found.keys() == expected.keys()
    assert list(found["baselines"]) == ["item-mean", "user-item-bias", "local-only", "als"]
    for name, metrics in expected["baselines"].items():
        close = 1e-5 if name == "als" else 1e-12
        assert found["baselines"][name] == pytest.approx(metrics, rel=close)


def test_a_model_that_cannot_be_had_is_left_out_and_says_why(
    ratings: Ratings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(als, "MOST_BYTES", 1000)

    found = comparison(stream_of(ratings), tmp_path / "run")

    assert list(found["baselines"]) == ["item-mean", "user-item-bias", "local-only"]
    assert list(found["baselines_absent"]) == ["als"]
    assert "smaller rank" in found["baselines_absent"]["als"]


@pytest.mark.parametrize(
    ("name", "feedback"), [("als", Feedback.EXPLICIT), ("popularity", Feedback.IMPLICIT)]
)
def test_a_reference_runs_on_a_stream(
    ratings: Ratings, tmp_path: Path, name: str, feedback: Feedback
) -> None:
    quick = {"rank": 2, "rounds": 2} if name == "als" else {}
    config = SimulationConfig(
        algorithm=name, feedback=feedback, settings=quick, run=RunConfig(kernels="numpy")
    )

    found = run_reference(config, tmp_path / "streamed", problem=stream_of(ratings, config))
    expected = run_reference(config, tmp_path / "in-memory", problem=problem_of(ratings, config))

    assert found["metrics"] == pytest.approx(expected["metrics"], rel=1e-5)


@pytest.mark.parametrize(("name", "feedback"), [("ease", Feedback.IMPLICIT), ("als-best", Feedback.EXPLICIT)])
def test_what_is_chosen_among_many_fits_is_refused(
    ratings: Ratings, tmp_path: Path, name: str, feedback: Feedback
) -> None:
    config = SimulationConfig(algorithm=name, feedback=feedback, run=RunConfig(kernels="numpy"))

    with pytest.raises(InputError, match=f"{name} is chosen by fitting many candidates.*sample that fits"):
        run_reference(config, tmp_path / "run", problem=stream_of(ratings, config))
    assert not (tmp_path / "run" / "config.json").exists()
