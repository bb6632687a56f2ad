"""The ledger of a simulation, and the account of its population where one is kept."""

from contextlib import ExitStack

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.events import canonical_json
from fedboard.common.privacy.ledger import Budget, Ledger
from fedboard.common.privacy.participation import Participation, round_name
from fedboard.common.privacy.plan import Plan
from fedboard.common.privacy.population import Population
from fedboard.common.task import Task
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import PrivacyConfig, SimulationConfig
from fedboard.simulations.run_directory import RunDirectory


def plan_of(task: Task, participation: Participation) -> Plan:
    """What a whole run will release, with the sampling that its accounting counts on."""
    plan = {}
    for version, requests in enumerate(task.plan()):
        stated = participation.event_field(round_name(version))
        for request in requests:
            z = request.release.noise_multiplier
            plan[request.name] = z if stated is None else {"noise_multiplier": z, "participation": stated}
    return plan


def open_ledger(run: RunDirectory, config: SimulationConfig, plan: Plan, stack: ExitStack) -> Ledger:
    """Start the run's ledger or go on with it; the stack closes it.

    Raises:
        BudgetExceededError: the plan does not fit the run's budget, or what its population has left.
        InputError: no such population.
        PrivacyError: the ledger is missing although boards are there, was made for another budget, plan or
            population, or was tampered with.
    """
    privacy = config.privacy
    budget = Budget(epsilon=privacy.epsilon, delta=privacy.delta, adjacency=privacy.adjacency)
    population = None
    if privacy.population is not None:
        population = stack.enter_context(Population.open(privacy.population))
    if run.ledger.exists():
        ledger = stack.enter_context(Ledger.open(run.ledger, population=population))
        if ledger.budget != budget or canonical_json(ledger.plan) != canonical_json(plan):
            raise PrivacyError(
                f"{run.ledger}: this ledger was made for another budget or plan; restore the run's own"
            )
        return ledger
    if BoardStore(run.boards).versions():
        raise PrivacyError(
            f"{run.path}: its boards are there but not the ledger that paid for them; restore {run.ledger.name}, "
            "or start a new run"
        )
    name = run.path.name or "run"
    return stack.enter_context(
        Ledger.create(run.ledger, budget, run=name, plan=plan, population=population, lineage=privacy.lineage)
    )


def give_back(run: RunDirectory, privacy: PrivacyConfig) -> None:
    """Free what is reserved for a run that failed before it had released anything."""
    if privacy.population is None or not run.ledger.exists():
        return
    with Ledger.open(run.ledger, read_only=True) as ledger:
        identity = ledger.id
    with Population.open(privacy.population) as population:
        population.give_back(identity)


__all__ = ["give_back", "open_ledger", "plan_of"]
