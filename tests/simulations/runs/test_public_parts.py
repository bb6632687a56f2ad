"""Secret noise refuses data whose split or list of items depends on who is there."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from fedboard.common.errors import PrivacyError
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.trainer import require_own_parts
from fedboard.simulations.sections import SplitConfig
from fedboard.simulations.simulate import simulate
from fedboard.simulations.tuning.trials import judged_on_validation
from tests.simulations.runs.removal import configured, problem_of_control, write_rows

SMALL = {"n_users": 80, "n_items": 30, "mean_ratings_per_user": 12}
ROWS = [(str(user), str(item), float(1 + (user + item) % 5)) for user in range(30) for item in range(1, 20)]


def over(feedback: str, noise: str = "secure", **data: object) -> SimulationConfig:
    raw = {
        "algorithm": "residual",
        "feedback": feedback,
        "data": {"synthetic": SMALL} | data,
        "privacy": {"noise": noise},
        "settings": {"rank": 2, "rounds": 1},
        "run": {"kernels": "numpy", "baselines": False},
    }
    return parse_config(raw)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_a_split_with_coins_of_each_user_is_taken(feedback, tmp_path):
    config = over(feedback)

    assert simulate(config, tmp_path / "run", report=False).certificate.private
    require_own_parts(judged_on_validation(load_problem(config)))


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("runtime", ["engine", "in-process"])
def test_a_split_by_one_generator_is_refused_before_anything_is_booked(feedback, runtime, tmp_path):
    config = over(feedback)
    config = parse_config(
        {
            "feedback": feedback,
            "data": {"synthetic": SMALL},
            "privacy": {"noise": "secure"},
            "run": {"kernels": "numpy", "runtime": runtime, "nodes": 2},
        }
    )
    problem, _ = problem_of_control(config)

    with pytest.raises(PrivacyError, match="coins of her own"):
        simulate(config, tmp_path / "run", problem=problem, report=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_a_split_that_only_says_so_is_refused(feedback):
    config = over(feedback)
    honest, (control, _) = load_problem(config), problem_of_control(config)
    pretended = replace(control, split=replace(control.split, rule=honest.split.rule))

    require_own_parts(honest)
    with pytest.raises(PrivacyError, match="not what the coins of its split say"):
        require_own_parts(pretended)
    with pytest.raises(PrivacyError, match="not what the coins of its split say"):
        require_own_parts(with_other_keys(honest))


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_a_fold_is_recomputed_too(feedback):
    config = over(feedback)
    first, second = (
        load_problem(structs.replace(config, split=SplitConfig(folds=3, fold=fold))) for fold in (0, 1)
    )
    pretended = replace(first, split=replace(first.split, rule=second.split.rule))

    require_own_parts(first)
    require_own_parts(second)
    with pytest.raises(PrivacyError, match="not what the coins of its split say"):
        require_own_parts(pretended)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize(
    "split", [{"leave_last": 1}, {"test_from": 4 * 86_400, "validation_from": 3 * 86_400}]
)
def test_a_split_by_time_is_recomputed_too(feedback, split, tmp_path):
    data = write_rows(tmp_path / "data", ROWS, [str(item) for item in range(1, 30)], "csv")
    secure = {"noise": "secure"}
    honest = load_problem(configured(data, feedback, "residual", privacy=secure, split=split))
    by_coins = load_problem(configured(data, feedback, "residual", privacy=secure))
    told = {"rule": honest.split.rule, "rows": honest.split.rows}
    items = honest.train.items.copy()
    items[honest.train.indptr[1] - 1] = honest.train.n_items - 1
    pretended = replace(by_coins, split=replace(by_coins.split, **told))

    require_own_parts(honest)
    require_own_parts(judged_on_validation(honest))
    with pytest.raises(PrivacyError, match="not what the times of its split say"):
        require_own_parts(pretended)
    with pytest.raises(PrivacyError, match="not what the times of its split say"):
        require_own_parts(replace(honest, split=replace(honest.split, rows=None)))
    with pytest.raises(PrivacyError, match="not what the times of its split say"):
        require_own_parts(replace(honest, train=replace(honest.train, items=items)))
    with pytest.raises(PrivacyError, match="not what the times of its split say"):
        require_own_parts(with_other_keys(honest))


def with_other_keys(problem: Problem) -> Problem:
    keys = problem.train.keys
    return replace(problem, train=replace(problem.train, user_keys=np.roll(keys, 1)))


@pytest.mark.slow
def test_a_list_of_items_that_was_read_off_the_ratings_is_refused(tmp_path):
    data = write_rows(tmp_path / "data", ROWS, [str(item) for item in range(1, 30)], "csv")
    secure = {"noise": "secure"}
    listed = configured(data, "explicit", "residual", privacy=secure)
    vouched = configured(data | {"catalogue": "declared"}, "explicit", "residual", privacy=secure)

    assert "all that the titles file lists" in load_problem(listed).statement
    assert "read off the ratings" in load_problem(vouched).statement
    simulate(listed, tmp_path / "listed", report=False)
    with pytest.raises(PrivacyError, match="read off them: name a file of items"):
        simulate(vouched, tmp_path / "vouched", report=False)
    assert not (tmp_path / "vouched").exists()


def test_seeded_noise_takes_any_split_since_it_claims_nothing(tmp_path):
    config = over("explicit", "seeded")
    problem, _ = problem_of_control(config)

    assert not simulate(config, tmp_path / "run", problem=problem, report=False).certificate.private
