"""Which metrics a board is judged by, given the problem's kind of split."""

from fedboard.common.board import Board
from fedboard.common.task import Task
from fedboard.simulations.baselines import Predictor
from fedboard.simulations.datasets.splits import RatingSplit
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.judging.evaluation import (
    BoardPredictor,
    Judgement,
    item_counts,
    judge_lists,
    judge_ratings,
)
from fedboard.simulations.problem import Problem


def judge_board(
    task: Task, board: Board, problem: Problem, *, part: str, pool: WorkerPool, backend: str
) -> Judgement:
    """Judge a board on the ``validation`` or ``test`` part. Not private: simulation only."""
    return judge(BoardPredictor(task=task, board=board, backend=backend), problem, part=part, pool=pool)


def judge(predictor: Predictor, problem: Problem, *, part: str, pool: WorkerPool) -> Judgement:
    """Judge any model: ratings by error, held-out users by their lists.

    Users' vectors are solved on the training rows for validation, on training and validation rows for test.
    Where nothing was held out there are no metrics: by its coins a part of a small data set may come out empty.
    """
    split, counts = problem.split, item_counts(problem.train)
    if not isinstance(split, RatingSplit):
        held_out = split.validation if part == "validation" else split.test
        if held_out.users.size == 0:
            return Judgement(metrics={}, sliced={})
        return judge_lists(predictor, held_out, pool=pool, counts=counts)
    held_out_ratings = split.validation if part == "validation" else split.test
    history = split.train if part == "validation" else split.train_and_validation
    if held_out_ratings.n_ratings == 0:
        return Judgement(metrics={}, sliced={})
    return judge_ratings(predictor, history, held_out_ratings, prefix=part, pool=pool, counts=counts)


__all__ = ["judge", "judge_board"]
