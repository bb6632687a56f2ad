"""What a person's policy says of questions: which she answers, and how much they may cost her all together."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from fedboard.client.device.policy import Policy
from fedboard.common.board import Board
from fedboard.common.errors import FedboardError
from fedboard.common.questions.statement import QuestionStatement, StatedQuestion, rebuilt_question
from fedboard.common.wire.refusals import Refusal, RefusedError


class Limit(NamedTuple):
    """An epsilon, and what of all that she gave is held against it."""

    epsilon: float
    run: str | None = None
    """That of one run only."""
    questions: bool = False
    """That of questions only."""


def limits_of(policy: Policy, *, run: str, question: bool) -> list[Limit]:
    """What the answers to a run have to keep to.

    Args:
        policy: hers.
        run: its name.
        question: whether it is a question's.
    """
    limits = [
        Limit(policy.epsilon),
        Limit(min(policy.epsilon_per_run or policy.epsilon, policy.epsilon), run),
    ]
    if question and policy.epsilon_of_questions is not None:
        limits.append(Limit(min(policy.epsilon_of_questions, policy.epsilon), questions=True))
    return limits


def is_question(board: Board) -> bool:
    """Whether a board states a question; else it is a training's."""
    return board.task == StatedQuestion.NAME


def statement_of(board: Board) -> QuestionStatement:
    """What is asked, from a server that need not be honest.

    Raises:
        RefusedError: ``bad-board``; nothing that could be shown to her.
    """
    try:
        return rebuilt_question(board).statement
    except (FedboardError, ArithmeticError, LookupError, TypeError, ValueError):
        raise RefusedError(Refusal.BAD_BOARD) from None


def require_task_allowed(board: Board, policy: Policy) -> None:
    """Hold what a board is about against the policy: a training by its task, a question by its title.

    Raises:
        RefusedError: ``not-allowed`` or ``bad-board``.
    """
    if is_question(board):
        title = statement_of(board).title
        allowed = any(fnmatchcase(title, pattern) for pattern in policy.questions)
    else:
        allowed = policy.tasks is None or board.task in policy.tasks
    if not allowed:
        raise RefusedError(Refusal.NOT_ALLOWED)
