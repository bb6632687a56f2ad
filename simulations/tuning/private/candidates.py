"""The settings that a private choice is among: given, read from a file, or drawn near the shipped ones.

They are all there before the first trial. No sampler that learns from scores has a place here: it would read
private ratings once per proposal, and the ledger books trials and one comparison, nothing else.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.common.errors import InputError
from fedboard.server.calibrating import shares_of
from fedboard.simulations.config import SimulationConfig, read_config
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm
from fedboard.simulations.runs.calibrated import build_task, training_of
from fedboard.simulations.tuning.space import (
    SECTIONS,
    Choice,
    Space,
    Value,
    default_space,
    read_space,
    without,
)

_TABLE = "candidate"
_CHANGED = 0.5
"""Probability that a setting changes between a trial and the one it was drawn near to."""


def candidate_of(values: Mapping[str, Any], where: str) -> Choice:
    """A candidate from keys such as ``settings.rounds``, ``shares.counts`` or plainly ``rounds``.

    Raises:
        InputError: a key of another section, or a value that is no number, text or boolean.
    """
    found: dict[str, Value] = {}
    for key, value in values.items():
        section, dot, name = key.rpartition(".")
        section = section.removeprefix("privacy.") if dot else "settings"
        if section not in SECTIONS or not name:
            raise InputError(f"{where}: only {' and '.join(SECTIONS)} are chosen, got {key!r}")
        if not isinstance(value, bool | int | float | str):
            raise InputError(f"{where}: {key} must be a number, a text or a boolean, got {value!r}")
        found[f"{SECTIONS[section]}.{name}"] = value
    return found


def read_candidates(path: Path) -> tuple[Choice, ...]:
    """The candidates of a TOML file: a table ``[[candidate]]`` for each, with tables ``settings`` and ``shares``.

    Raises:
        InputError: unreadable, or not that.
    """
    tables = read_config(path)
    found = tables.pop(_TABLE, None)
    if tables or not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{path}: needs tables [[{_TABLE}]] and nothing else")
    return tuple(_candidate(one, f"{path}: candidate {number}") for number, one in enumerate(found, start=1))


def space_of(config: SimulationConfig, search_file: Path | None) -> Space:
    """What may be varied: the space of a file, or the algorithm's own, without what the configuration sets.

    Raises:
        InputError: nothing is left.
    """
    if search_file is None:
        space = default_space(chosen_algorithm(config.algorithm), config.feedback)
    else:
        space = read_space(search_file)
    left = without(space, {"settings": config.settings, "privacy.shares": config.privacy.shares})
    if not left:
        raise InputError("the configuration sets everything that would be tried; nothing is left to choose")
    return left


def drawn(
    config: SimulationConfig, problem: Problem, space: Space, *, number: int, seed: int
) -> list[dict[str, Value]]:
    """Settings near those that are shipped for this budget: the same steps from them for the same public seed.

    Args:
        config: public; its epsilon is that of the part.
        problem: only its public parts are read.
        space: what may move.
        number: of candidates.
        seed: >= 0. Public.

    Raises:
        InputError: the seed is negative.
    """
    if seed < 0:
        raise InputError(f"the seed of the search must be >= 0, got {seed}")
    stated, rng = settings_of(config, problem), np.random.default_rng([seed])
    values: dict[str, Value | None] = {}
    for key in space:
        found = stated.get(key.rpartition(".")[2])
        values[key] = found if isinstance(found, bool | int | float | str) else None
    return [dict(_moved(space, values, rng)) for _ in range(number)]


def _moved(space: Space, values: Mapping[str, Value | None], rng: np.random.Generator) -> Choice:
    """About half of the settings moved a little, at least one of them.

    Args:
        space: what may move.
        values: where it moves from; a value that is not known, None, is drawn anew.
        rng: decides.
    """
    moves = rng.random(len(space)) < _CHANGED
    moves[rng.integers(len(space))] = True
    return {
        key: parameter.value_at(rng.random())
        if (value := values[key]) is None
        else parameter.near(value, rng)
        for (key, parameter), chosen in zip(space.items(), moves, strict=True)
        if chosen
    }


def settings_of(config: SimulationConfig, problem: Problem) -> dict[str, Any]:
    """Settings and shares by name, as a run of this configuration has them.

    Args:
        config: public.
        problem: only its public parts are read.

    Raises:
        InputError: it cannot be run.
    """
    calibrated = build_task(
        config, rating_range=problem.rating_range, backend="numpy", features=problem.feature_values
    )
    return {**asdict(shares_of(training_of(config))), **calibrated.task.config}


def told_of(candidate: Choice) -> str:
    """A candidate in words: ``settings.rounds = 5, settings.user_ridge = 3``."""
    written = (
        f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in candidate.items()
    )
    return ", ".join(written) or "shipped settings"


def _candidate(tables: Mapping[str, Any], where: str) -> Choice:
    if not all(isinstance(table, dict) for table in tables.values()):
        raise InputError(f"{where}: needs tables {' and '.join(SECTIONS)}")
    return candidate_of({f"{s}.{name}": v for s, table in tables.items() for name, v in table.items()}, where)
