"""Ceilings: the best of a grid on validation data; settings of references in the units of the data."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.baselines.means import BiasConfig, fit_bias
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import HeldOut
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.evaluation import judge
from fedboard.simulations.evaluation.references import Fitting, ceiling_names, fit_reference, search
from fedboard.simulations.problem import Problem, load_problem
from tests.simulations.evaluation.metrics.small_lists import targets_of

SMALL = {"synthetic": {"n_users": 400, "n_items": 60, "mean_ratings_per_user": 15.0}}


@pytest.fixture(scope="module")
def ratings() -> Problem:
    return load_problem(parse_config({"data": SMALL}))


@pytest.fixture(scope="module")
def lists() -> Problem:
    return load_problem(parse_config({"data": SMALL, "feedback": "implicit"}))


def test_the_best_on_validation_data_is_kept(ratings: Problem) -> None:
    grid = {"item_ridge": (500.0, 5.0, 0.01)}

    def fit(choice: dict[str, float]):  # type: ignore[no-untyped-def]
        return fit_bias(
            ratings.train, BiasConfig(rating_range=ratings.rating_range, item_ridge=choice["item_ridge"])
        )

    model, choice = search(fit, grid, ratings, Feedback.EXPLICIT)

    with WorkerPool(1) as pool:
        losses = {
            value: judge(fit({"item_ridge": value}), ratings, part="validation", pool=pool).metrics[
                "validation_rmse"
            ]
            for value in grid["item_ridge"]
        }
        kept = judge(model, ratings, part="validation", pool=pool).metrics["validation_rmse"]
    assert choice == {"item_ridge": min(losses, key=lambda value: losses[value])}
    assert kept == min(losses.values()) < losses[500.0]


@dataclass
class Always:
    """A model that says one thing to everybody: this rating, and this item first."""

    answer: float

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        return np.full(users.size, self.answer)

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        found = np.full((history.n_users, k), -1, dtype=np.int32)
        found[:, 0] = int(self.answer)
        return found


@pytest.mark.parametrize("feedback", list(Feedback))
def test_the_part_that_is_tested_on_does_not_choose(
    feedback: Feedback, ratings: Problem, lists: Problem
) -> None:
    """What is held out for validation says 1, the test part 5."""
    problem = ratings if feedback is Feedback.EXPLICIT else lists
    nobody = problem.train.rows(0, 20).where(np.zeros(problem.train.rows(0, 20).n_ratings, dtype=np.bool_))
    told: dict[str, Triples | HeldOut] = {}
    for name, answer in (("validation", 1), ("test", 5)):
        part = getattr(problem.split, name)
        if isinstance(part, Triples):
            told[name] = replace(part, values=np.full_like(part.values, answer))
        else:
            target = targets_of([[answer]] * 20, n_items=nobody.n_items)
            told[name] = HeldOut(users=np.arange(20, dtype=np.int32), history=nobody, target=target)
    problem = replace(problem, split=replace(problem.split, **told))

    model, choice = search(
        lambda choice: Always(choice["answer"]), {"answer": (3.0, 5.0, 1.0)}, problem, feedback
    )

    assert choice == {"answer": 1.0}
    assert model == Always(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("feedback", list(Feedback))
def test_every_ceiling_is_fitted_and_judged(feedback: Feedback, ratings: Problem, lists: Problem) -> None:
    problem = ratings if feedback is Feedback.EXPLICIT else lists
    name = "test_rmse" if feedback is Feedback.EXPLICIT else "recall@20"
    plain = "user-item-bias" if feedback is Feedback.EXPLICIT else "popularity"
    with WorkerPool(1) as pool:

        def judged(model: str) -> float:
            fitted = fit_reference(model, Fitting.of(problem, feedback))
            return judge(fitted, problem, part="test", pool=pool).metrics[name]

        values = {model: judged(model) for model in (*ceiling_names(feedback), plain)}

    best = min(values.values()) if feedback is Feedback.EXPLICIT else max(values.values())
    assert values[ceiling_names(feedback)[0]] == pytest.approx(best, rel=0.1)
