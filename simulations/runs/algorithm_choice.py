"""Which algorithm a run names: an installed one, or the record in a researcher's own file or module."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import algorithm_names, variant_of
from fedboard.common.tasks.shared.algorithm import Algorithm, Variant
from fedboard.simulations.engine.own_code import is_own, own_object

_USUAL_RECORD = "ALGORITHM"


def chosen_algorithm(choice: str) -> Variant:
    """The algorithm of a run.

    Args:
        choice: a registered name, ``package.module:RECORD`` or ``path/to/file.py:RECORD``, whose code then runs.

    Raises:
        InputError: there is none, it is no record, or its name belongs to an algorithm that is installed: boards
            state the name, and devices would take it for that one.
    """
    if not is_own(choice):
        return variant_of(choice)
    found = own_object(choice, "algorithm")
    if not isinstance(found, Algorithm):
        place, _, name = choice.rpartition(":")
        raise InputError(
            f"algorithm {choice!r}: {name!r} in {place} must be an Algorithm record, "
            f"got {type(found).__name__}; see docs/guide/extending.md"
        )
    if found.name in algorithm_names():
        raise InputError(
            f"algorithm {choice!r} has the name {found.name!r} of an installed one; give it a name of its own"
        )
    return found.variant()


def loading_of(choice: str) -> Callable[[], object] | None:
    """What a worker process runs before it is sent a task of this algorithm; None where nothing is needed."""
    return partial(chosen_algorithm, choice) if is_own(choice) else None


def label_of(choice: str) -> str:
    """What tables, figures and folders call it: the name, or that of the file."""
    if not is_own(choice):
        return choice
    place, _, record = choice.rpartition(":")
    stem = Path(place).stem if place.endswith(".py") else place
    return stem if record == _USUAL_RECORD else f"{stem}-{record}"
