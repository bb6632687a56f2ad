"""Who runs the rounds of a simulation: the engine here, or Flower; and who takes part in them, which is public."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution_bounding.mixing import mix64
from fedboard.common.contribution_bounding.participation import Participation
from fedboard.common.contribution_bounding.personal import plan_scale
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ClientTask
from fedboard.server.publication import BoardStore
from fedboard.server.runtime import Runtime
from fedboard.server.training import FinishedRound, Training, open_run_ledger, plan_of
from fedboard.simulations.config import PrivacyConfig, SimulationConfig
from fedboard.simulations.data.examples import ExampleProblem, fell_as_stated
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.splits import RatingSplit
from fedboard.simulations.data.splits.times import ByDate, ByLast, is_training_part
from fedboard.simulations.engine import Engine, StreamLayout, WorkerPool
from fedboard.simulations.engine.partial_sums import PartialSums
from fedboard.simulations.problem import Problem, StreamedProblem
from fedboard.simulations.runs.directory import Part, RunDirectory
from fedboard.simulations.sessions.clients import Clients
from fedboard.simulations.sessions.runtime import ProtocolEngine, assumptions_of_protocol, recipe_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalesByKey:
    """Personal levels of any users, by their keys; picklable. Public."""

    levels: tuple[float, ...]
    """Scale of each level, and at last of those that have none of their own."""
    shares: tuple[float, ...]
    """Of all users, added up."""
    seed: int

    def __call__(self, user_keys: BitArray) -> FloatArray:
        """Each user's scale, float64, shape (n_users,), see ``fedboard.common.contribution_bounding.personal``.

        Args:
            user_keys: uint64, shape (n_users,), see ``Cohort.keys``. Private.
        """
        secret = hashlib.sha256(f"fedboard personal levels\0{self.seed}".encode()).digest()
        coin = mix64(mix64(user_keys ^ np.uint64(int.from_bytes(secret[:8], "little"))))
        place = coin.astype(np.float64) / 2.0**64
        return np.array(self.levels)[np.searchsorted(self.shares, place, side="right")]


def scales_by_key(privacy: PrivacyConfig, task: ClientTask, *, seed: int) -> ScalesByKey | None:
    """Each user's scale by their key, where some of them ask for a smaller epsilon than the run's.

    Args:
        privacy: levels, their shares, delta. Public.
        task: calibrated; each level holds for its whole plan.
        seed: with the key it decides which level a user has, whoever else is there. Public.

    Returns:
        None where everybody has the run's epsilon.

    Raises:
        PrivacyError: a level is so small that nothing could be given.
    """
    if not privacy.personal:
        return None
    releases = [request.release for requests in task.plan() for request in requests]
    of_level = [plan_scale(releases, level.epsilon, privacy.delta) for level in privacy.personal]
    shares = np.cumsum([level.share for level in privacy.personal])
    return ScalesByKey(levels=(*of_level, 1.0), shares=tuple(shares.tolist()), seed=seed)


def assumptions_of(privacy: PrivacyConfig, participation: Participation) -> Sequence[str]:
    """What the guarantee takes for granted beyond every run's assumptions, and whom it holds for more strongly."""
    found = [] if participation.assumption is None else [participation.assumption]
    if privacy.personal:
        levels = ", ".join(f"{level.share:.4g} at epsilon {level.epsilon:g}" for level in privacy.personal)
        found.append(
            f"Some users asked for more privacy than the claim ({levels}, as shares of all users, at delta "
            f"{privacy.delta:g}): they give so much less that each has her own epsilon. Shares and levels were set "
            "without looking at ratings; which user has which level is not protected."
        )
    return found


def parse_participation(text: str) -> dict[str, object]:
    """``full``, ``poisson:0.1``, ``fixed-size:500`` or ``shuffled-cohorts:4`` as a section of the configuration.

    Raises:
        InputError: not one of these.
    """
    kinds = {
        "poisson": ("probability", float),
        "fixed-size": ("size", int),
        "shuffled-cohorts": ("cohorts", int),
    }
    kind, _, number = text.partition(":")
    section: dict[str, object] = {"kind": kind, "probability": None, "size": None, "cohorts": None}
    if text == "full":
        return section
    try:
        name, read = kinds[kind]
        return {**section, name: read(number)}
    except (KeyError, ValueError):
        raise InputError(
            "participation must be full, poisson:PROBABILITY, fixed-size:USERS or shuffled-cohorts:NUMBER, "
            f"got {text!r}"
        ) from None


_ADVICE = "split with fedboard.simulations.data.splits, or take privacy.noise 'seeded', which claims nothing"


def require_own_parts(problem: Problem | StreamedProblem | ExampleProblem) -> None:
    """Refuse a problem in which one user's presence may move what others give.

    The split has to say by which coins it was made, and every training rating has to be where its coin says; or by
    which times, and the training part has to be what follows from them. The list of items has to stand apart from
    the ratings.

    Guarantee: passes only where every user of ``problem.train`` keeps her training ratings whoever else is in the
    data set, as far as the training part shows it.
    Not guaranteed: that nothing was left out of the training part in another way before the split.

    Raises:
        PrivacyError: what is wrong, in public terms.
    """
    if isinstance(problem, ExampleProblem):
        if not fell_as_stated(problem):
            raise PrivacyError(f"the training part is not what the coins of its split say: {_ADVICE}")
        return
    if not problem.catalogue_listed:
        raise PrivacyError(
            "secure noise needs a list of items that stands apart from the ratings, and this one was read off "
            "them: name a file of items (data.titles) with data.catalogue 'listed'"
        )
    if isinstance(problem, StreamedProblem):  # each block is split by its users' own coins when it is read
        return
    rule, train = problem.split.rule, problem.train
    if rule is None or train.user_keys is None:
        raise PrivacyError(f"secure noise needs a split in which each user has coins of her own: {_ADVICE}")
    if isinstance(rule, ByDate | ByLast):
        rows = problem.split.rows
        kept = np.array(rows is not None and is_training_part(train, rule, rows))
    elif isinstance(problem.split, RatingSplit):
        items = id_keys(problem.catalogue.item_ids, Kind.ITEM)
        words = rule.coins.of_ratings(train.user_keys, items, train.user_of_entry(), train.items)
        kept = rule.parts(words)[0]
    else:
        kept = rule.parts(rule.coins.of_users(train.user_keys))[0] | (train.counts == 0)
    if not np.all(kept):
        decides = "times" if isinstance(rule, ByDate | ByLast) else "coins"
        raise PrivacyError(f"the training part is not what the {decides} of its split say: {_ADVICE}")


OnRound = Callable[[FinishedRound], None]


class Listener:
    """Who wants to know how a simulation is getting on; this one ignores it."""

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
    task: ClientTask
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
                "run.streamed = false where they fit into memory"
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
        config, task, problem, run = simulated.config, simulated.task, simulated.problem, simulated.run
        streamed = isinstance(problem, StreamedProblem)
        users = problem.stream if isinstance(problem, StreamedProblem) else problem.train
        recipe = recipe_of(config.run, backend=simulated.backend, n_users=users.n_users)
        protocol = recipe.make()
        trusted = protocol if isinstance(protocol, Trusted) else Trusted(backend=simulated.backend)
        made, assumptions = _engine_of(config, pool)
        plan, part = plan_of(task, config.privacy.participation.chosen), simulated.part
        if part is None:
            ledger = open_run_ledger(
                run.ledger, promise=config.promise, plan=plan, store=BoardStore(run.boards), stack=stack
            )
        else:
            ledger = part.open(run, plan, config.promise, stack)
        kept = run.partial_sums if streamed and config.privacy.noise == "seeded" else None
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
            runtime = ProtocolEngine(
                rows=engine,
                recipe=recipe,
                clients=Clients.of(users.n_users, config.run.clients),
                noise=config.promise.noise_source,
                pool=pool,
                dropout=config.run.dropout,
                seed=config.seed,
                on_progress=simulated.listener.progress,
            )
        self._first = task.first_board(problem.catalogue)
        self._training = Training(
            task=task,
            store=BoardStore(run.boards),
            ledger=ledger,
            runtime=runtime,
            noise=protocol.noise(config.promise.noise_source),
            trust=protocol.trust,
            dataset=problem.statement,
            assumptions=[*simulated.assumptions, *assumptions],
            participation=config.privacy.participation.chosen,
            part="" if part is None else part.prefix,
        )

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
    from fedboard.simulations.ray.cluster import CLUSTER_IS_TRUSTED
    from fedboard.simulations.ray.runtime import OnRay, RayPool

    if not isinstance(pool, RayPool):
        raise InputError("several runs that share workers need run.runtime 'engine', got 'ray'")
    return OnRay, () if pool.cluster.is_local else (CLUSTER_IS_TRUSTED,)
