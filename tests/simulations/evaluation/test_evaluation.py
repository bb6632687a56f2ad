"""Judging: what a model is shown, what its lists may hold, and catalogues with fewer items than buckets."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.simulations.baselines.means import LocalModel
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import HeldOut, RatingSplit, UserSplit
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.evaluation import BoardPredictor, judge
from fedboard.simulations.problem import load_problem
from tests.common.algorithms.conftest import PRESENCE, a_residual_task, population, presence, residual_boards
from tests.simulations.evaluation.metrics.small_judgements import judge_held_out

Pairs = set[tuple[int, int]]
SMALL = {"synthetic": {"n_users": 150, "n_items": 60, "mean_ratings_per_user": 15.0}}


def pairs_of(rows: Cohort) -> Pairs:
    return set(zip(rows.user_of_entry().tolist(), rows.items.tolist(), strict=True))


@dataclass
class Shown:
    """A model that writes down what it is shown."""

    histories: list[Pairs] = field(default_factory=list)
    asked: list[Pairs] = field(default_factory=list)

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        self.histories.append(pairs_of(history))
        self.asked.append(set(zip(users.tolist(), items.tolist(), strict=True)))
        return np.full(users.size, 3.0)

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        self.histories.append(pairs_of(history))
        return np.full((history.n_users, k), -1, dtype=np.int32)


@pytest.mark.parametrize("part", ["validation", "test"])
def test_ratings_are_predicted_from_those_that_are_not_asked_for(part: str) -> None:
    problem, model = load_problem(parse_config({"data": SMALL})), Shown()
    split = problem.split
    assert isinstance(split, RatingSplit)

    with WorkerPool(1) as pool:
        judge(model, problem, part=part, pool=pool)

    held_out = {
        name: set(zip(part.users.tolist(), part.items.tolist(), strict=True))
        for name, part in (("validation", split.validation), ("test", split.test))
    }
    known = pairs_of(split.train) | (held_out["validation"] if part == "test" else set())
    assert model.asked == [held_out[part]] != [set()]
    assert model.histories == [known]
    assert not known & held_out[part]


@pytest.mark.parametrize("part", ["validation", "test"])
def test_lists_are_made_from_a_users_history_without_what_is_to_be_found(part: str) -> None:
    problem, model = load_problem(parse_config({"data": SMALL, "feedback": "implicit"})), Shown()
    assert isinstance(problem.split, UserSplit)
    held_out = getattr(problem.split, part)

    with WorkerPool(1) as pool:
        judge(model, problem, part=part, pool=pool)

    assert model.histories == [pairs_of(held_out.history)] != [set()]
    assert not pairs_of(held_out.history) & pairs_of(held_out.target)
    assert not set(held_out.users.tolist()) & set(problem.train.user_of_entry().tolist())


@pytest.mark.parametrize("settings", [{}, PRESENCE], ids=["ratings", "presence"])
def test_a_boards_list_is_the_best_of_what_a_user_does_not_have(settings: dict[str, object]) -> None:
    task, history = a_residual_task(**settings), population(n_users=12)
    history = presence(history) if settings else history
    board = residual_boards(task)[-1]

    lists = BoardPredictor(task=task, board=board, backend="numpy").recommend(history, k=history.n_items)

    users, items = task.ranking_factors(task.fit_local(history, board), board)
    for user in range(history.n_users):
        own = history.items[history.indptr[user] : history.indptr[user + 1]].tolist()
        scores = {
            item: sum(float(a) * float(b) for a, b in zip(users[user], items[item], strict=True))
            for item in range(history.n_items)
            if item not in own
        }
        found = [item for item in lists[user].tolist() if item >= 0]
        assert sorted(found) == sorted(scores)
        assert all(scores[a] >= scores[b] - 1e-9 for a, b in pairwise(found))


def everybody_rated_everything(n_users: int, n_items: int) -> Cohort:
    users, items = np.divmod(np.arange(n_users * n_items, dtype=np.int32), np.int32(n_items))
    ratings = (1 + (users + items) % 5).astype(np.float32)
    return cohort_from_triples(users, items, ratings, n_users=n_users, n_items=n_items)


@pytest.mark.parametrize("n_items", [1, 3, 5])
def test_a_tiny_catalogue_has_a_bucket_per_item(n_items: int) -> None:
    rows = everybody_rated_everything(4, n_items)
    triples = Triples(users=rows.user_of_entry(), items=rows.items, values=rows.ratings)
    model = LocalModel(n_items=n_items, rating_range=(1.0, 5.0))

    judged = judge_held_out(model, rows, triples, counts=np.arange(1, n_items + 1, dtype=np.int64))

    assert len(judged.sliced["test_rmse"]) == n_items
    assert judged.metrics["test_rmse"] > 0


def test_novelty_is_judged_by_the_training_counts_that_are_given() -> None:
    rows = everybody_rated_everything(4, 2)
    held_out = HeldOut(
        users=np.arange(4, dtype=np.int32),
        history=rows.where(np.tile([True, False], 4)),
        target=rows.where(np.tile([False, True], 4)),
    )

    # All there is to list is item 1, which has one of four ratings with the ones added: two bits.
    model = LocalModel(n_items=2, rating_range=(1.0, 5.0))
    judged = judge_held_out(model, rows, held_out, counts=np.array([2, 0], dtype=np.int64))

    assert judged.metrics["novelty@20"] == pytest.approx(2.0)
    assert judged.metrics["coverage@20"] == pytest.approx(1 / 2)
    assert judged.metrics["gini@20"] == pytest.approx(1 / 2)
    assert judged.metrics["mrr@10"] == judged.metrics["map@10"] == 1.0
