"""Tiny runs of any algorithm on made-up users, through bounds, ledger and noise: for its contract."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedboard.common.algorithms.shared.algorithm import Algorithm, RatingTask, Variant
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.server.calibrating import CalibratedTask, Training, calibrated_task
from fedboard.server.round import run_round
from fedboard.server.run_spec import Promise
from fedboard.server.runtime import Gathered, NoisedSums

USERS, ITEMS, RANGE, DELTA = 24, 12, (1.0, 5.0), 1e-6
_LARGEST_EPSILON = 20.0
_OUT_OF_RANGE = 1e6


class ContractError(AssertionError):
    """An algorithm that does not keep the contract; says what is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRound:
    """One round of a played run."""

    board: Board
    requests: tuple[Request, ...]
    after: Board


def require_kept(holds: bool, sentence: str) -> None:
    """Say what is broken.

    Raises:
        ContractError: it does not hold.
    """
    if not holds:
        raise ContractError(sentence)


def population(feedback: Feedback) -> Cohort:
    """Made-up users: one without a rating, one who rated everything lowest, one highest. The same every time."""
    rng = np.random.default_rng(7)
    rated = rng.random((USERS, ITEMS)) < rng.uniform(0.2, 0.9, (USERS, 1))
    ratings = rng.integers(1, 6, (USERS, ITEMS)).astype(np.float32)
    rated[0], rated[1], rated[2] = False, True, True
    ratings[1], ratings[2] = RANGE
    if feedback is Feedback.IMPLICIT:
        ratings[:] = 1.0
    users, items = np.nonzero(rated)
    return cohort_from_triples(
        users.astype(np.int32), items.astype(np.int32), ratings[rated], n_users=USERS, n_items=ITEMS
    )


def impossible(feedback: Feedback) -> Cohort:
    """The same users with ratings that nobody could give."""
    users = population(feedback)
    signs = np.where(np.arange(users.n_ratings) % 3 == 0, -1.0, 1.0).astype(np.float32)
    return replace(users, ratings=signs * np.float32(_OUT_OF_RANGE))


def ways(algorithm: Algorithm) -> Iterator[tuple[Variant, Feedback]]:
    """Every name with all that it learns from."""
    for name in algorithm.names:
        for feedback in sorted(algorithm.feedback):
            yield algorithm.variant(name), feedback


def made(
    variant: Variant,
    feedback: Feedback,
    *,
    epsilon: float = _LARGEST_EPSILON,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> CalibratedTask:
    """Its task at a budget, with tuned defaults."""
    promise = Promise(epsilon=epsilon, delta=DELTA, adjacency=adjacency, seed=1)
    training = Training(algorithm=variant, feedback=feedback, promise=promise)
    return calibrated_task(training, rating_range=RANGE, backend="numpy")


@dataclass(frozen=True, slots=True)
class _InOneCall:
    """The smallest runtime: everybody in one cohort."""

    task: RatingTask
    users: Cohort

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The exact sums over everybody, bounds checked."""
        rows, protocol = self.task.contribute(self.users, board, tuple(requests)), Trusted()
        if attendance is not None:
            attendance.draw(rows.n_users)
        return Gathered(sums=protocol.combine([protocol.encode(rows, requests)], requests))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)


def played(task: RatingTask, users: Cohort) -> list[PlayedRound]:
    """A run from the first board to the last, through bounds, ledger and noise."""
    board = task.first_board(Catalogue(item_ids=tuple(f"item {i}" for i in range(ITEMS))))
    plan = {request.name: request.release.noise_multiplier for asked in task.plan() for request in asked}
    budget = Budget(epsilon=_LARGEST_EPSILON, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    rounds: list[PlayedRound] = []
    with (
        tempfile.TemporaryDirectory(prefix="fedboard-contract-") as folder,
        Ledger.create(Path(folder) / "ledger", budget, plan=plan) as ledger,
    ):
        while requests := task.requests(board):
            done = run_round(
                task, board, runtime=_InOneCall(task, users), ledger=ledger, noise=SeededNoise(3)
            )
            require_kept(
                done.rejected_rows == 0,
                f"{done.rejected_rows} rows break their bounds after board {board.version}",
            )
            require_kept(done.board.version == board.version + 1, "update must return the board's successor")
            rounds.append(PlayedRound(board=board, requests=requests, after=done.board))
            board = done.board
            require_kept(len(rounds) <= len(plan), "the run does not end")
    return rounds
