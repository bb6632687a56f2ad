"""A question as it stands on a board: all that a device must know to answer it, and to show it to its owner.

It is a task of rounds: devices and servers rebuild it from its board, as every other task.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import require
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource, of_totals
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.adjacency import OF_TRAININGS, Adjacency
from fedboard.common.privacy.events import RELATIVE_TOLERANCE
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.queries.collection import Answer, Mechanism, Subject
from fedboard.common.queries.mean import MeanQuestion
from fedboard.common.queries.names import TASK, of_question
from fedboard.common.queries.quantile import Bisection, Bracket, QuantileQuestion, Target
from fedboard.common.task import ReleasedSums

_EPSILONS, _LEAST_DELTA = (1e-6, 1e3), 1e-15
"""Beyond them calibration is no longer exact; nobody asks there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionStatement:
    """Everything about one question to a fleet. Every field is public by definition.

    Guarantee: what it says of epsilon is what its noise costs; one whose numbers do not agree cannot be made.
    """

    kind: Literal["mean", "quantile"]
    subject: Subject
    release: str
    """``question-N``: of the release, or of each round's with the number of the round behind a slash."""
    epsilon: float
    """What it costs a user who gives all of her part, in all of its rounds."""
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    bound: float = 1.0
    """Ratings beyond which a user weighs no more; 1 for the other subjects."""
    rating_range: tuple[float, float] | None = None
    """Lowest and highest rating, beyond which one is left out; None, of counts alone: all are counted."""
    low: float = 0.0
    """Of a mean: numbers below are raised to it."""
    high: float = 1.0
    """Of a mean: numbers above are lowered to it."""
    share: float = 0.5
    """Of a quantile, which; in (0, 1)."""
    candidates: tuple[float, ...] = ()
    """Of a quantile, the possible answers, ascending."""
    bisected: bool = False
    """Of a quantile: whether it is asked in rounds, each of which halves the candidates."""
    noise_multipliers: Mapping[str, float] = field(default_factory=dict)
    """Release name -> z; they follow from the rest, and are stated as those of every task are."""

    def __post_init__(self) -> None:
        """Check every range, and that noise and epsilon agree.

        Raises:
            InputError: a value is outside its range, or they do not agree.
        """
        named = of_question(self.release) and "/" not in self.release
        require(named, "release", "question-N", self.release)
        low, high = _EPSILONS
        require(low <= self.epsilon <= high, "epsilon", f"in [{low:g}, {high:g}]", self.epsilon)
        require(_LEAST_DELTA <= self.delta < 1, "delta", f"in [{_LEAST_DELTA:g}, 1)", self.delta)
        require(self.adjacency in OF_TRAININGS, "adjacency", " or ".join(OF_TRAININGS), str(self.adjacency))
        if self.bisected and self.kind != "quantile":
            raise InputError("only a quantile is bisected; leave bisected out for a mean")
        _ = self.question
        scaled = self.rating_range is not None and math.isfinite(sum(self.rating_range))
        if self.rating_range is None and self.subject is not Subject.COUNTS:
            raise InputError(f"a question about {self.subject} needs the public range of the ratings")
        require(
            self.rating_range is None or (scaled and self.rating_range[0] < self.rating_range[1]),
            "rating_range",
            "LOW < HIGH, both finite",
            self.rating_range,
        )
        if not self.noise_multipliers:
            object.__setattr__(self, "noise_multipliers", dict.fromkeys(self.releases, self._multiplier))
        self._require_agreeing()

    @property
    def question(self) -> MeanQuestion | QuantileQuestion:
        """What each user is asked.

        Raises:
            InputError: a number is out of its range.
        """
        if self.kind == "mean":
            return MeanQuestion(
                subject=self.subject, low=self.low, high=self.high, bound=self.bound, centre=self._centre
            )
        return QuantileQuestion(
            subject=self.subject,
            target=Target(self.share),
            candidates=self.candidates,
            bound=self.bound,
            centre=self._centre,
        )

    @property
    def bisection(self) -> Bisection | None:
        """Its rounds; None where it is asked in one."""
        question = self.question
        return Bisection(question) if self.bisected and isinstance(question, QuantileQuestion) else None

    @property
    def releases(self) -> tuple[str, ...]:
        """Names of its releases, one a round."""
        bisection = self.bisection
        if bisection is None:
            return (self.release,)
        return tuple(f"{self.release}/{number}" for number in range(1, bisection.n_rounds + 1))

    @property
    def title(self) -> str:
        """What it asks, in a few words; by these a policy allows it."""
        return self.question.title

    @property
    def sentence(self) -> str:
        """All of it, for a person: what is asked, within which bounds, at which cost."""
        said = [self.title, self._answers]
        if self.rating_range is not None:
            said.append("of ratings from {:g} to {:g}".format(*self.rating_range))
        if self.subject is Subject.RATINGS:
            said.append(f"no user weighing more than {self.bound:g} ratings")
        rounds = len(self.releases)
        said.append(f"in {rounds} round{'s' * (rounds > 1)}")
        said.append(f"at epsilon {self.epsilon:g} and delta {self.delta:g} ({self.adjacency})")
        return ", ".join(said)

    @property
    def _centre(self) -> float:
        """Of the rating scale; for norms."""
        return 0.0 if self.rating_range is None else 0.5 * sum(self.rating_range)

    @property
    def _answers(self) -> str:
        if self.kind == "mean":
            return f"numbers from {self.low:g} to {self.high:g}"
        first, last = self.candidates[0], self.candidates[-1]
        return f"one of {len(self.candidates)} numbers from {first:g} to {last:g}"

    @property
    def _multiplier(self) -> float:
        """Of each round: together they cost epsilon."""
        return math.sqrt(len(self.releases)) / _mu(self.epsilon, self.delta)

    def _require_agreeing(self) -> None:
        stated, due = self.noise_multipliers, self._multiplier
        agreeing = stated.keys() == set(self.releases) and all(
            math.isclose(z, due, rel_tol=RELATIVE_TOLERANCE) for z in stated.values()
        )
        if not agreeing:
            raise InputError(
                f"the noise of a question must be that of its epsilon {self.epsilon:g} at delta {self.delta:g}; "
                "it was stated with other noise"
            )


@lru_cache(maxsize=64)
def _mu(epsilon: float, delta: float) -> float:
    return mu_for(epsilon, delta)


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
