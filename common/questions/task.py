"""A question as the task of a runtime: clients answer with their rows; there is no model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError
from fedboard.common.questions.mean import MeanQuestion
from fedboard.common.questions.quantile import QuantileQuestion
from fedboard.common.task import ReleasedSums

Question: TypeAlias = MeanQuestion | QuantileQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTask:
    """What clients run to answer one question."""

    question: Question
    release_name: str

    @property
    def name(self) -> str:
        """What the empty board is for."""
        return "question"

    @property
    def config(self) -> Mapping[str, Any]:
        """The question in words."""
        return {"question": self.question.title, "release": self.release_name}

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """One round."""
        return ((self.question.collection(self.release_name).request(),),)

    def first_board(self, catalogue: Catalogue) -> Board:
        """An empty board."""
        return Board(version=0, task=self.name, config=self.config, arrays={}, catalogue=catalogue)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """The question."""
        return self.plan()[0]

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Each user's row; private."""
        rows = self.question.rows(cohort)
        return Contribution(
            n_items=cohort.n_items,
            indptr=cohort.indptr,
            items=cohort.items,
            totals={request.name: rows for request in requests},
        )

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """There is nothing to fit."""
        self._refuse()

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """There is no next board."""
        self._refuse()

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """There is nothing to rank by."""
        self._refuse()

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """There is nothing to predict from."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError("a question has an answer and no model")
