"""The ledger of a simulation, and the account of its population where one is kept."""

from contextlib import ExitStack

from fedboard.common.privacy.accounting.plan import Plan
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.publication import BoardStore
from fedboard.server.run_ledger import open_run_ledger
from fedboard.simulations.config import PrivacyConfig, SimulationConfig
from fedboard.simulations.runs.directory import RunDirectory


def open_ledger(run: RunDirectory, config: SimulationConfig, plan: Plan, stack: ExitStack) -> Ledger:
    """Start the run's ledger or go on with it, see ``fedboard.server.run_ledger``; the stack closes it."""
    store = BoardStore(run.boards)
    return open_run_ledger(run.ledger, promise=config.promise, plan=plan, store=store, stack=stack)


def give_back(run: RunDirectory, privacy: PrivacyConfig) -> None:
    """Free what is reserved for a run that failed before it had released anything."""
    if privacy.population is None or not run.ledger.exists():
        return
    with Ledger.open(run.ledger, read_only=True) as ledger:
        identity = ledger.id
    with Population.open(privacy.population) as population:
        population.give_back(identity)
