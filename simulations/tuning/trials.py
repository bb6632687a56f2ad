"""What a search looks in: which settings and budget shares vary, between which values; and one trial: a complete
simulation with chosen settings, judged on the validation part alone.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard.common.algorithms.shared.algorithm import Variant
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.tuned import search_tables
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.server.calibrating import shares_of
from fedboard.simulations.config import SimulationConfig, nested, overlay, parse_config, read_config
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import RatingSplit
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import chosen_algorithm, training_of
from fedboard.simulations.simulate import simulate
from fedboard.simulations.sweeps.cells import shared_problem

SECTIONS: Mapping[str, str] = {"settings": "settings", "shares": "privacy.shares"}
"""Table of a search file -> section of the configuration."""
Value = float | int | bool | str
Choice = Mapping[str, Value]
"""Key of the configuration, such as ``settings.clip_norm`` -> value."""
_KINDS = ("choice", "int", "log", "uniform")
_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One dimension."""

    kind: str
    """``log``, ``uniform`` and ``int`` lie between two ends; ``choice`` is one of a list."""
    values: tuple[Value, ...]

    def inside(self, value: Value) -> Value | None:
        """The value, or the nearer end; None for what is no choice or no number."""
        if self.kind == "choice":
            return value if value in self.values else None
        if not isinstance(value, int | float):
            return None
        bounded = min(max(value, self.values[0]), self.values[1])
        return int(bounded) if self.kind == "int" else float(bounded)


Space = Mapping[str, Parameter]
"""Key of the configuration -> its dimension."""
Tables = Mapping[str, Mapping[str, Any]]
"""A space as a search file has it: ``settings`` and ``shares``, each with ``name = { log = [0.1, 2.0] }``."""


def space_of(config: SimulationConfig, search_file: Path | None) -> Tables:
    """What may be varied: the space of a file, or the algorithm's own, without what the configuration sets.

    Raises:
        InputError: unreadable, no space, or nothing is left of it.
    """
    if search_file is None:
        tables, source = default_space(chosen_algorithm(config.algorithm), config.feedback)
    else:
        tables, source = read_config(search_file), str(search_file)
    parse_space(tables, source=source)
    left = without(tables, {"settings": config.settings, "shares": config.privacy.shares})
    if not any(left.values()):
        raise InputError("the configuration sets everything that would be tried; nothing is left to choose")
    return left


def default_space(algorithm: Variant, feedback: Feedback) -> tuple[Tables, str]:
    """The space that is searched unless a file gives another: ``search.toml`` beside the algorithm, and its name.

    Raises:
        InputError: there is none for this algorithm and feedback.
    """
    found = search_tables(algorithm, feedback)
    if not found:
        raise InputError(
            f"there is no search space for {algorithm.name} with {feedback} feedback; give one with "
            "--search FILE.toml"
        )
    return found, f"search.toml of {algorithm.name}"


def without(tables: Tables, fixed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The space without what a configuration sets: ``fixed`` holds this by table."""
    return {
        title: {name: given for name, given in table.items() if name not in fixed[title]}
        for title, table in tables.items()
    }


def parse_space(raw: Mapping[str, Any], *, source: str) -> Space:
    """Check a space: tables ``settings`` and ``shares`` of ``name = { log = [0.1, 2.0] }`` and the like.

    Raises:
        InputError: an unknown table or kind, ends that are no range, or nothing to search.
    """
    unknown = sorted(set(raw) - set(SECTIONS))
    if unknown:
        raise InputError(f"{source}: unknown table {unknown[0]!r}; known are {', '.join(SECTIONS)}")
    for section, table in raw.items():
        if not isinstance(table, Mapping):
            raise InputError(f"{source}: {section} must be a table of parameters")
    space = {
        f"{SECTIONS[section]}.{name}": _parameter(given, f"{source}: {section}.{name}")
        for section, table in raw.items()
        for name, given in table.items()
    }
    if not space:
        raise InputError(f"{source}: there is nothing to search; declare at least one parameter")
    return space


def _parameter(given: Any, where: str) -> Parameter:
    kind = next(iter(given), "") if isinstance(given, Mapping) and len(given) == 1 else ""
    if kind not in _KINDS or not isinstance(given[kind], list):
        raise InputError(
            f"{where} must be one of {', '.join(_KINDS)} with a list, as in {{ log = [0.1, 2.0] }}"
        )
    values = tuple(given[kind])
    if kind == "choice":
        if not values or not all(isinstance(value, bool | int | float | str) for value in values):
            raise InputError(f"{where}: choice needs a list of numbers, texts or booleans")
        return Parameter(kind=kind, values=values)
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    whole = kind != "int" or all(isinstance(value, int) for value in numbers)
    if not (len(numbers) == len(values) == 2 and numbers[0] < numbers[1] < math.inf and whole):
        raise InputError(f"{where}: {kind} needs two numbers, the lower first, got {list(values)}")
    if kind == "log" and numbers[0] <= 0:
        raise InputError(f"{where}: the ends of log must be > 0, got {list(values)}")
    return Parameter(kind=kind, values=values)


def rounded(value: Value) -> Value:
    """As it is written down: four digits."""
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


_WITHOUT_EFFECT = ("audit", "reports")
"""Folders of ``simulations`` that never change what is measured."""


def software() -> str:
    """Name and version."""
    return f"fedboard {version('fedboard')}"


@lru_cache(maxsize=1)
def source_digest() -> str:
    """SHA-256 over the source files that decide what a simulation computes; hex, 12 characters.

    Numbers that were kept from an earlier call are compared with new ones only where this is the same.
    """
    digest = hashlib.sha256()
    for package in ("common", "server", "simulations"):
        root = Path(str(import_module(f"fedboard.{package}").__file__)).parent
        for path in sorted(root.rglob("*.py")):
            relative = path.relative_to(root)
            if relative.parts[0] not in _WITHOUT_EFFECT:
                digest.update(f"{root.name}/{relative}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


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
    quiet = {"workers": 1, "baselines": False, "evaluate_rounds": False}
    return laid_over(config, choice, {"seed": seed, "run": quiet, "tuned": None})


def laid_over(config: SimulationConfig, choice: Choice, changes: dict[str, Any]) -> SimulationConfig:
    """A configuration with other values.

    Args:
        config: of all trials.
        choice: by key.
        changes: as sections.

    Raises:
        InputError: a value that is out of its range whatever the algorithm.
    """
    plain = overlay(msgspec.to_builtins(config, str_keys=True), changes)
    for key, value in choice.items():
        plain = overlay(plain, nested(key, value))
    return parse_config(plain, source="a trial")


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
            judged = {n.replace("test_", "validation_", 1): v for n, v in result.final["metrics"].items()}
            stated = json.loads(json.dumps(dict(result.board.config)))
            found["metrics"] = {name: value for name, value in judged.items() if math.isfinite(value)}
            found["settings"] = {k: v for k, v in stated.items() if k != "noise_multipliers"}  # of the budget
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
