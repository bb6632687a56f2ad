"""One trial: a complete simulation with chosen settings, judged on the validation part alone."""

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.server.calibrating import shares_of
from fedboard.simulations.config import SimulationConfig, overlay, parse_config
from fedboard.simulations.datasets import Triples
from fedboard.simulations.datasets.splits import RatingSplit
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import training_of
from fedboard.simulations.runs.keys import nested
from fedboard.simulations.simulate import simulate
from fedboard.simulations.sweeps.cells import shared_problem
from fedboard.simulations.tuning.space import Choice

_VALIDATION_SHARE = 0.1


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one trial with one noise seed gave. Not private: this is why the data must be public."""

    number: int
    """Trial 0 has the shipped settings."""
    seed: int
    choice: dict[str, float | int | bool | str]
    """What differs from the shipped settings."""
    metrics: dict[str, float]
    """By name, on the validation part; empty where it failed."""
    settings: dict[str, Any] = {}
    """All of them, as the board states them."""
    shares: dict[str, float] = {}
    """All budget shares."""
    error: str | None = None
    """Why it failed, in one sentence."""
    seconds: float = 0.0


def for_trials(config: SimulationConfig) -> SimulationConfig:
    """The configuration that trials share.

    It has a validation part, also where the data bring a test part of their own, and no account of a population:
    nobody whose budget is kept there takes part.
    """
    split = config.split
    if split.validation is None:
        split = msgspec.structs.replace(split, validation=_VALIDATION_SHARE)
    privacy = msgspec.structs.replace(config.privacy, population=None, lineage=None)
    return msgspec.structs.replace(config, split=split, privacy=privacy, tuned=None)


def configured(config: SimulationConfig, choice: Choice, seed: int) -> SimulationConfig:
    """The configuration of a trial.

    Raises:
        InputError: a value that is out of its range whatever the algorithm.
    """
    changes: dict[str, Any] = {"seed": seed, "run": {"workers": 1, "baselines": False}}
    changes = overlay(changes, {"run": {"evaluate_rounds": False}, "tuned": None})
    for key, value in choice.items():
        changes = overlay(changes, nested(key, value))
    plain = msgspec.to_builtins(config, str_keys=True)
    return parse_config(overlay(plain, changes), source="a trial")


def judged_on_validation(problem: Problem) -> Problem:
    """The same problem with the validation part in place of the test part, which a search never sees.

    Raises:
        InputError: the split has no validation part.
    """
    split = problem.split
    if not isinstance(split, RatingSplit):
        return replace(problem, split=replace(split, test=split.validation))
    if split.validation.n_ratings == 0:
        raise InputError(
            "tuning needs a validation part: set split.validation above 0 (by date: split.validation_from)"
        )
    none = np.zeros(0, dtype=np.int32)
    empty = Triples(users=none, items=none, values=np.zeros(0, dtype=np.float32))
    held_out = replace(split, train_and_validation=split.train, validation=empty, test=split.validation)
    return replace(problem, split=held_out)


def run_trial(config: SimulationConfig, number: int, choice: Choice, path: Path) -> TrialRecord:
    """Run a trial and write its record; settings that do not fit each other are a failed trial, not an error.

    Args:
        config: with a validation part; its seed is the noise seed.
        number: of the trial.
        choice: laid over the configuration.
        path: where the record goes.
    """
    problem = judged_on_validation(shared_problem(config))
    found: dict[str, Any] = {"number": number, "seed": config.seed, "choice": dict(choice), "metrics": {}}
    with tempfile.TemporaryDirectory(prefix="fedboard-tune-") as folder:
        try:
            chosen = configured(config, choice, config.seed)
            result = simulate(chosen, Path(folder) / "run", problem=problem, report=False)
        except FedboardError as error:
            found["error"] = str(error)
        else:
            found["metrics"] = _renamed(result.final["metrics"])
            found["settings"] = _stated(result.board.config)
            found["shares"] = asdict(shares_of(training_of(chosen)))
            found["seconds"] = result.final["seconds_total"]
    record = msgspec.convert(found, TrialRecord)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(record), indent=1))
    return record


def read_trial(path: Path, choice: Choice) -> TrialRecord | None:
    """The record of a trial with this choice, if it is there."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=TrialRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return record if record.choice == dict(choice) else None


def _stated(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What a board states, without what follows from the budget."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(configuration)))
    return {key: value for key, value in plain.items() if key != "noise_multipliers"}


def _renamed(metrics: Mapping[str, float]) -> dict[str, float]:
    """What was judged is the validation part, whatever ``judge`` calls it."""
    named = {name.replace("test_", "validation_", 1): value for name, value in metrics.items()}
    return {name: value for name, value in named.items() if math.isfinite(value)}
