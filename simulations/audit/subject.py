"""What is audited: the real parts of a run, by whatever algorithm; a control swaps one of them for a broken one.

What an audit finds: one line a check.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from fedboard.common.board import Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import says
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums, Task
from fedboard.server.round import RoundResult, run_round
from fedboard.simulations.audit.sessions import Sessions
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import backend_of, build_task


class Part(StrEnum):
    """The parts of an audit that can find a violation."""

    FILE = "file"
    """What one user of the file changes before the first release, and what its releases show of them."""
    COURSE = "course"
    """Whether what happens, and when, depends on who is there."""
    NOISE = "noise"
    """The noise that is drawn against the noise that is booked."""
    SENSITIVITY = "sensitivity"
    """What one client can change against the bound that is booked."""
    CANARIES = "canaries"
    """What an adversary learns about planted users against the epsilon that is claimed."""
    BOARD = "board"
    """What an adversary learns from the final board alone."""

    def finding(self, check: str, passed: bool, detail: str) -> "AuditFinding":
        """One of its checks, and how it ended."""
        return AuditFinding(part=self, check=check, passed=passed, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One check and how it ended."""

    part: Part
    check: str
    passed: bool
    detail: str


def broken_check(error: FedboardError) -> AuditFinding:
    """A check of the run itself that failed in the course of an audit."""
    check = "the run keeps the bounds that it checks itself"
    return Part.SENSITIVITY.finding(check, False, f"{error}; the audit ended there")


ENOUGH = 300
"""Numbers with which a release can be judged."""
LARGEST_BLOCK = 1 << 18
"""Ratings that a run goes through at a time, at most; of users no more than one for 32 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to audit."""

    seed: int = 0
    canaries: int | None = None
    """None: enough to see noise that is 20 % too small."""
    repeat: int = 1
    """Canary games, with a seed each."""
    small_numbers: int = ENOUGH
    """Numbers of each small release to look at, over as many runs as it takes."""
    file_games: int = 100
    """Games of one user more or less in a file."""
    block: int = LARGEST_BLOCK
    """Ratings that the largest file has at least; 0 for no such file."""


NoiseFactory: TypeAlias = Callable[[int], NoiseSource]
"""The noise source of the run with this seed."""
FEWER_ITEMS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The parts of a run that decide about its privacy."""

    task: Task
    protocol: Trusted
    """Checks and sums rows, whoever carries them."""
    budget: Budget
    catalogue: Catalogue
    noise: NoiseFactory
    opened: Callable[[Engine, ExactSums, Sequence[Request], Mapping[str, BookedRelease]], ReleasedSums] = (
        Engine.open
    )
    """What the task gets to read of exact sums, given what was booked."""
    round_loop: Callable[..., RoundResult] = run_round
    sessions: Sessions | None = None
    """What carries rows, where that is another protocol."""
    smaller: Task | None = None
    """The same task for the first ``FEWER_ITEMS`` of the catalogue; None where the task is the same for any."""

    def engine(self, users: Cohort, pool: WorkerPool) -> Engine:
        """Host users, whose rows are private; to be closed."""
        return Engine(self.task, users, protocol=self.protocol, pool=pool)

    def with_fewer_items(self) -> "Subject":
        """The same run on the beginning of the catalogue: quick, for what does not depend on its size."""
        n_items = min(FEWER_ITEMS, self.catalogue.n_items)
        titles, features = self.catalogue.titles, self.catalogue.features
        fewer = Catalogue(
            item_ids=self.catalogue.item_ids[:n_items],
            titles=None if titles is None else titles[:n_items],
            features=None if features is None else features.first(n_items),
        )
        return replace(self, catalogue=fewer, task=self.smaller or self.task, smaller=None)


def subject_of(config: SimulationConfig, problem: Problem, *, noise: str = "seeded") -> Subject:
    """The parts that ``fedboard simulate`` would run with this configuration.

    Args:
        config: what to run.
        problem: its data; only what is public of them is used here.
        noise: ``seeded`` or ``secure``.

    Raises:
        InputError: an unknown noise source or protocol, sampled participation, or a configuration that builds no
            task.
    """
    if config.privacy.participation.kind == "poisson":
        raise InputError(
            "an audit plays rounds in which everybody takes part; amplification by Poisson sampling is accounted "
            "by dp-accounting and not audited: leave --participation out"
        )
    sources: dict[str, NoiseFactory] = {"seeded": SeededNoise, "secure": lambda seed: SecureNoise()}
    if noise not in sources:
        raise InputError(f"noise must be one of {', '.join(sources)}, got {noise!r}")
    backend, sessions = backend_of(config, problem), None
    drawn = sources[noise]
    if not says(config.run.protocol, shows_rows):
        sessions = Sessions(choice=config.run.protocol, backend=backend)
        protocol = sessions.protocol(1)
        sources[noise] = lambda seed: protocol.noise(drawn(seed))
    features = problem.feature_values
    build = partial(build_task, config, rating_range=problem.rating_range, backend=backend)
    return Subject(
        task=build(features=features).task,
        protocol=Trusted(backend=backend),
        budget=config.promise.budget,
        catalogue=problem.catalogue,
        noise=sources[noise],
        sessions=sessions,
        smaller=None if features is None else build(features=features[:FEWER_ITEMS]).task,
    )
