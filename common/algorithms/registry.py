"""The algorithms by name: one line each for those in this package, an entry point each for those in others."""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

import msgspec

from fedboard.common.algorithms.shared.algorithm import Algorithm, RatingTask, Variant
from fedboard.common.algorithms.shared.brought import Entries, entries_of, loaded
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.queries.names import TASK as QUESTION

ALGORITHMS = (
    "adadpals",
    "adadpsgd",
    "bias_private",
    "langevin",
    "popularity_private",
    "residual",
    "topk",
)
"""Folders of this package, imported when they are asked for. ``ALGORITHM`` of each one's ``algorithm.py`` has the
folder's name, with hyphens for underscores."""

USUAL = "residual"
"""What a run on ratings takes that names none."""
USUAL_FOR_PRESENCE = "topk"
"""What one on implicit feedback takes: it is not below private popularity where people have few items."""

ENTRY_POINTS = "fedboard.algorithms"
"""Group of entry points by which an installed package brings algorithms: name = "package.module:RECORD"."""


def usual(feedback: Feedback | str) -> str:
    """What a run takes that names no algorithm."""
    return USUAL if Feedback(feedback) is Feedback.EXPLICIT else USUAL_FOR_PRESENCE


def named(algorithms: Iterable[str], feedback: Feedback | str) -> tuple[str, ...]:
    """Algorithms by name, where an empty name stands for the usual one of the feedback."""
    return tuple(name or usual(feedback) for name in algorithms)


def algorithm_of(name: str) -> Algorithm:
    """The algorithm of this name, as boards state it.

    A name is looked up and never taken apart, so that who states it chooses among what is installed here: no file,
    no module, no code of theirs.

    Raises:
        InputError: none is installed, or it cannot be loaded.
    """
    if name in _folders():
        return _own(_folders()[name])
    entries = _entries().get(name)
    if entries is None:
        known = algorithm_names()
        raise InputError(
            f"algorithm must be one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}"
        )
    return _others(entries)


def learns_from_ratings(name: str) -> bool:
    """Whether this is the name of an algorithm on ratings, as boards state it."""
    return name in _folders() or name in _entries()


def variant_of(name: str) -> Variant:
    """What ``--algorithm`` names: an algorithm, or one of its variants.

    Raises:
        InputError: none is installed.
    """
    if learns_from_ratings(name):
        return algorithm_of(name).variant()
    for algorithm in installed():
        if name in algorithm.names:
            return algorithm.variant(name)
    own = "; a file of your own is for simulations, a fleet takes what is installed" if ":" in name else ""
    told = f"algorithm must be one of {', '.join(algorithm_names())}, got {name!r}"
    raise InputError(f"{told}{own}{_broken()}{did_you_mean(name, algorithm_names())}")


def algorithm_names(feedback: Feedback | None = None) -> tuple[str, ...]:
    """Names that ``--algorithm`` takes: all, or those for one kind of feedback."""
    return tuple(
        name
        for algorithm in installed()
        if feedback is None or feedback in algorithm.feedback
        for name in algorithm.names
    )


def floor_names(feedback: Feedback) -> tuple[str, ...]:
    """The simplest private algorithms for this feedback, which every comparison shows."""
    return tuple(
        name for algorithm in installed() if feedback in algorithm.feedback for name in algorithm.floors
    )


def installed() -> Iterator[Algorithm]:
    """All algorithms: those of this package, then those of others as far as they can be loaded."""
    taken = set[str]()
    for folder in _folders().values():
        algorithm = _own(folder)
        taken.update(algorithm.names)
        yield algorithm
    for entries in _entries().values():
        try:
            algorithm = _others(entries)
        except FedboardError:  # asked for by name, it says why
            continue
        if not taken & set(algorithm.names):
            taken.update(algorithm.names)
            yield algorithm


def rebuild_task(board: Board, *, backend: str = "numpy", features: FloatArray | None = None) -> RatingTask:
    """The task that a board was made by, from the board alone: what a device and a resumed server do.

    Args:
        board: of any version; version 0 says all that devices will be asked.
        backend: which kernels compute; the default are those of the base install.
        features: public features of the items, float64, shape (n_items, n_features), for the server of a run that
            uses them.

    Raises:
        InputError: the algorithm is not installed here, or does not know the configuration.
    """
    if board.task == QUESTION:
        raise InputError(
            "this board is about a question to a fleet: its last one holds the answer, see `fedboard query "
            "results`, and nothing is recommended by it"
        )
    if not learns_from_ratings(board.task):
        raise InputError(
            f"this board was made by the task {board.task!r}, which is not installed here among those on ratings; "
            f"installed are {', '.join(repr(algorithm.name) for algorithm in installed())}. A board learnt from "
            "examples has features and no items, so that nothing is recommended by it; see "
            "docs/guide/personalisation.md"
        )
    algorithm = algorithm_of(board.task)
    try:
        settings = from_written(board.config, algorithm.settings)
        task = algorithm.task(settings, backend=backend, features=features)
    except msgspec.ValidationError as error:
        raise InputError(
            f"the board's configuration is not one that this version of fedboard knows: {error}"
        ) from error
    if task.name != algorithm.name:  # its boards would be held to the rules of another
        raise InputError(f"algorithm {algorithm.name!r} makes tasks that are called {task.name!r}")
    return task


def _folders() -> dict[str, str]:
    """Name to folder."""
    return {folder.replace("_", "-"): folder for folder in ALGORITHMS}


def _entries() -> Entries:
    """Those of other packages; a name of this package's own stays its own."""
    found = entries_of(ENTRY_POINTS, entry_points)
    return {name: entries for name, entries in found.items() if name not in _folders()}


@cache
def _own(folder: str) -> Algorithm:
    return _checked(
        import_module(f"fedboard.common.algorithms.{folder}.algorithm").ALGORITHM, folder.replace("_", "-")
    )


@cache
def _others(entries: tuple[EntryPoint, ...]) -> Algorithm:
    return _checked(loaded(entries), entries[0].name)


def _checked(found: object, name: str) -> Algorithm:
    if not isinstance(found, Algorithm) or found.name != name:
        what = f"the record of {found.name!r}" if isinstance(found, Algorithm) else repr(type(found).__name__)
        raise InputError(f"algorithm {name!r} must be an Algorithm record of that name, got {what}")
    return found


def _broken() -> str:
    """What cannot be loaded, for the end of a sentence."""
    broken = []
    for name, entries in _entries().items():
        try:
            _others(entries)
        except FedboardError:
            broken.append(name)
    return f" (installed, but not to be loaded: {', '.join(broken)})" if broken else ""
