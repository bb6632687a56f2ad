"""Who runs the rounds of a simulation: the engine here, or Flower (``fedboard.simulations.flower``)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from fedboard.common.board import Board
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.tasks.rebuilding import AnyTask
from fedboard.server.publication import BoardStore
from fedboard.server.run_ledger import plan_of
from fedboard.server.training import FinishedRound, Training
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.datasets.examples import ExampleProblem
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.ledger import Part, open_ledger
from fedboard.simulations.runs.participants import assumptions_of, personal_scales
from fedboard.simulations.runs.public_parts import require_own_parts
from fedboard.simulations.sessions.setup import assumptions_of_protocol, protocol_runtime, recipe_of

OnRound = Callable[[FinishedRound], None]


class Listener(Protocol):
    """Who wants to know how a simulation is getting on."""

    def planned(self, problem: Problem | ExampleProblem, rounds: Sequence[str]) -> None:
        """Data is loaded, the run is affordable; ``rounds`` are their names, see ``round_names``."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """``done`` of ``total`` parts of this phase are done."""

    def round_finished(self, line: Mapping[str, Any]) -> None:
        """A board is published; ``line`` is the record in metrics.jsonl."""


class Trainer(Protocol):
    """Runs the rounds of one simulation, from wherever it was interrupted."""

    def start(self) -> Board:
        """The last board; board 0 where nothing was released yet.

        Raises:
            FedboardError: the run cannot go on from what is there.
        """
        ...

    def run(self, board: Board, on_round: OnRound) -> None:
        """Run what follows ``board``, and tell of each round."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What is trained, on what, and where it is kept: all that a trainer needs."""

    config: SimulationConfig
    run: RunDirectory
    problem: Problem | ExampleProblem
    task: AnyTask
    backend: str
    listener: Listener
    part: Part | None = None
    """What pays where this is one of several runs under one promise; None: the run has a ledger of its own."""

    def __post_init__(self) -> None:
        """See that split and catalogue do not depend on who is in the data, where noise is secret.

        Raises:
            PrivacyError: they may.
        """
        if self.config.privacy.noise == "secure":
            require_own_parts(self.problem)

    @property
    def assumptions(self) -> list[str]:
        """What the guarantee takes for granted beyond every run's."""
        tuned = self.config.tuned
        found = [] if tuned is None else [tuned.assumption]
        found += [] if self.part is None else self.part.assumptions
        privacy = self.config.privacy
        found.extend(assumptions_of(privacy, privacy.participation.chosen))
        return [*found, *assumptions_of_protocol(self.config.run)]


class EngineTrainer:
    """The multi-process engine."""

    def __init__(self, simulated: Simulated, *, pool: WorkerPool, stack: ExitStack) -> None:
        """Open the ledger and copy the ratings into shared memory; the stack closes both.

        Raises:
            BudgetExceededError: the plan does not fit the budget.
            PrivacyError: the ledger does not belong to this run.
        """
        config, task, problem = simulated.config, simulated.task, simulated.problem
        participation = config.privacy.participation.chosen
        recipe = recipe_of(config.run, backend=simulated.backend, n_users=problem.train.n_users)
        protocol = recipe.make()
        rows = protocol if isinstance(protocol, Trusted) else Trusted(backend=simulated.backend)
        part, plan = simulated.part, plan_of(task, participation)
        if part is None:
            ledger = open_ledger(simulated.run, config, plan, stack)
        else:
            ledger = part.open(simulated.run, plan, config.promise, stack)
        scales = personal_scales(config.privacy, task, user_keys=problem.train.keys, seed=config.seed)
        engine = stack.enter_context(
            Engine(
                task,
                problem.train,
                protocol=rows,
                pool=pool,
                on_progress=simulated.listener.progress,
                scales=scales,
            )
        )
        noise = config.promise.noise_source
        self._first = task.first_board(problem.catalogue)
        self._training = Training(
            task=task,
            store=BoardStore(simulated.run.boards),
            ledger=ledger,
            runtime=engine
            if rows is protocol
            else protocol_runtime(
                engine,
                recipe,
                config,
                noise=noise,
                n_users=problem.train.n_users,
                pool=pool,
                on_progress=simulated.listener.progress,
            ),
            noise=protocol.noise(noise),
            trust=protocol.trust,
            dataset=problem.statement,
            assumptions=simulated.assumptions,
            participation=participation,
            part="" if part is None else part.prefix,
        )

    def start(self) -> Board:
        """The last published board."""
        return self._training.start(self._first)

    def run(self, board: Board, on_round: OnRound) -> None:
        """Run what follows."""
        for finished in self._training.rounds(board):
            on_round(finished)
