"""A stated question as a task of rounds: devices and servers rebuild it from its board, as every other task."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource, of_totals
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.questions.answer import Answer, Mechanism
from fedboard.common.questions.bisection import Bracket
from fedboard.common.questions.names import TASK
from fedboard.common.questions.statement import QuestionStatement
from fedboard.common.task import ReleasedSums

BRACKET = "bracket"
"""Array of a board: numbers of the first and the last candidate that are left."""
_SUMS, _NOISE_RATIO = "sums", "noise_ratio"


@dataclass(frozen=True, slots=True)
class StatedQuestion:
    """What devices answer and a server sums for one question. Its last board holds the answer.

    Guarantee: a device gives one row of whole numbers >= 0 of sum at most ``ROW_BOUND`` for each round, and nothing
    else of her ratings, not even which items she has.
    """

    NAME: ClassVar[str] = TASK
    statement: QuestionStatement

    @property
    def name(self) -> str:
        """By which boards say that they are about a question."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The statement, JSON-able."""
        built: Mapping[str, Any] = msgspec.to_builtins(self.statement)
        return built

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """One request a round."""
        return tuple(
            (Request(source=SumSource.TOTAL, release=self._release(name)),)
            for name in self.statement.releases
        )

    def first_board(self, catalogue: Catalogue) -> Board:
        """No data: the question, and the items that ratings are looked up by."""
        bisection = self.statement.bisection
        return Board(
            version=0,
            task=self.name,
            config=self.config,
            arrays={} if bisection is None else _stored(bisection.start),
            catalogue=catalogue.without_features,
        )

    def requests(self, board: Board) -> tuple[Request, ...]:
        """The next round; none once the answer is there."""
        plan = self.plan()
        answered = self.statement.bisected and _bracket(board).settled
        return () if board.version >= len(plan) or answered else plan[board.version]

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Each user's row, without her items.

        Raises:
            InputError: examples, which are no ratings.
        """
        if cohort.features is not None:
            raise InputError("a question is about ratings, and these rows are examples")
        bisection = self.statement.bisection
        rows = (
            self.statement.question.rows(cohort)
            if bisection is None
            else bisection.rows(cohort, _bracket(board))
        )
        totals = {request.name: rows for request in requests}
        return of_totals(totals, n_items=board.catalogue.n_items, n_users=cohort.n_users)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """What is known after the round."""
        noised = released.array(self.statement.releases[board.version])[0]
        ratio = np.maximum(board.arrays.get(_NOISE_RATIO, np.ones(1)), float(released.noise_ratio))
        bisection = self.statement.bisection
        if bisection is None:
            return board.successor(**{_SUMS: noised, _NOISE_RATIO: ratio})
        left = bisection.narrowed(_bracket(board), noised)
        return board.successor(**_stored(left), **{_NOISE_RATIO: ratio})

    def answer(self, board: Board) -> Answer:
        """What the last board says, with how far the noise may have moved it.

        Raises:
            InputError: rounds are still to come.
        """
        if self.requests(board):
            raise InputError("this question is not answered yet; rounds are still to come")
        release = self._release(self.statement.releases[0])
        ratio = float(np.asarray(board.arrays[_NOISE_RATIO])[0])
        deviation = release.noise_stddev * release.grid_step * ratio
        bisection = self.statement.bisection
        if bisection is not None:
            return bisection.read(_bracket(board), deviation=deviation)
        return self.statement.question.read(np.asarray(board.arrays[_SUMS]), deviation=deviation)

    def _release(self, name: str) -> GaussianRelease:
        statement, bisection = self.statement, self.statement.bisection
        z, adjacency = statement.noise_multipliers[name], statement.adjacency
        if bisection is not None:
            return bisection.release(name, noise_multiplier=z, adjacency=adjacency)
        release = statement.question.release(
            name, Mechanism.GAUSSIAN, noise_multiplier=z, adjacency=adjacency
        )
        assert isinstance(release, GaussianRelease)  # the mechanism says so
        return release


def rebuilt_question(board: Board) -> StatedQuestion:
    """The question that stands on a board.

    Raises:
        InputError: what stands there is none, or its numbers do not agree.
    """
    try:
        return StatedQuestion(msgspec.convert(dict(board.config), QuestionStatement))
    except msgspec.ValidationError as error:
        raise InputError(
            f"the board states no question that this version of fedboard knows: {error}"
        ) from error


def _bracket(board: Board) -> Bracket:
    first, last = (int(number) for number in np.asarray(board.arrays[BRACKET]))
    return Bracket(first, last)


def _stored(bracket: Bracket) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    return {BRACKET: np.array([bracket.first, bracket.last], dtype=np.int64)}
