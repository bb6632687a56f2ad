"""What is audited: the real parts of a run, by whatever algorithm; a control swaps one of them for a broken one.

What an audit finds: one line a check.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Protocol, TypeAlias

from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution import Request
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import says
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums, RoundTask, Task
from fedboard.server.round import RoundResult, run_round
from fedboard.server.runtime import Runtime
from fedboard.simulations.audit.entrance import Reader
from fedboard.simulations.audit.sessions import Sessions
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.calibrated import backend_of, build_task


class Part(StrEnum):
    """The parts of an audit that can find a violation."""

    FILE = "file"
    """What one user of the file changes before the first release, and what its releases show of her."""
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


NoiseFactory: TypeAlias = Callable[[int], NoiseSource]
"""The noise source of the run with this seed."""
FEWER_ITEMS = 40
Publisher: TypeAlias = Callable[[BookedRelease], BookedRelease]
"""What becomes of a release between its booking and its publication."""


Opened: TypeAlias = Callable[[ReleasedSums, ExactSums, Sequence[Request]], ReleasedSums]
"""(noised, exact, requests) -> what the task gets to read."""


class RoundLoop(Protocol):
    """Runs one round, as ``fedboard.server.round.run_round``."""

    def __call__(
        self, task: RoundTask, board: Board, *, runtime: Runtime, ledger: Ledger, noise: NoiseSource
    ) -> RoundResult:
        """The next board, and what the round was."""
        ...


def as_noised(noised: ReleasedSums, sums: ExactSums, requests: Sequence[Request]) -> ReleasedSums:
    """Tasks read what was noised, and nothing else: what a correct run does."""
    return noised


def as_booked(booked: BookedRelease) -> BookedRelease:
    """A release is published as it was booked: what a correct run does."""
    return booked


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The parts of a run that decide about its privacy."""

    task: Task
    protocol: Trusted
    """Checks and sums rows, whoever carries them."""
    budget: Budget
    catalogue: Catalogue
    noise: NoiseFactory
    publisher: Publisher = as_booked
    opened: Opened = as_noised
    round_loop: RoundLoop = run_round
    read: Reader = load_problem
    """Makes the training rows of a file."""
    sessions: Sessions | None = None
    """What carries them, where that is another protocol."""
    smaller: Task | None = None
    """The same task for the first ``FEWER_ITEMS`` of the catalogue; None where the task is the same for any."""

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
