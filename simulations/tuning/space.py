"""The space that a search looks in: which settings and budget shares vary, between which values."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.algorithm import Variant
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.tuned import search_tables
from fedboard.simulations.config import SimulationConfig, read_config
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm

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
