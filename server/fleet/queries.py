"""Queries to the people of a fleet: each a job of one task, put while the server runs or not, which it asks then.

A query is paid for and written down before anybody is asked: its ledger with all of its rounds reserved in the
account, where the training is reserved too, and then its board. How it stands is read from the files.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from shutil import rmtree
from typing import Any

import msgspec

from fedboard.common.algorithms.registry import learns_from_examples, rebuild_any
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.contribution_bounding.participation import FullParticipation
from fedboard.common.errors import InputError, PrivacyError, StorageError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.queries.collection import Answer, Mechanism
from fedboard.common.queries.statement import QuestionStatement, StatedQuestion, rebuilt_question
from fedboard.common.queries.wording import Wording, rank_unit
from fedboard.server.fleet.job import Job, job_of, protocol_of, require_carried
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import StateFolder, close, reason_of
from fedboard.server.publication import BoardStore
from fedboard.server.training import plan_of

_TRAINING = "training"
"""What the account calls it; a query has the id of its ledger."""


def account_path(state: StateFolder) -> Path:
    """File of the account."""
    return state.questions / "account.sqlite"


def open_account(settings: FleetSettings) -> Population:
    """Open the account, or make it; the training's whole plan is reserved there, what it has released is booked.

    Raises:
        BudgetExceededError: the training alone costs more than the account holds.
        InputError: no queries are foreseen, or the account was made for another budget.
        PrivacyError: account or ledger were tampered with, or the training is another one than the account knows.
        StorageError: they cannot be written.
    """
    section, state = settings.queries, StateFolder.of(settings)
    if (closed := reason_of(state.questions)) is not None:
        raise PrivacyError(
            f"{state.questions}: no more queries can be put here: {closed}. What was promised may be used up"
        )
    if section is None:
        raise InputError(
            "this fleet is asked nothing: give its fleet.toml a section [queries] with epsilon, of the training "
            "and all queries together"
        )
    promise = settings.privacy
    budget = Budget(epsilon=section.epsilon, delta=promise.delta, adjacency=promise.adjacency)
    path = account_path(state)
    try:
        state.questions.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StorageError(f"{state.questions}: no queries can be kept there ({error.strerror})") from error
    account = Population.open(path) if path.exists() else Population.create(path, budget)
    try:
        if (made := account.budget) != budget:
            raise InputError(
                f"{path}: this account was made for epsilon {made.epsilon:g} at delta {made.delta:g}, "
                f"{made.adjacency}, which is what was promised; set queries.epsilon back to {made.epsilon:g}"
            )
        if not settings.alone or state.ledger.exists():  # a training that was, before it was left out
            _count_training(account, state)
    except BaseException:
        account.close()
        raise
    return account


def require_counted(settings: FleetSettings) -> None:
    """Before the training asks anybody: all of it is reserved in the account, where there is one or is to be.

    Settings change between starts of a server: queries that were put where there was no training
    (no ``privacy.epsilon``) count against one that is begun later, also where the section is gone by then.

    Raises:
        BudgetExceededError: the training costs more than the queries before it have left.
        InputError: the account was made for another budget.
        PrivacyError: account or ledger were tampered with, or the training is another one than the account knows.
        StorageError: they cannot be written.
    """
    section, state = settings.queries, StateFolder.of(settings)
    if not state.first_board.exists():
        return  # a server that was never made ready has nothing to train
    if section is not None and not settings.alone and reason_of(state.questions) is None:
        open_account(settings).close()
    elif (section is None or not settings.alone) and account_path(state).exists():
        with Population.open(account_path(state)) as account:
            _count_training(account, state)


def _count_training(account: Population, state: StateFolder) -> None:
    """All that the training will ever release is reserved; what it has released is booked as its ledger has it."""
    task = rebuild_any(Board.load(state.first_board))
    account.join(_TRAINING, name=state.name, plan=plan_of(task, FullParticipation()))
    if not state.ledger.exists():
        return
    with Ledger.open(state.ledger, read_only=True) as paid:
        events = paid.events()
    booked = next(member for member in account.members() if member.run == _TRAINING).booked
    if missing := [event for event in events if event["name"] not in booked]:
        account.book(_TRAINING, missing)


_PREFIX = "question-"
_ASSUMPTION = (
    "What is asked, the bound on a user's weight and the possible answers are public, and were chosen by nothing "
    "that depends on these ratings but releases in the account named here."
)


class Standing(StrEnum):
    """How a query stands."""

    WAITING = "waiting"
    """Nobody was asked, or not all rounds are over."""
    ANSWERED = "answered"
    CLOSED = "closed"
    """Given up; nothing more is released in its name."""


@dataclass(frozen=True, slots=True)
class PutQuery:
    """One query that was put to the fleet."""

    state: StateFolder
    """Of the query alone: its first board and its run."""
    number: int

    @property
    def name(self) -> str:
        """Of its release, and of its folder."""
        return f"{_PREFIX}{self.number}"

    def task(self) -> StatedQuestion:
        """What is asked.

        Raises:
            InputError: its board is damaged.
        """
        return rebuilt_question(Board.load(self.state.first_board))

    def last_board(self) -> Board:
        """The last published one, or the first where none is.

        Raises:
            InputError: it is damaged.
        """
        boards = BoardStore(self.state.boards)
        return boards.latest() if boards.versions() else Board.load(self.state.first_board)

    @property
    def reason(self) -> str | None:
        """Why it was given up; None where it was not."""
        return reason_of(self.state.run)

    def standing(self) -> Standing:
        """How it stands.

        Raises:
            InputError: a board of it is damaged.
        """
        if not self.task().requests(self.last_board()):
            return Standing.ANSWERED
        return Standing.WAITING if self.reason is None else Standing.CLOSED


def place_of(fleet: StateFolder, number: int) -> PutQuery:
    """Where query N is or would be. The run is called after the fleet's, so that policies know it."""
    folder = fleet.questions / f"{_PREFIX}{number}"
    state = StateFolder(folder, f"{fleet.name}-{_PREFIX}{number}")
    return PutQuery(state=state, number=number)


def queries_of(fleet: StateFolder) -> list[PutQuery]:
    """All that were put, by their numbers: those that are written down as a whole, their board last."""
    places = [place_of(fleet, number) for number in sorted(_numbers(fleet.questions))]
    return [put for put in places if put.state.first_board.exists()]


def _numbers(folder: Path) -> Iterator[int]:
    for path in folder.glob(f"{_PREFIX}*"):
        number = path.name.removeprefix(_PREFIX)
        if number.isdecimal():
            yield int(number)


def put_query(settings: FleetSettings, wording: Wording, *, epsilon: float) -> PutQuery:
    """Write a query down, so that the fleet's server asks it; whatever happens then, it is paid for.

    Guarantee: all rounds of the query are reserved in the fleet's account when this returns, beside the whole
    training; when it raises, nobody will be asked.

    Args:
        settings: of the fleet, whose server has run before: its board 0 is there.
        wording: what is asked. Public.
        epsilon: what the query costs by itself, at the fleet's delta.

    Raises:
        BudgetExceededError: the account has not that much left.
        InputError: a number is out of range, the protocol cannot carry it, or the fleet does not hold ratings.
        PrivacyError: account or ledger cannot be used.
        StorageError: it cannot be written.
    """
    state = StateFolder.of(settings)
    if learns_from_examples(settings.task.algorithm):
        raise InputError("queries are about ratings, and the devices of this fleet hold examples")
    if not state.first_board.exists():
        raise InputError(f"{state.path}: no server has made ready there; start it with: fedboard server")
    with open_account(settings) as account, _claimed(state) as put:
        task = StatedQuestion(
            wording.statement(
                settings.task.rating_range,
                scaled=settings.task.feedback == "explicit",
                release=put.name,
                epsilon=epsilon,
                delta=settings.privacy.delta,
                adjacency=settings.privacy.adjacency,
            )
        )
        job = job_of_query(settings, put, task.statement)
        require_carried(protocol_of(job), task, job)
        plan = plan_of(task, job.privacy.participation.chosen)
        paid, run = put.state.ledger, put.state.run.name  # its own, which the run goes on with
        Ledger.create(paid, job.privacy.budget, run=run, plan=plan, population=account).close()
        task.first_board(Board.load(state.first_board).catalogue).save(put.state.first_board)
    return put


@contextmanager
def _claimed(state: StateFolder) -> Iterator[PutQuery]:
    """A place of its own, also where two queries are put at a time; gone if nothing was reserved for it."""
    # one that could not be written down as a whole keeps its number to itself
    put = place_of(state, max(_numbers(state.questions), default=0) + 1)
    while True:
        with suppress(FileExistsError):
            put.state.path.mkdir(mode=0o700)
            break
        put = place_of(state, put.number + 1)
    try:
        put.state.run.mkdir(parents=True, mode=0o700)
        yield put
    except BaseException:
        if not put.state.ledger.exists():
            rmtree(put.state.path, ignore_errors=True)
        raise


def job_of_query(settings: FleetSettings, put: PutQuery, statement: QuestionStatement) -> Job:
    """What asks this query, paid from the fleet's account."""
    account = str(account_path(StateFolder.of(settings)))
    promise = msgspec.structs.replace(settings.promise, epsilon=statement.epsilon, population=account)
    return job_of(settings, put.state, promise=promise, assumptions=(_ASSUMPTION,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A query that a fleet has answered, and what it cost. Public."""

    statement: QuestionStatement
    answer: Answer
    certificate: Certificate

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, without the certificate; the keys of a query to a data set."""
        statement, total = self.statement, self.certificate.population
        assert total is not None  # a fleet keeps an account
        return {
            "question": statement.title,
            **asdict(self.answer),
            "rank_unit": None
            if self.answer.rank_error is None
            else rank_unit(statement.subject, statement.bound),
            "mechanism": str(Mechanism.GAUSSIAN),
            "release": statement.release,
            "epsilon": statement.epsilon,
            "claimed": self.certificate.claim.epsilon,
            "spent": total.spent,
            "reserved": total.committed,
            "budget": total.budget,
            "delta": statement.delta,
            "adjacency": str(statement.adjacency),
            "private": self.certificate.private,
        }


def told(put: PutQuery) -> Told:
    """The answer.

    Raises:
        InputError: there is none yet, or it was given up; says why.
    """
    task, board = put.task(), put.last_board()
    match put.standing():
        case Standing.WAITING:
            raise InputError(
                f"{put.name} is not answered yet; it waits for the fleet's server and its devices"
            )
        case Standing.CLOSED:
            raise InputError(
                f"{put.name} was given up: {put.reason}; put it again if it is worth its epsilon"
            )
    certificate = Certificate.from_dict(dict(board.certificate or {}))
    return Told(statement=task.statement, answer=task.answer(board), certificate=certificate)


def give_up(put: PutQuery, fleet: StateFolder, reason: str) -> None:
    """Nothing more is released in a query's name; what was reserved for it and not booked is free for others.

    Args:
        put: which.
        fleet: whose account paid.
        reason: a sentence.

    Raises:
        PrivacyError: its ledger is in use or was tampered with; it is given up, and its part stays reserved.
        StorageError: it cannot be written.
    """
    close(put.state.run, reason.rstrip("."))
    with (
        Population.open(account_path(fleet)) as account,
        Ledger.open(put.state.ledger, population=account) as ledger,
    ):
        ledger.finish()
