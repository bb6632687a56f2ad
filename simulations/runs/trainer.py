"""Who runs the rounds of a simulation: the engine here, or Flower (``fedboard.simulations.flower``)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from fedboard.common.algorithms.rebuilding import AnyTask
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.publication import BoardStore
from fedboard.server.runtime import Runtime
from fedboard.server.training import FinishedRound, Training, plan_of
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.examples import ExampleProblem
from fedboard.simulations.engine import Engine, StreamLayout, WorkerPool
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.ledger import Part, open_ledger
from fedboard.simulations.runs.participants import assumptions_of, scales_by_key
from fedboard.simulations.runs.public_parts import require_own_parts
from fedboard.simulations.sessions.runtime import assumptions_of_protocol, protocol_runtime, recipe_of
from fedboard.simulations.streams.partial_sums import PartialSums
from fedboard.simulations.streams.problem import StreamedProblem

OnRound = Callable[[FinishedRound], None]


class Listener(Protocol):
    """Who wants to know how a simulation is getting on."""

    def planned(self, problem: Problem | StreamedProblem | ExampleProblem, rounds: Sequence[str]) -> None:
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
    problem: Problem | StreamedProblem | ExampleProblem
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
    def held(self) -> Problem | ExampleProblem:
        """The problem, where clients run who hold their rows.

        Raises:
            InputError: nobody holds the ratings of a stream.
        """
        if isinstance(self.problem, StreamedProblem):
            where = f"run.runtime {self.config.run.runtime!r} with run.protocol {self.config.run.protocol!r}"
            raise InputError(
                f"{self.problem.name} is read in blocks, and {where} needs ratings that are held: take "
                "--no-streamed where they fit into memory"
            )
        return self.problem

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
    """The engine: rounds in this process, whose clients are computed by processes of this machine or of a Ray
    cluster. Over a stream it goes on within a round that was interrupted.
    """

    def __init__(self, simulated: Simulated, *, pool: WorkerPool, stack: ExitStack) -> None:
        """Open the ledger, and lay ratings that are in memory where the workers see them; the stack closes both.

        Raises:
            BudgetExceededError: the plan does not fit the budget.
            PrivacyError: the ledger does not belong to this run.
            InputError: the pool is no cluster's, and the run names one.
        """
        config, task, problem = simulated.config, simulated.task, simulated.problem
        streamed = isinstance(problem, StreamedProblem)
        users = problem.stream if isinstance(problem, StreamedProblem) else problem.train
        recipe = recipe_of(config.run, backend=simulated.backend, n_users=users.n_users)
        protocol = recipe.make()
        trusted = protocol if isinstance(protocol, Trusted) else Trusted(backend=simulated.backend)
        made, assumptions = _engine_of(config, pool)
        ledger = _ledger_of(simulated, stack)
        kept = simulated.run.partial_sums if streamed and config.privacy.noise == "seeded" else None
        engine = stack.enter_context(
            made(
                task,
                users,
                problem.splitting if isinstance(problem, StreamedProblem) else None,
                protocol=trusted,
                pool=pool,
                layout=StreamLayout(
                    block_ratings=config.run.block_ratings, checkpoint_users=config.run.checkpoint_users
                ),
                on_progress=simulated.listener.progress,
                scales_of=scales_by_key(config.privacy, task, seed=config.seed),
                partial_sums=None if kept is None else PartialSums(kept),
            )
        )
        runtime: Runtime = engine
        if trusted is not protocol:
            runtime = protocol_runtime(
                engine,
                recipe,
                config,
                noise=config.promise.noise_source,
                n_users=users.n_users,
                pool=pool,
                on_progress=simulated.listener.progress,
            )
        self._first = task.first_board(problem.catalogue)
        self._training = _training_of(simulated, ledger, runtime, protocol, assumptions=assumptions)

    def start(self) -> Board:
        """The last published board."""
        return self._training.start(self._first)

    def run(self, board: Board, on_round: OnRound) -> None:
        """Run what follows."""
        for finished in self._training.rounds(board):
            on_round(finished)


def _engine_of(config: SimulationConfig, pool: WorkerPool) -> tuple[type[Engine], Sequence[str]]:
    """Which engine goes with these workers, and what a guarantee then takes for granted."""
    if config.run.runtime != "ray":
        return Engine, ()
    from fedboard.simulations.ray.pool import RayPool
    from fedboard.simulations.ray.runtime import OnRay
    from fedboard.simulations.ray.secrecy import CLUSTER_IS_TRUSTED

    if not isinstance(pool, RayPool):
        raise InputError("several runs that share workers need run.runtime 'engine', got 'ray'")
    return OnRay, () if pool.cluster.is_local else (CLUSTER_IS_TRUSTED,)


def _ledger_of(simulated: Simulated, stack: ExitStack) -> Ledger:
    config, part = simulated.config, simulated.part
    plan = plan_of(simulated.task, config.privacy.participation.chosen)
    if part is None:
        return open_ledger(simulated.run, config, plan, stack)
    return part.open(simulated.run, plan, config.promise, stack)


def _training_of(
    simulated: Simulated,
    ledger: Ledger,
    runtime: Runtime,
    protocol: AggregationProtocol,
    *,
    assumptions: Sequence[str] = (),
) -> Training:
    config, part = simulated.config, simulated.part
    return Training(
        task=simulated.task,
        store=BoardStore(simulated.run.boards),
        ledger=ledger,
        runtime=runtime,
        noise=protocol.noise(config.promise.noise_source),
        trust=protocol.trust,
        dataset=simulated.problem.statement,
        assumptions=[*simulated.assumptions, *assumptions],
        participation=config.privacy.participation.chosen,
        part="" if part is None else part.prefix,
    )
