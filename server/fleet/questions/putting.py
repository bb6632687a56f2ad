"""Putting a question to a fleet: its board, its ledger with all of its rounds reserved, and then its job."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shutil import rmtree

from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.questions.stated_task import StatedQuestion
from fedboard.common.questions.statement import QuestionStatement
from fedboard.common.questions.wording import Wording
from fedboard.common.tasks.on_examples.registry import learns_from_examples
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.preparing import shared_by_jobs, who_takes_part
from fedboard.server.fleet.plan.protocols import protocol_of, require_carried
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.questions.account import account_path, open_account
from fedboard.server.fleet.questions.places import LEDGER, PutQuestion, next_number, place_of
from fedboard.server.run_ledger import plan_of
from fedboard.server.run_spec import Promise

_ASSUMPTION = (
    "What is asked, the bound on a user's weight and the possible answers are public, and were chosen by nothing "
    "that depends on these ratings but releases in the account named here."
)


def put_question(settings: FleetSettings, wording: Wording, *, epsilon: float) -> PutQuestion:
    """Write a question down, so that the fleet's server asks it; whatever happens then, it is paid for.

    Guarantee: all rounds of the question are reserved in the fleet's account when this returns, beside the whole
    training; when it raises, nobody will be asked.

    Args:
        settings: of the fleet, whose server has run before: its board 0 is there.
        wording: what is asked. Public.
        epsilon: what the question costs by itself, at the fleet's delta.

    Raises:
        BudgetExceededError: the account has not that much left.
        InputError: a number is out of range, the protocol cannot carry it, or the fleet does not hold ratings.
        PrivacyError: account or ledger cannot be used.
        StorageError: it cannot be written.
    """
    state = StateFolder.of(settings)
    if learns_from_examples(settings.task.algorithm):
        raise InputError("questions are about ratings, and the devices of this fleet hold examples")
    if not state.first_board.exists():
        raise InputError(f"{state.path}: no server has made ready there; start it with: fedboard server")
    with open_account(settings) as account, _claimed(state) as put:
        task = StatedQuestion(_statement(settings, wording, put, epsilon))
        job = _job(settings, put, task.statement)
        require_carried(protocol_of(job), task, job)
        task.first_board(Board.load(state.first_board).catalogue).save(put.state.first_board)
        _reserve(task, put, job.privacy, account)
        job.save(put.state.job)
    return put


def _statement(
    settings: FleetSettings, wording: Wording, put: PutQuestion, epsilon: float
) -> QuestionStatement:
    return wording.statement(
        settings.task.rating_range,
        scaled=settings.task.feedback == "explicit",
        release=put.name,
        epsilon=epsilon,
        delta=settings.privacy.delta,
        adjacency=settings.privacy.adjacency,
    )


@contextmanager
def _claimed(state: StateFolder) -> Iterator[PutQuestion]:
    """A place of its own, also where two questions are put at a time; gone if nothing was reserved for it."""
    put = place_of(state, next_number(state))
    while True:
        with suppress(FileExistsError):
            put.state.path.mkdir(mode=0o700)
            break
        put = place_of(state, put.number + 1)
    try:
        put.state.run.mkdir(parents=True, mode=0o700)
        yield put
    except BaseException:
        if not (put.state.run / LEDGER).exists():
            rmtree(put.state.path, ignore_errors=True)
        raise


def _reserve(task: StatedQuestion, put: PutQuestion, promise: Promise, account: Population) -> None:
    """The question's own ledger, which the run goes on with."""
    plan = plan_of(task, promise.participation.chosen)
    run = put.state.run
    Ledger.create(run / LEDGER, promise.budget, run=run.name, plan=plan, population=account).close()


def _job(settings: FleetSettings, put: PutQuestion, statement: QuestionStatement) -> Job:
    of_fleet, state = settings.promise, put.state
    promise = Promise(
        epsilon=statement.epsilon,
        delta=of_fleet.delta,
        adjacency=of_fleet.adjacency,
        noise=of_fleet.noise,
        seed=of_fleet.seed,
        population=str(account_path(StateFolder.of(settings))),
    )
    return Job(
        **shared_by_jobs(settings),
        folder=str(state.run),
        first_board=str(state.first_board),
        privacy=promise,
        assumptions=(_ASSUMPTION, who_takes_part(settings)),
    )
