"""The algorithms on examples by name: a line for each in this package, an entry point for each of others."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from fedboard.common.algorithms.registry import learns_from_ratings
from fedboard.common.algorithms.shared.brought import Entries, entries_of, loaded
from fedboard.common.algorithms.supervised.examples import ExampleAlgorithm
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import FedboardError, InputError

EXAMPLE_ALGORITHMS = {"representation": "representation.algorithm"}
"""Name on boards -> module of ``algorithms`` whose ``ALGORITHM`` is its record, imported when it is asked for."""

ENTRY_POINTS = "fedboard.example_algorithms"
"""Group of entry points by which an installed package brings algorithms: name = "package.module:RECORD"."""


def learns_from_examples(name: str) -> bool:
    """Whether this is the name of an algorithm on examples."""
    return name in EXAMPLE_ALGORITHMS or name in _entries()


def example_algorithm_of(name: str) -> ExampleAlgorithm:
    """The algorithm on examples of this name, as boards state it; looked up, never taken apart.

    Raises:
        InputError: none is installed, or it cannot be loaded.
    """
    if name in EXAMPLE_ALGORITHMS:
        return _own(name)
    entries = _entries().get(name)
    if entries is None:
        known = example_algorithm_names()
        raise InputError(
            f"an algorithm on examples must be one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}"
        )
    return _others(entries)


def example_algorithm_names() -> tuple[str, ...]:
    """Names that ``--algorithm`` takes."""
    return tuple(algorithm.name for algorithm in example_algorithms())


def example_algorithms() -> Iterator[ExampleAlgorithm]:
    """All of them: those of this package, then those of others as far as they can be loaded."""
    yield from map(_own, EXAMPLE_ALGORITHMS)
    for entries in _entries().values():
        try:
            found = _others(entries)
        except FedboardError:  # asked for by name, it says why
            continue
        yield found


def _entries() -> Entries:
    """Those of other packages; a name of this package, or of an algorithm on ratings, is not theirs to have."""
    found = entries_of(ENTRY_POINTS, entry_points)
    return {
        name: entries
        for name, entries in found.items()
        if name not in EXAMPLE_ALGORITHMS and not learns_from_ratings(name)
    }


@cache
def _own(name: str) -> ExampleAlgorithm:
    return _checked(import_module(f"fedboard.common.algorithms.{EXAMPLE_ALGORITHMS[name]}").ALGORITHM, name)


@cache
def _others(entries: tuple[EntryPoint, ...]) -> ExampleAlgorithm:
    return _checked(loaded(entries), entries[0].name)


def _checked(found: object, name: str) -> ExampleAlgorithm:
    if isinstance(found, ExampleAlgorithm) and found.name == name:
        return found
    what = repr(found.name) if isinstance(found, ExampleAlgorithm) else f"a {type(found).__name__}"
    raise InputError(f"algorithm {name!r} must be an ExampleAlgorithm record of that name, got {what}")
