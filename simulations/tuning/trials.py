"""What a search looks in: which settings and budget shares vary, between which values; and one trial: a complete
simulation with chosen settings, judged on the validation part alone.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
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


def space_of(config: SimulationConfig, search_file: Path | None) -> Space:
    """What may be varied: the space of a file, or the algorithm's own, without what the configuration sets.

    Raises:
        InputError: unreadable, no space, or nothing is left of it.
    """
    if search_file is None:
        space = default_space(chosen_algorithm(config.algorithm), config.feedback)
    else:
        space = read_space(search_file)
    fixed = {"settings": config.settings, "privacy.shares": config.privacy.shares}
    left = without(space, fixed)
    if not left:
        raise InputError("the configuration sets everything that would be tried; nothing is left to choose")
    return left


def default_space(algorithm: Variant, feedback: Feedback) -> Space:
    """The space that is searched unless a file gives another: ``search.toml`` beside the algorithm.

    Raises:
        InputError: there is none for this algorithm and feedback.
    """
    found = search_tables(algorithm, feedback)
    if not found:
        raise InputError(
            f"there is no search space for {algorithm.name} with {feedback} feedback; give one with "
            "--search FILE.toml"
        )
    return parse_space(found, source=f"search.toml of {algorithm.name}")


def read_space(path: Path) -> Space:
    """The space of a search file.

    Raises:
        InputError: unreadable, or not a space.
    """
    return parse_space(read_config(path), source=str(path))


def parse_space(raw: Mapping[str, Any], *, source: str) -> Space:
    """Check a space: tables ``settings`` and ``shares`` of ``name = { log = [0.1, 2.0] }`` and the like.

    Raises:
        InputError: an unknown table or kind, ends that are no range, or nothing to search.
    """
    unknown = sorted(set(raw) - set(SECTIONS))
    if unknown:
        raise InputError(f"{source}: unknown table {unknown[0]!r}; known are {', '.join(SECTIONS)}")
    space = {
        f"{SECTIONS[section]}.{name}": _parameter(given, f"{source}: {section}.{name}")
        for section, table in raw.items()
        for name, given in _entries(table, f"{source}: {section}")
    }
    if not space:
        raise InputError(f"{source}: there is nothing to search; declare at least one parameter")
    return space


def without(space: Space, fixed: Mapping[str, Any]) -> Space:
    """The space without what a configuration sets: ``fixed`` holds its sections by key."""
    return {
        key: parameter
        for key, parameter in space.items()
        if key.rpartition(".")[2] not in fixed[key.rpartition(".")[0]]
    }


def _entries(table: Any, where: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table of parameters")
    yield from table.items()


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


_WITHOUT_EFFECT = ("audit", "drawing", "report")
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
