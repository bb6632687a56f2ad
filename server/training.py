"""A run on the server: round after round from the last published board on, whatever interrupted it before.

Its ledger is made with its plan, and held against it when the run goes on.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.certificate.checks import RoundsMade
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import FullParticipation, Participation, round_name
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.privacy.accounting.budget import Plan
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.common.privacy.events import canonical_json
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import Trust
from fedboard.common.task import ClientTask, RoundTask
from fedboard.server.publication import BoardStore, require_same_history
from fedboard.server.round import RoundResult, book_lost, lost_round, run_round
from fedboard.server.run_spec import Promise
from fedboard.server.runtime import Runtime, Traffic


def plan_of(task: RoundTask, participation: Participation) -> Plan:
    """What a whole run will release, with the sampling that its accounting counts on."""
    plan = {}
    for version, requests in enumerate(task.plan()):
        stated = participation.event_field(round_name(version))
        for request in requests:
            z = request.release.noise_multiplier
            plan[request.name] = z if stated is None else {"noise_multiplier": z, "participation": stated}
    return plan


def open_run_ledger(
    path: Path,
    *,
    promise: Promise,
    plan: Plan,
    store: BoardStore,
    stack: ExitStack,
) -> Ledger:
    """Start a run's ledger or go on with it; the stack closes it.

    Args:
        path: of the ledger; its folder is the run's, and gives it its name.
        promise: its budget, and the account of a population that it counts with.
        plan: of the run.
        store: the run's boards.
        stack: closes what is opened.

    Raises:
        BudgetExceededError: the plan does not fit the run's budget, or what its population has left.
        InputError: no such population.
        PrivacyError: the ledger is missing although boards are there, was made for another budget, plan or
            population, or was tampered with.
    """
    of, budget = promise.population, promise.budget
    account = None if of is None else stack.enter_context(Population.open(of))
    if path.exists():
        ledger = stack.enter_context(Ledger.open(path, population=account))
        if ledger.budget != budget or canonical_json(ledger.plan) != canonical_json(plan):
            raise PrivacyError(
                f"{path}: this ledger was made for another budget or plan; restore the run's own"
            )
        return ledger
    if store.versions():
        raise PrivacyError(
            f"{path.parent}: its boards are there but not the ledger that paid for them; restore {path.name}, "
            "or start a new run"
        )
    name = path.parent.name or "run"
    return stack.enter_context(
        Ledger.create(path, budget, run=name, plan=plan, population=account, lineage=promise.lineage)
    )


_EVERYBODY = FullParticipation()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRound:
    """A round whose board is published, or that was given up."""

    board: Board
    """Published."""
    releases: tuple[str, ...]
    """Names of those that made the board; none for a round that was given up."""
    rejected_rows: int
    traffic: Traffic | None
    seconds: float
    spent: Guarantee
    """By this run so far."""

    @property
    def lost(self) -> bool:
        """Whether it was paid for and nothing came of it."""
        return not self.releases


@dataclass(slots=True, kw_only=True)
class Training:
    """One run: its task, its clients, its ledger and its boards.

    Guarantee: a board is published only when all that it is made of is booked; a round that was booked and not
    published is never drawn again with private noise, but skipped (``lost_round``).
    """

    task: ClientTask
    store: BoardStore
    ledger: Ledger
    runtime: Runtime
    noise: NoiseSource
    trust: Trust
    dataset: str
    """Public description of the data."""
    assumptions: Sequence[str] = ()
    """What this run takes for granted beyond every run's; public facts."""
    participation: Participation = _EVERYBODY
    part: str = ""
    """Put before the names of its releases in a ledger that pays for several runs; whoever opened that ledger ends
    it. Public."""

    def start(self, first_board: Board) -> Board:
        """The last published board; where there is none, ``first_board`` is published.

        Raises:
            InputError: the boards that are there were made with other settings or items.
            PrivacyError: the ledger is not the one that paid for them, or the boards are those of a copy.
        """
        if not self.store.versions():
            return self._publish(first_board, RoundsMade(planned=len(self.task.plan()), made=0, lost=0))
        board = self.store.latest()
        settings = json.loads(json.dumps(dict(self.task.config)))
        if board.config != settings or board.catalogue != first_board.catalogue:
            raise InputError(
                f"{self.store.folder.parent}: its boards were made with other settings or items; start a new run"
            )
        require_same_history(board, self.ledger)
        self._require_newest(board)
        return board

    def rounds(self, board: Board) -> Iterator[FinishedRound]:
        """Run the rounds that follow ``board`` until the task asks for nothing more.

        Raises:
            PrivacyError: the preparation round was paid for but never published; its noise cannot be drawn again.
            TooFewAnswersError: too few clients answered the preparation round, or were there to be asked in any
                round; nothing was booked, and whoever goes on asks this round again.
        """
        while self.task.requests(board):
            began = time.monotonic()
            result = self._round(board)
            before = Certificate.from_dict(dict(board.certificate or {})).rounds
            rounds = None if before is None else before.after(lost=not result.requests)
            board = self._publish(result.board, rounds)
            yield FinishedRound(
                board=board,
                releases=tuple(request.name for request in result.requests),
                rejected_rows=result.rejected_rows,
                traffic=result.traffic,
                seconds=time.monotonic() - began,
                spent=self.ledger.spent(),
            )
        if not self.part:
            self.ledger.finish()

    def _publish(self, board: Board, rounds: RoundsMade | None) -> Board:
        self._require_booked(board)
        return self.store.publish(
            board,
            self.ledger,
            trust=self.trust,
            dataset=self.dataset,
            assumptions=self.assumptions,
            rounds=rounds,
        )

    def _require_newest(self, board: Board) -> None:
        """Refuse a copy, where the account of its users tells: a crash leaves one round unpublished, and no more.

        Raises:
            PrivacyError: a round is booked that only a later board can ask for.
        """
        later = self._booked_of(self.task.plan()[board.version + 1 :])
        if self.noise.private and any(later.values()):
            raise PrivacyError(
                f"{self.store.folder.parent}: this folder is a copy or older than the account of its users, which "
                f"holds releases that follow its last board, {board.version}; go on with the newest folder of this "
                "run, or start a new run with another --out"
            )

    def _booked_of(self, rounds: Sequence[Sequence[Request]]) -> dict[str, bool]:
        """Name of each release of some rounds -> whether the ledger holds it."""
        held = {str(event["name"]) for event in self.ledger.events()}
        names = [self.part + request.name for requests in rounds for request in requests]
        return {name: name in held for name in names}

    def _require_booked(self, board: Board) -> None:
        """Nothing is published that the ledger does not pay for, however it came about that it was not booked.

        Raises:
            PrivacyError: the ledger lacks releases that the plan has for the rounds behind this board.
        """
        behind = self._booked_of(self.task.plan()[: board.version])
        unpaid = [name for name, booked in behind.items() if not booked]
        if unpaid:
            raise PrivacyError(
                f"board {board.version} is not published: its releases {', '.join(unpaid)} are not in the ledger. "
                "See that the ledger can be written, then start a new run"
            )

    def _round(self, board: Board) -> RoundResult:
        asked = [self.task.requests(board)]
        if self.noise.private and any(self._booked_of(asked).values()):
            if board.version > 0:
                return lost_round(board)
            self.ledger.finish()
            raise PrivacyError(
                f"{self.store.folder.parent}: the preparation round was paid for but never published, and secure "
                "noise cannot be drawn again; its budget is lost. Start a new run with another --out"
            )
        try:
            return run_round(
                self.task,
                board,
                runtime=self.runtime,
                ledger=self.ledger,
                noise=self.noise,
                participation=self.participation,
                reissue=not self.noise.private,
                part=self.part,
            )
        except TooFewAnswersError as lost:
            if not lost.asked:
                raise  # nobody gave anything: whoever goes on begins this round
            first = (
                board.version == 0
            )  # without it nothing is learnt: whoever resumes asks again, if that is safe
            if first and not lost.given:
                raise
            if not any(self._booked_of(asked).values()):  # else it is booked, and its noise was not drawn
                book_lost(
                    self.task,
                    board,
                    ledger=self.ledger,
                    noise=self.noise,
                    participation=self.participation,
                    part=self.part,
                )
            if first:
                raise
            return lost_round(board)
