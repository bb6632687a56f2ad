"""Who runs the rounds of a simulation: the engine here, or Flower (``fedboard.simulations.flower``)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.tasks.rebuilding import AnyTask
from fedboard.server.publication import BoardStore
from fedboard.server.runtime import Runtime
from fedboard.server.training import FinishedRound, Training, plan_of
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.datasets.examples import ExampleProblem
from fedboard.simulations.engine import Engine, StreamedEngine, StreamLayout, WorkerPool
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.ledger import Part, open_ledger
from fedboard.simulations.runs.participants import assumptions_of, personal_scales, scales_by_key
from fedboard.simulations.runs.public_parts import require_own_parts
from fedboard.simulations.sessions.setup import assumptions_of_protocol, protocol_runtime, recipe_of
from fedboard.simulations.streams.partial_sums import PartialSums
from fedboard.simulations.streams.problem import StreamedProblem
from fedboard.simulations.streams.spans import SpanWork
from fedboard.simulations.streams.splitting import Splitting
from fedboard.simulations.streams.stream import UserStream

if TYPE_CHECKING:
    from fedboard.simulations.engine.on_ray.cluster import Cluster
    from fedboard.simulations.engine.on_ray.runtime import SpanOfUsers

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


class _RoundTrainer:
    """Rounds in this process, over whatever runtime asks the clients."""

    _first: Board
    _training: Training

    def start(self) -> Board:
        """The last published board."""
        return self._training.start(self._first)

    def run(self, board: Board, on_round: OnRound) -> None:
        """Run what follows."""
        for finished in self._training.rounds(board):
            on_round(finished)


class EngineTrainer(_RoundTrainer):
    """The multi-process engine."""

    def __init__(self, simulated: Simulated, *, pool: WorkerPool, stack: ExitStack) -> None:
        """Open the ledger and copy the ratings into shared memory; the stack closes both.

        Raises:
            BudgetExceededError: the plan does not fit the budget.
            PrivacyError: the ledger does not belong to this run.
        """
        config, task, problem = simulated.config, simulated.task, simulated.held
        recipe = recipe_of(config.run, backend=simulated.backend, n_users=problem.train.n_users)
        protocol = recipe.make()
        rows = protocol if isinstance(protocol, Trusted) else Trusted(backend=simulated.backend)
        ledger = _ledger_of(simulated, stack)
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
        runtime = (
            engine
            if rows is protocol
            else protocol_runtime(
                engine,
                recipe,
                config,
                noise=config.promise.noise_source,
                n_users=problem.train.n_users,
                pool=pool,
                on_progress=simulated.listener.progress,
            )
        )
        self._first = task.first_board(problem.catalogue)
        self._training = _training_of(simulated, ledger, runtime, protocol)


class StreamedTrainer(_RoundTrainer):
    """The multi-process engine over a stream, which goes on within a round that was interrupted."""

    def __init__(self, simulated: Simulated, *, pool: WorkerPool, stack: ExitStack) -> None:
        """Open the ledger; the stack closes it. Nothing is read yet.

        Raises:
            BudgetExceededError: the plan does not fit the budget.
            PrivacyError: the ledger does not belong to this run.
            InputError: a round's sums do not fit into memory.
        """
        config, task, problem = simulated.config, simulated.task, simulated.problem
        assert isinstance(problem, StreamedProblem)
        kept = simulated.run.partial_sums if config.privacy.noise == "seeded" else None
        engine = stack.enter_context(
            StreamedEngine(
                task,
                problem.stream,
                problem.splitting,
                pool=pool,
                backend=simulated.backend,
                layout=StreamLayout(
                    block_ratings=config.run.block_ratings, checkpoint_users=config.run.checkpoint_users
                ),
                on_progress=simulated.listener.progress,
                scales_of=scales_by_key(config.privacy, task, seed=config.seed),
                partial_sums=None if kept is None else PartialSums(kept),
            )
        )
        ledger, protocol = _ledger_of(simulated, stack), Trusted(backend=simulated.backend)
        self._first = task.first_board(problem.catalogue)
        self._training = _training_of(simulated, ledger, engine, protocol)


class RayTrainer(_RoundTrainer):
    """The workers of a Ray cluster, under the trusted protocol."""

    def __init__(self, simulated: Simulated, *, cluster: "Cluster", stack: ExitStack) -> None:
        """Open the ledger, which the stack closes; ratings in memory are laid into the cluster's object store.

        Raises:
            BudgetExceededError: the plan does not fit the budget.
            PrivacyError: the ledger does not belong to this run.
        """
        from fedboard.simulations.engine.on_ray.runtime import OnRay
        from fedboard.simulations.engine.on_ray.secrecy import CLUSTER_IS_TRUSTED

        config, task, problem = simulated.config, simulated.task, simulated.problem
        protocol = Trusted(backend=simulated.backend)
        ledger = _ledger_of(simulated, stack)
        stream, splitting, spans = _people_on(cluster, problem)
        work = SpanWork(
            task=task,
            stream=stream,
            splitting=splitting,
            requests=(),
            backend=simulated.backend,
            block_ratings=config.run.block_ratings,
            scales_of=scales_by_key(config.privacy, task, seed=config.seed),
        )
        runtime = OnRay(cluster, work, spans=spans, on_progress=simulated.listener.progress)
        self._first = task.first_board(problem.catalogue)
        trusted = () if cluster.is_local else (CLUSTER_IS_TRUSTED,)
        self._training = _training_of(simulated, ledger, runtime, protocol, assumptions=trusted)


def _people_on(
    cluster: "Cluster", problem: Problem | ExampleProblem | StreamedProblem
) -> "tuple[UserStream, Splitting, Sequence[SpanOfUsers] | None]":
    """Who is asked, what of theirs is learnt from, and the spans where they are fixed: of ratings in memory."""
    from fedboard.simulations.engine.on_ray.pool import Everything, held_by
    from fedboard.simulations.engine.on_ray.runtime import held_spans

    if isinstance(problem, StreamedProblem):
        return problem.stream, problem.splitting, None
    return held_by(problem.train), cast(Splitting, Everything()), held_spans(cluster, problem.train)


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
