"""The rounds of a fleet in a simulation, over Flower or in this process: a job, with cohorts of users as nodes."""

import importlib.util
import tempfile
from contextlib import ExitStack
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.server.publication import BoardStore, require_same_history
from fedboard.server.training import plan_of
from fedboard.simulations.flower.files import FleetFiles
from fedboard.simulations.runs.directory import open_ledger
from fedboard.simulations.runs.trainer import OnRound, Simulated


def _require_flower(runtime: str) -> None:
    """Before anything is written: what starts the runtime is imported much later."""
    for module in () if runtime == "in-process" else ("flwr", "ray"):
        if importlib.util.find_spec(module) is None:
            raise InputError(
                f"runtime {runtime!r} needs {module}, which is not installed: run pip install '.[sim]' "
                "in fedboard's checkout, or take --runtime engine"
            )


def _require_affordable(simulated: Simulated) -> None:
    """Start the ledger, or hold what is there against it; the job opens it again."""
    config, store = simulated.config, BoardStore(simulated.run.boards)
    plan = plan_of(simulated.task, config.privacy.participation.chosen)
    with ExitStack() as brief:
        ledger = open_ledger(simulated.run, config, plan, brief)
        if store.versions():
            require_same_history(store.latest(), ledger)


class FleetTrainer:
    """Rounds of a fleet, in this process or in Flower's simulation."""

    def __init__(self, simulated: Simulated, runtime: str, stack: ExitStack) -> None:
        """Write what the apps read, to a folder that the stack removes, and see that the run can be made.

        Raises:
            BudgetExceededError: the plan does not fit the budget.
            InputError: Flower is not installed, or cannot run this.
            PrivacyError: the ledger does not belong to this run.
        """
        _require_flower(runtime)
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fedboard-fleet-"))
        self._simulated, self._runtime = simulated, runtime
        self._files = FleetFiles(simulated, Path(scratch))
        _require_affordable(simulated)

    def start(self) -> Board:
        """The last published board; the job holds it against its ledger."""
        store = BoardStore(self._simulated.run.boards)
        if store.versions():
            return store.latest()
        return Board.load(Path(self._files.job.first_board))

    def run(self, board: Board, on_round: OnRound) -> None:
        """Run what follows."""
        if not self._simulated.task.requests(board):
            return
        if self._runtime == "in-process":
            from fedboard.simulations.flower.in_process import run_in_process

            run_in_process(self._files, on_round)
        else:
            from fedboard.simulations.flower.on_ray import run_on_ray

            run_on_ray(self._files, on_round)
