"""A small run to audit: made-up people, few rounds."""

import copy
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedboard.simulations.audit.entrance import Entrance, Reader
from fedboard.simulations.audit.noise_check import NoiseResult, noise_test
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.subject import ENOUGH, Plan, Subject, subject_of
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.problem import load_data

N_ITEMS = 300
_OPEN = ExitStack()
"""Folders of files; gone when the tests are over."""


def configuration(**sections: Any) -> SimulationConfig:
    """A configuration with these sections laid over the small one."""
    raw: dict[str, Any] = {
        "algorithm": "adadpals",
        "data": {
            "source": "synthetic",
            "synthetic": {"n_users": 90, "n_items": N_ITEMS, "mean_ratings_per_user": 15},
        },
        "privacy": {"epsilon": 5.0},
        "run": {"kernels": "compiled"},
        **sections,
    }
    if "settings" not in sections:
        raw["settings"] = {"rank": 3, "rounds": 2}
    return parse_config(raw)


EXPLICIT: dict[str, Any] = {}
IMPLICIT: dict[str, Any] = {"feedback": "implicit"}
REPLACE: dict[str, Any] = {"privacy": {"epsilon": 5.0, "adjacency": "replace"}}
CLIPPED: dict[str, Any] = {"algorithm": "adadpals-clipped"}
UNIFORM: dict[str, Any] = {"algorithm": "dpals-uniform"}
RESIDUAL: dict[str, Any] = {"algorithm": "residual"}
SPECTRAL: dict[str, Any] = {
    "algorithm": "residual",
    "settings": {"rank": 3, "rounds": 2, "start": "spectral"},
}
KINDS: dict[str, dict[str, Any]] = {
    "explicit": EXPLICIT,
    "implicit": IMPLICIT,
    "replace": REPLACE,
    "clipped": CLIPPED,
    "uniform": UNIFORM,
    "residual": RESIDUAL,
    "spectral": SPECTRAL,
}


@cache
def audited(kind: str = "explicit") -> tuple[Subject, Entrance]:
    """A small correct run of this kind, and the way into it."""
    return entered(configuration(**KINDS[kind]))


def entered(config: SimulationConfig, **choices: Any) -> tuple[Subject, Entrance]:
    """A correct run of this configuration, and the way into it."""
    entrance = _OPEN.enter_context(Entrance(config, load_data(config.data)))
    return subject_of(config, entrance.problem(entrance.honest), **choices), entrance


def rounds_of(subject: Subject, entrance: Entrance, pool: WorkerPool) -> Iterator[PlayedRound]:
    """The rounds of the honest users' run."""
    return play(subject, entrance.honest_rows().cohort, pool=pool, seed=0)


def changed(entrance: Entrance, *, read: Reader | None = None, n_users: int | None = None) -> Entrance:
    """The same way in with another reader, or the first of its honest users; it ends with this one."""
    other = copy.copy(entrance)
    other.honest = entrance.honest.of(entrance.honest.ids[:n_users])
    other.read, other._honest_rows = read or entrance.read, None
    return other


def noise_of(
    subject: Subject, entrance: Entrance, pool: WorkerPool, *, small_numbers: int = ENOUGH
) -> NoiseResult:
    """The noise test on the honest users' run."""
    cohort = entrance.honest_rows().cohort
    return noise_test(subject, cohort, Plan(seed=3, small_numbers=small_numbers), pool=pool)


@pytest.fixture(scope="session", autouse=True)
def ledgers_in_memory() -> Iterator[None]:
    """Audits write many ledgers that nobody reads again; where the system has a disk in memory they go there."""
    before, memory = tempfile.tempdir, Path("/dev/shm")
    if os.access(memory, os.W_OK):
        tempfile.tempdir = str(memory)
    yield
    _OPEN.close()
    tempfile.tempdir = before


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    """Jobs run in this process."""
    with WorkerPool(1) as one:
        yield one
