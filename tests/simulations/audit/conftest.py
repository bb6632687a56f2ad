"""A small run to audit: made-up people, few rounds."""

import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedboard.simulations.audit.subject import Subject, subject_of
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.problem import Problem, load_problem

N_ITEMS = 300


def configuration(**sections: Any) -> SimulationConfig:
    """A configuration with these sections laid over the small one."""
    raw: dict[str, Any] = {
        "algorithm": "adadpals",
        "data": {
            "source": "synthetic",
            "synthetic": {"n_users": 90, "n_items": N_ITEMS, "mean_ratings_per_user": 15},
        },
        "privacy": {"epsilon": 5.0},
        "run": {"kernels": "plain"},
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
def audited(kind: str = "explicit") -> tuple[Subject, Problem]:
    """A small correct run of this kind, and its data."""
    config = configuration(**KINDS[kind])
    problem = load_problem(config)
    return subject_of(config, problem), problem


def engine_of(subject: Subject, problem: Problem, pool: WorkerPool) -> Engine:
    """An engine that hosts the honest users."""
    return Engine(subject.task, problem.train, protocol=subject.protocol, pool=pool)


@pytest.fixture(scope="session", autouse=True)
def ledgers_in_memory() -> Iterator[None]:
    """Audits write many ledgers that nobody reads again; where the system has a disk in memory they go there."""
    before, memory = tempfile.tempdir, Path("/dev/shm")
    if os.access(memory, os.W_OK):
        tempfile.tempdir = str(memory)
    yield
    tempfile.tempdir = before


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    """Jobs run in this process."""
    with WorkerPool(1) as one:
        yield one
