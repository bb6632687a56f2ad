"""The experiments of Epasto et al.: the problems are as stated, and the numbers have the paper's shape."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.errors import InputError
from research.epasto import reviews
from research.epasto.estimators import (
    BEST_LIMIT,
    NO_LIMIT,
    OURS,
    errors_of,
    expected_error,
)
from research.epasto.labels import LinearEstimator, least_squares_matrix
from research.epasto.problems import Problem, read_problem, synthetic_problem
from research.shared.experiment import Setting

pytest.importorskip("cvxpy")


def quiet(phase: str, done: int, total: int) -> None:
    """Hear nothing."""


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(seeds=1, scratch=tmp_path, on_progress=quiet)


@pytest.fixture
def drugs() -> Path:
    folder = Path(os.environ.get("FEDBOARD_DATA", "")) / "druglib"
    if "FEDBOARD_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("needs druglib in the folder that FEDBOARD_DATA names")
    return folder


def test_the_expected_error_is_the_mean_over_draws() -> None:
    problem = synthetic_problem(200, alpha=1.5, seed=1)
    matrix = least_squares_matrix(problem.features)
    estimator = LinearEstimator(
        matrix=matrix,
        features=problem.features,
        users=problem.users,
        label_range=problem.label_range,
        public_because="made up",
    )
    rng, exact = np.random.default_rng(0), matrix @ problem.labels
    draws = exact + rng.laplace(0.0, estimator.noise_scale(2.0), (4000, exact.size))
    errors = np.mean((problem.features @ draws.T - problem.labels[:, None]) ** 2, axis=0)

    assert expected_error(problem, matrix, epsilon=2.0) == pytest.approx(float(errors.mean()), rel=0.1)


def test_ours_is_best_and_a_limit_is_better_than_none() -> None:
    found = errors_of(synthetic_problem(300, alpha=1.3, seed=0), epsilon=1.0, seed=0).of_method

    assert found[OURS] < 0.5 * found[BEST_LIMIT] < 0.5 * found[NO_LIMIT]


@pytest.mark.slow
def test_table_1_on_drugs_is_the_papers(setting: Setting, drugs: Path) -> None:
    problem = read_problem(drugs)
    assert (problem.labels.size, problem.sizes.size, problem.sizes.max()) == (3107, 502, 63)
    found = errors_of(problem, epsilon=1.0, seed=0, samples=2).of_method

    assert found[OURS] == pytest.approx(3.1, abs=0.1)
    assert found[BEST_LIMIT] == pytest.approx(24.8, rel=0.25)
    assert found[NO_LIMIT] == pytest.approx(95.4, rel=0.05)


def made_reviews(folder: Path) -> Problem:
    lines = ["reviewID\turlDrugName\trating\teffectiveness\tsideEffects\tsplit"]
    rng = np.random.default_rng(0)
    for number in range(80):
        effect, side = rng.choice(["high", "low", "none"]), rng.choice(["mild", "severe"])
        part = "train" if number < 60 else "test"
        lines.append(f"{number}\tdrug-{number % 15}\t{1 + number % 10}\t{effect}\t{side}\t{part}")
    (folder / "druglib_all.tsv").write_text("\n".join(lines) + "\n")
    return read_problem(folder)


def test_reviews_become_a_constant_and_categories_without_the_first(tmp_path: Path) -> None:
    problem = made_reviews(tmp_path)

    assert problem.features.shape == (60, 1 + 2 + 1)
    assert np.all(problem.features[:, 0] == 1)
    assert problem.sizes.tolist() == [4] * 15
    assert problem.label_width == 9


def test_news_come_from_the_users_copy(tmp_path: Path) -> None:
    header = "IDLink," + ",".join(f"TS{number}" for number in range(1, 145))
    posts = [
        f"{post}," + ",".join(str(max(post + number // 10 - 3, -1)) for number in range(1, 145))
        for post in range(9)
    ]
    (tmp_path / "LinkedIn_Palestine.csv").write_text("\n".join([header, *posts]) + "\n")
    with pytest.raises(InputError, match="druglib_all"):
        read_problem(tmp_path)
    (tmp_path / "News_Final.csv").write_text(
        "\n".join(["IDLink,Source", *(f"{post},source-{post % 3}" for post in range(9))]) + "\n"
    )
    problem = read_problem(tmp_path)

    assert problem.features.shape == (9, 10)
    assert problem.sizes.tolist() == [3, 3, 3]
    assert problem.label_range == (0.0, float(problem.labels.max()))


def test_tables_need_data_and_say_which(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDBOARD_DATA", raising=False)
    with pytest.raises(InputError, match=r"druglib_all\.tsv"):
        reviews.table_1(setting)
