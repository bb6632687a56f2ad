"""Which algorithm a run names: an installed one, or the record in a researcher's own file or module."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from fedboard.common.algorithms.registry import algorithm_names, variant_of
from fedboard.common.algorithms.shared.algorithm import Algorithm, Variant
from fedboard.common.algorithms.supervised.examples import ExampleAlgorithm
from fedboard.common.algorithms.supervised.registry import (
    example_algorithm_names,
    example_algorithm_of,
    learns_from_examples,
)
from fedboard.common.errors import InputError
from fedboard.simulations.own_code import is_own, own_object

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
    _require_new(found.name, choice)
    return found.variant()


def chosen_on_examples(choice: str) -> ExampleAlgorithm | None:
    """The algorithm on examples of a run; None where the choice is none on examples.

    Args:
        choice: as for ``chosen_algorithm``.

    Raises:
        InputError: one's own has the name of one that is installed.
    """
    if not is_own(choice):
        return example_algorithm_of(choice) if learns_from_examples(choice) else None
    found = own_object(choice, "algorithm")
    if not isinstance(found, ExampleAlgorithm):
        return None
    _require_new(found.name, choice)
    return found


def any_algorithm(choice: str) -> Variant | ExampleAlgorithm:
    """The algorithm of a run, on ratings or on examples.

    Raises:
        InputError: there is none.
    """
    return chosen_on_examples(choice) or chosen_algorithm(choice)


def loading_of(choice: str) -> Callable[[], object] | None:
    """What a worker process runs before it is sent a task of this algorithm; None where nothing is needed."""
    return partial(any_algorithm, choice) if is_own(choice) else None


def _require_new(name: str, choice: str) -> None:
    if name in (*algorithm_names(), *example_algorithm_names()):
        raise InputError(
            f"algorithm {choice!r} has the name {name!r} of an installed one; give it a name of its own"
        )


def label_of(choice: str) -> str:
    """What tables, figures and folders call it: the name, or that of the file."""
    if not is_own(choice):
        return choice
    place, _, record = choice.rpartition(":")
    stem = Path(place).stem if place.endswith(".py") else place
    return stem if record == _USUAL_RECORD else f"{stem}-{record}"
