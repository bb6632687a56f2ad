"""The ledger of a simulation, and the account of its population where one is kept."""

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import Budget, Plan, planned_events
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.publication import BoardStore
from fedboard.server.run_spec import Promise
from fedboard.server.training import open_run_ledger
from fedboard.simulations.config import PrivacyConfig, SimulationConfig
from fedboard.simulations.runs.directory import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of several runs that one ledger pays for, and whose boards all promise that ledger's budget.

    Guarantee: nothing of it is released that the ledger's budget does not cover together with all other parts, nor
    anything if its plan costs more than its own promise. Every field is public.
    """

    ledger: Path
    """Made before the first part, with the budget of all of them and no plan: later parts follow from earlier."""
    budget: Budget
    """Of all parts together."""
    name: str
    """Of this part; in the ledger its releases are ``name/release``."""
    population: Path | None = None
    """The account that the ledger was made with."""
    assumptions: tuple[str, ...] = ()
    """What its certificates say beyond every run's."""

    @property
    def prefix(self) -> str:
        """What stands before its releases' names."""
        return f"{self.name}/"

    def open(self, run: RunDirectory, plan: Plan, promise: Promise, stack: ExitStack) -> Ledger:
        """The ledger; the stack closes it. The run's directory gets a link to it, for those who verify a run.

        Args:
            run: where this part is kept.
            plan: of this part's releases.
            promise: what this part by itself may cost.
            stack: closes what is opened.

        Raises:
            BudgetExceededError: the plan costs more than the part may.
            PrivacyError: the ledger is missing or was made for something else.
        """
        cost = epsilon_of_events(planned_events(plan, promise.adjacency), promise.delta)
        promise.budget.require_affordable(f"the plan of {self.name}", spent=0.0, after=cost)
        if not self.ledger.is_file():
            raise PrivacyError(
                f"{self.ledger}: the ledger that pays for everything here is not there; restore it, or start anew"
            )
        account = None if self.population is None else stack.enter_context(Population.open(self.population))
        ledger = stack.enter_context(Ledger.open(self.ledger, population=account))
        if ledger.budget != self.budget or ledger.plan is not None:
            raise PrivacyError(
                f"{self.ledger}: this ledger was made for another budget; restore the one of {self.name}"
            )
        with suppress(
            OSError
        ):  # there already, or no such thing on this disk: whoever verifies names the ledger
            run.ledger.symlink_to(os.path.relpath(self.ledger, run.path))
        return ledger


def open_ledger(run: RunDirectory, config: SimulationConfig, plan: Plan, stack: ExitStack) -> Ledger:
    """Start the run's ledger or go on with it, see ``fedboard.server.training``; the stack closes it."""
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
