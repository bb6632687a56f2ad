"""The ledger of a run: made with its plan, and held against it when the run goes on."""

from contextlib import ExitStack
from pathlib import Path

from fedboard.common.errors import PrivacyError
from fedboard.common.per_user.participation import Participation, round_name
from fedboard.common.privacy.accounting.budget import Plan
from fedboard.common.privacy.events import canonical_json
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.task import RoundTask
from fedboard.server.publication import BoardStore
from fedboard.server.run_spec import Promise


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
