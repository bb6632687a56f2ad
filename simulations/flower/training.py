"""The rounds of a fleet in a simulation: a job, with cohorts of users as nodes, in this process or over Flower."""

import importlib.util
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from fedboard.client.participation.steps import MemoryVault, respond_to
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.mailbox import Message, Reply
from fedboard.server.fleet.running import run_job
from fedboard.server.publication import BoardStore, require_same_history
from fedboard.server.training import open_run_ledger, plan_of
from fedboard.simulations.engine.starting import environment_with
from fedboard.simulations.flower.cohorts import CohortNodes, FleetFiles
from fedboard.simulations.runs.trainer import OnRound, Simulated

Answer = Callable[[str, bytes, bytes | None], bytes]
"""(kind, message, board beside it) -> what the node sends."""


def _answering(cohorts: CohortNodes, number: int) -> Answer:
    vault: Final = MemoryVault()
    return lambda kind, frame, board: respond_to(kind, frame, board, cohorts.client(number, vault))


class LocalNodes:
    """Nodes of this process. One answers when its reply is looked for, so that one reply is in memory at a time."""

    def __init__(self, answers: list[Answer], max_users: int) -> None:
        """Make them.

        Args:
            answers: of each node.
            max_users: that each may host.
        """
        self._answers = {f"{number:020d}": answer for number, answer in enumerate(answers)}
        self._max_users = max_users
        self._asked = deque[Callable[[], Reply]]()

    def present(self) -> Mapping[str, int]:
        """All of them."""
        return dict.fromkeys(self._answers, self._max_users)

    admitted = present

    def ask(self, messages: Mapping[str, Message], *, largest: int, seconds: float) -> None:
        """Keep what each is asked."""

        def reply(node: str) -> Reply:
            asked = messages[node]
            content = self._answers[node](asked.kind, asked.frame, asked.beside or None)
            return Reply(node, content) if len(content) <= largest else Reply(node, None, Refusal.TOO_LARGE)

        self._asked.extend(partial(reply, node) for node in messages)

    def replies(self, *, wait: float) -> list[Reply]:
        """Let the next one answer."""
        return [self._asked.popleft()()] if self._asked else []

    def end(self) -> None:
        """Nobody answers any more."""
        self._asked.clear()


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
        ledger = open_run_ledger(
            simulated.run.ledger, promise=config.promise, plan=plan, store=store, stack=brief
        )
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
            files = self._files
            cohorts = CohortNodes.of(files.run_config)
            nodes = LocalNodes(
                [_answering(cohorts, number) for number in range(files.n_nodes)], files.job.largest_cohort
            )
            run_job(nodes, files.job, on_round=on_round)
        else:
            with environment_with({"FLWR_TELEMETRY_ENABLED": "0"}):  # looked at once, as Flower is imported
                from fedboard.simulations.flower.apps import run_on_flower
            run_on_flower(self._files, on_round)
