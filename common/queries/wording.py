"""A question as a person puts it, and what it is on a scale of ratings.

For a runtime it is a task: clients answer with their rows; there is no model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import require
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, of_totals
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.queries.collection import Subject
from fedboard.common.queries.mean import MeanQuestion
from fedboard.common.queries.quantile import QuantileQuestion, Target
from fedboard.common.queries.statement import QuestionStatement
from fedboard.common.task import ReleasedSums

_FEW_CANDIDATES, _MANY_CANDIDATES = 65, 201


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What is asked, as a person puts it. Public; nothing here may be read off the ratings."""

    kind: Literal["mean", "quantile"]
    subject: Subject = Subject.RATINGS
    share: float = 0.5
    """Of a quantile, which: in (0, 1)."""
    candidates: tuple[float, ...] | None = None
    """Of a quantile, the possible answers, ascending; None: spaced over the scale, or logarithmically."""
    bound: float | None = None
    """Ratings beyond which a user weighs no more; None: 20 of ratings, 1 of what a user has once."""
    highest: float | None = None
    """Largest number that counts; None: 1 000, of norms 100."""
    bisected: bool = False
    """Of a quantile: whether it is asked in rounds that halve the candidates."""

    def __post_init__(self) -> None:
        """Check what candidates are spaced by.

        Raises:
            InputError: it is out of its range.
        """
        holds = self.highest is None or 0 < self.highest < math.inf
        require(holds, "highest", "a finite number > 0", self.highest)

    def statement(
        self,
        rating_range: tuple[float, float],
        *,
        scaled: bool = True,
        release: str,
        epsilon: float,
        delta: float,
        adjacency: Adjacency,
    ) -> QuestionStatement:
        """The question as it stands on a board.

        Args:
            rating_range: lowest and highest rating. Public.
            scaled: whether ratings are on that scale; else, of implicit feedback, only their number says anything.
            release: ``question-N``.
            epsilon: what it costs by itself.
            delta: of that.
            adjacency: what neighbouring means.

        Raises:
            InputError: a number is out of its range.
        """
        question = self.question(rating_range)
        asked: dict[str, Any] = (
            {"low": question.low, "high": question.high}
            if isinstance(question, MeanQuestion)
            else {"share": self.share, "candidates": question.candidates, "bisected": self.bisected}
        )
        return QuestionStatement(
            kind=self.kind,
            subject=self.subject,
            release=release,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            bound=question.bound,
            rating_range=rating_range if scaled else None,
            **asked,
        )

    def question(self, rating_range: tuple[float, float]) -> MeanQuestion | QuantileQuestion:
        """The question, on a scale of ratings.

        Raises:
            InputError: a number is out of its range.
        """
        low, high = rating_range
        centre = 0.5 * (low + high)
        if self.kind == "quantile":
            return QuantileQuestion(
                subject=self.subject,
                target=Target(self.share),
                candidates=self._spaced(low, high) if self.candidates is None else self.candidates,
                bound=self.weight,
                centre=centre,
            )
        on_scale = self.subject is Subject.RATINGS
        return MeanQuestion(
            subject=self.subject,
            low=low if on_scale else 0.0,
            high=high if on_scale else self._highest,
            bound=self.weight,
            centre=centre,
        )

    @property
    def weight(self) -> float:
        """What all numbers of a user together weigh at most."""
        default = 20.0 if self.subject is Subject.RATINGS else 1.0
        return default if self.bound is None else float(self.bound)

    @property
    def rank_unit(self) -> str:
        """What a rank error counts."""
        return rank_unit(self.subject, self.weight)

    @property
    def _highest(self) -> float:
        default = 1000.0 if self.subject is Subject.COUNTS else 100.0
        return default if self.highest is None else float(self.highest)

    def _spaced(self, low: float, high: float) -> tuple[float, ...]:
        if self.subject is Subject.RATINGS:
            return tuple(np.linspace(low, high, _MANY_CANDIDATES).tolist())
        counts = self.subject is Subject.COUNTS
        spaced = np.geomspace(1.0 if counts else 0.1, self._highest, _FEW_CANDIDATES)
        return tuple(np.unique(np.rint(spaced) if counts else spaced).tolist())


def rank_unit(subject: Subject, bound: float) -> str:
    """What a rank error counts: a user has many ratings, but one number of them and one norm.

    Args:
        subject: of the question.
        bound: what all numbers of a user together weigh at most.
    """
    if subject is not Subject.RATINGS:
        return "users"
    return f"ratings, no user's counting for more than {bound:g}"


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
        totals = {request.name: rows for request in requests}
        return of_totals(totals, n_items=cohort.n_items, n_users=cohort.n_users)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """There is no next board."""
        raise InputError("a question has an answer and no model")
