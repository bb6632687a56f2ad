"""Judging models of examples on held-out ones. Every number made here is not private: simulation only."""

from collections.abc import Callable, Mapping

import numpy as np

from fedboard.common.algorithms.representation.config import RepresentationConfig
from fedboard.common.algorithms.supervised.examples import CohortTask, Examples, examples_of
from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.board import Board
from fedboard.simulations.baselines.examples import fit_all, own_models, shared_without_privacy
from fedboard.simulations.data.examples import ExampleProblem
from fedboard.simulations.evaluation.metrics.metric import JudgedRatings
from fedboard.simulations.evaluation.metrics.registry import RATING_METRICS

OWN, SHARED = "own-examples-only", "shared-representation"
"""Models that no privacy is needed for, or that have none, as records call them."""
_USERS_PER_BLOCK = 2048

_Predict = Callable[[Examples, Examples], FloatArray]
"""(what users' models are solved on, what is to be predicted) -> labels, float64, shape (n_examples,)."""


def judge_examples(task: CohortTask, board: Board, problem: ExampleProblem, *, part: str) -> dict[str, float]:
    """Metrics of a board on the ``validation`` or ``test`` part, by name; none where nothing was held out."""

    def predict(history: Examples, held_out: Examples) -> FloatArray:
        return task.task.predict(task.task.fit_local(history, board), board, held_out)

    return _judged(predict, problem, part)


def examples_without_privacy(
    problem: ExampleProblem, rank: int, *, on_progress: Callable[[str, int, int], None]
) -> dict[str, Mapping[str, float]]:
    """What a private board is held against, by name: each user's own examples alone, and the same learning without
    noise. Test metrics.

    Args:
        problem: private.
        rank: of the representation.
        on_progress: told as models are done.
    """
    on_progress("baselines", 0, 2)
    found: dict[str, Mapping[str, float]] = {OWN: _judged(_of_own, problem, "test")}
    on_progress("baselines", 1, 2)
    settings = RepresentationConfig(rank=min(rank, problem.catalogue.n_items))
    shared = shared_without_privacy(examples_of(problem.train), settings)

    def of_shared(history: Examples, held_out: Examples) -> FloatArray:
        return _scores(held_out, fit_all(history, shared, settings) @ shared.T)

    found[SHARED] = _judged(of_shared, problem, "test")
    on_progress("baselines", 2, 2)
    return found


def _of_own(history: Examples, held_out: Examples) -> FloatArray:
    return _scores(held_out, own_models(history))


def _scores(examples: Examples, models: FloatArray) -> FloatArray:
    """``<x, theta>`` of each example with its user's model, shape (n_users, dimension)."""
    owners = np.repeat(np.arange(examples.n_users), np.diff(examples.indptr))
    scores: FloatArray = np.einsum("nd,nd->n", examples.features, models[owners])
    return scores


def _judged(predict: _Predict, problem: ExampleProblem, part: str) -> dict[str, float]:
    split = problem.split
    history = examples_of(split.train if part == "validation" else split.train_and_validation)
    held_out = examples_of(split.validation if part == "validation" else split.test)
    if held_out.labels.size == 0:
        return {}
    tallies = {metric.names(part)[0]: metric.of(1) for metric in RATING_METRICS}
    for users in _blocks(history.n_users):
        asked = held_out.rows(users)
        alike = np.zeros(asked.labels.size, dtype=np.int32)
        seen = JudgedRatings(
            predicted=predict(history.rows(users), asked),
            actual=asked.labels.astype(np.float64),
            groups=alike,
            buckets=alike,
        )
        for tally in tallies.values():
            tally.add(seen)
    return {name: tally.value() for name, tally in tallies.items()}


def _blocks(n_users: int) -> list[IndexArray]:
    users = np.arange(n_users, dtype=np.int32)
    return [users[start : start + _USERS_PER_BLOCK] for start in range(0, n_users, _USERS_PER_BLOCK)]
