"""MovieLens data bring features of their own: on the board by default, with a word to leave them out."""

from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from fedboard.common.algorithms.registry import rebuild_task
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.simulate import RunResult, simulate

N_USERS, N_ITEMS = 60, 40
GENRES = ("Drama", "Comedy", "War")


@pytest.fixture(scope="module")
def movielens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zip archive that looks like MovieLens 1M; people like one genre each."""
    rng = np.random.default_rng(0)
    liked = rng.integers(0, 3, N_USERS)
    ratings = [
        f"{user + 1}::{item + 1}::{5 if item % 3 == liked[user] else rng.integers(1, 4)}::978300760"
        for user in range(N_USERS)
        for item in range(N_ITEMS)
        if rng.random() < 0.5
    ]
    movies = [f"{item + 1}::Film {item} ({1950 + item})::{GENRES[item % 3]}" for item in range(N_ITEMS)]
    place = tmp_path_factory.mktemp("data") / "ml-small.zip"
    with ZipFile(place, "w") as archive:
        archive.writestr("ml/ratings.dat", "\n".join(ratings))
        archive.writestr("ml/movies.dat", "\n".join(movies))
    return place


def config(movielens: Path, **data: object) -> SimulationConfig:
    raw = {"source": str(movielens), "format": "movielens-1m", **data}
    return parse_config(
        {"data": raw, "settings": {"rounds": 2}, "run": {"baselines": False, "evaluate_rounds": False}}
    )


@pytest.fixture(scope="module")
def runs(movielens: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunResult]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: simulate(config(movielens, **given), folder / name, report=False)
        for name, given in (("brought", {}), ("none", {"features": "none"}))
    }


def test_boards_carry_what_the_archive_brings_unless_told_otherwise(runs: dict[str, RunResult]) -> None:
    features = runs["brought"].board.catalogue.features

    assert features is not None
    assert features.names == ("year", "genres: Comedy", "genres: Drama", "genres: War")
    assert features.numbers[:3, 0].tolist() == [1950.0, 1951.0, 1952.0]
    assert features.labels[:3].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert runs["none"].board.catalogue.features is None
    dataset = Certificate.from_dict(dict(runs["brought"].board.certificate or {})).dataset
    assert "4 public item features (movies.dat, which describes 40 of the items)" in dataset


def test_held_out_ratings_are_judged_with_them(runs: dict[str, RunResult], movielens: Path) -> None:
    board = runs["brought"].board
    problem = load_problem(config(movielens))
    held_out, history = problem.split.test, problem.split.train_and_validation

    def error(one: Board) -> float:
        task = rebuild_task(one)
        predicted = task.predict(task.fit_local(history, one), one, held_out.users, held_out.items)
        return float(np.sqrt(np.mean((predicted - held_out.values) ** 2)))

    without = replace(board, catalogue=board.catalogue.without_features, _digest=[])
    assert runs["brought"].final["metrics"]["test_rmse"] == pytest.approx(error(board), abs=1e-6)
    assert error(board) < error(without) - 0.05  # taste is by genre here, and the board hardly learns it


def test_features_do_not_depend_on_who_rated_what(movielens: Path, tmp_path: Path) -> None:
    """With a list of items of its own, a catalogue and its features are the same whoever is in the file."""
    fewer = tmp_path / "ml-small.zip"
    with ZipFile(movielens) as whole, ZipFile(fewer, "w") as archive:
        archive.writestr("ml/movies.dat", whole.read("ml/movies.dat"))
        lines = whole.read("ml/ratings.dat").decode().splitlines()
        kept = [line for line in lines if not line.startswith(("1::", "2::")) and line.split("::")[1] != "5"]
        archive.writestr("ml/ratings.dat", "\n".join(kept))

    one, other = (load_problem(config(place, catalogue="listed")) for place in (movielens, fewer))

    assert one.catalogue.features is not None
    assert one.catalogue == other.catalogue


def test_what_is_published_is_the_same_whatever_devices_make_of_features(
    runs: dict[str, RunResult], movielens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content is for the person herself: with none of it the same board comes out, to the bit."""
    monkeypatch.setattr("fedboard.common.algorithms.residual.algorithm.content_of", lambda board: None)

    without = simulate(config(movielens), tmp_path / "without", report=False)

    assert without.board.digest == runs["brought"].board.digest
    assert without.final["metrics"]["test_rmse"] != runs["brought"].final["metrics"]["test_rmse"]
