"""The algorithms on examples by name: a line for each."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from fedboard.common.tasks.on_examples.record import ExampleAlgorithm

EXAMPLE_ALGORITHMS = {
    "fedrep-private": "fedrep_private.algorithm",
    "representation": "representation.algorithm",
    "single-model": "representation.single_model_algorithm",
}
"""Name on boards -> module of ``common.tasks`` whose ``ALGORITHM`` is its record, imported when it is asked for."""


def learns_from_examples(name: str) -> bool:
    """Whether this is the name of an algorithm on examples."""
    return name in EXAMPLE_ALGORITHMS


def example_algorithm_of(name: str) -> ExampleAlgorithm:
    """The algorithm on examples of this name, as boards state it; looked up, never taken apart.

    Raises:
        InputError: there is none.
    """
    if not learns_from_examples(name):
        raise InputError(
            f"an algorithm on examples must be one of {', '.join(EXAMPLE_ALGORITHMS)}, got {name!r}"
            f"{did_you_mean(name, EXAMPLE_ALGORITHMS)}"
        )
    return _record(name)


def example_algorithms() -> Iterator[ExampleAlgorithm]:
    """All of them."""
    return map(_record, EXAMPLE_ALGORITHMS)


@cache
def _record(name: str) -> ExampleAlgorithm:
    found: ExampleAlgorithm = import_module(f"fedboard.common.tasks.{EXAMPLE_ALGORITHMS[name]}").ALGORITHM
    return found
