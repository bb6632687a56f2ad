"""The account of a fleet's people: the training and every query are reserved in it before anybody is asked."""

from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.errors import InputError, PrivacyError, StorageError
from fedboard.common.files import write_atomically
from fedboard.common.per_user.participation import FullParticipation
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.tasks.rebuilding import rebuild_any
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.run_ledger import plan_of

LEDGER = "ledger.sqlite"
"""Of a run, in its folder."""
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
    _require_open(state)
    if section is None:
        raise InputError(
            "this fleet is asked nothing: give its fleet.toml a section [queries] with epsilon, of the training "
            "and all queries together"
        )
    promise = settings.privacy
    budget = Budget(epsilon=section.epsilon, delta=promise.delta, adjacency=promise.adjacency)
    path = account_path(state)
    _make_folder(state.questions)
    account = Population.open(path) if path.exists() else Population.create(path, budget)
    try:
        _require_same(account, budget, path)
        if not settings.alone or (state.run / LEDGER).exists():  # a training that was, before it was left out
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
    if section is not None and not settings.alone and not _mark(state).exists():
        open_account(settings).close()
    elif (section is None or not settings.alone) and account_path(state).exists():
        with Population.open(account_path(state)) as account:
            _count_training(account, state)


def close_account(state: StateFolder, reason: str) -> None:
    """No query is put any more; durable on return.

    Args:
        state: of the fleet.
        reason: a sentence without a full stop.
    """
    _make_folder(state.questions)
    write_atomically(_mark(state), reason.encode())


def _mark(state: StateFolder) -> Path:
    return state.questions / "closed"


def _require_open(state: StateFolder) -> None:
    if (mark := _mark(state)).exists():
        raise PrivacyError(
            f"{state.questions}: no more queries can be put here: {mark.read_text(encoding='utf-8')}. What "
            "was promised may be used up"
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StorageError(f"{folder}: no queries can be kept there ({error.strerror})") from error


def _require_same(account: Population, budget: Budget, path: Path) -> None:
    if account.budget != budget:
        made = account.budget
        raise InputError(
            f"{path}: this account was made for epsilon {made.epsilon:g} at delta {made.delta:g}, "
            f"{made.adjacency}, which is what was promised; set queries.epsilon back to {made.epsilon:g}"
        )


def _count_training(account: Population, state: StateFolder) -> None:
    """All that the training will ever release is reserved; what it has released is booked as its ledger has it."""
    task = rebuild_any(Board.load(state.first_board))
    account.join(_TRAINING, name=state.name, plan=plan_of(task, FullParticipation()))
    ledger = state.run / LEDGER
    if not ledger.exists():
        return
    with Ledger.open(ledger, read_only=True) as paid:
        events = paid.events()
    booked = next(member for member in account.members() if member.run == _TRAINING).booked
    if missing := [event for event in events if event["name"] not in booked]:
        account.book(_TRAINING, missing)
