"""What is audited: the real parts of a run, by whatever algorithm; a control swaps one of them for a broken one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fedboard.common.board import Catalogue
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.task import Task
from fedboard.simulations.audit.sessions import Sessions
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.kernel_choice import backend_of

NoiseFactory: TypeAlias = Callable[[int], NoiseSource]
"""The noise source of the run with this seed."""
Publisher: TypeAlias = Callable[[BookedRelease], BookedRelease]
"""What becomes of a release between its booking and its publication."""


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
    sessions: Sessions | None = None
    """What carries them, where that is another protocol."""


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
    if config.run.protocol != "trusted":
        sessions = Sessions(choice=config.run.protocol, backend=backend)
        protocol = sessions.protocol(1)
        sources[noise] = lambda seed: protocol.noise(drawn(seed))
    calibrated = build_task(
        config, rating_range=problem.rating_range, backend=backend, features=problem.feature_values
    )
    return Subject(
        task=calibrated.task,
        protocol=Trusted(form=config.run.wire, backend=backend),
        budget=Budget(
            epsilon=config.privacy.epsilon, delta=config.privacy.delta, adjacency=config.privacy.adjacency
        ),
        catalogue=problem.catalogue,
        noise=sources[noise],
        sessions=sessions,
    )


__all__ = ["NoiseFactory", "Publisher", "Subject", "as_booked", "subject_of"]
