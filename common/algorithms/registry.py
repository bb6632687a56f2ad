"""The algorithms by name, on ratings and on examples; and a task, or a question, from the board that states it.

Those of this package have lines here, those of other packages an entry point each.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias, TypeVar

import msgspec

from fedboard.common.algorithms.shared.algorithm import Algorithm, RatingTask, Variant
from fedboard.common.algorithms.shared.brought import Entries, entries_of, loaded
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written
from fedboard.common.algorithms.supervised.examples import CohortTask, ExampleAlgorithm
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.queries.statement import StatedQuestion, rebuilt_question

ALGORITHMS = (
    "adadpals",
    "adadpsgd",
    "bias-private",
    "langevin",
    "popularity-private",
    "residual",
    "topk",
)
"""Names of those on ratings; each is a folder of this package, with underscores for hyphens."""
EXAMPLE_ALGORITHMS = ("representation",)
"""Names of those on examples."""

USUAL = "residual"
"""What a run on ratings takes that names none."""
USUAL_FOR_PRESENCE = "topk"
"""What one on implicit feedback takes: it is not below private popularity where people have few items."""

ENTRY_POINTS = "fedboard.algorithms"
"""Group of entry points by which an installed package brings algorithms: name = "package.module:RECORD"."""
EXAMPLE_ENTRY_POINTS = "fedboard.example_algorithms"
"""The same for algorithms on examples."""

AnyTask: TypeAlias = RatingTask | CohortTask
"""Of a training, of either kind; both are a ``ClientTask``."""
BoardTask: TypeAlias = AnyTask | StatedQuestion
"""Whatever a board may be about: a training or a question."""
Record = TypeVar("Record", Algorithm, ExampleAlgorithm)


@cache
def _own(name: str) -> Algorithm:
    """The one of this package; no other is imported."""
    match name:
        case "adadpals":
            from fedboard.common.algorithms.adadpals.algorithm import ALGORITHM
        case "adadpsgd":
            from fedboard.common.algorithms.adadpsgd.algorithm import ALGORITHM
        case "bias-private":
            from fedboard.common.algorithms.bias_private.algorithm import ALGORITHM
        case "langevin":
            from fedboard.common.algorithms.langevin.algorithm import ALGORITHM
        case "popularity-private":
            from fedboard.common.algorithms.popularity_private.algorithm import ALGORITHM
        case "topk":
            from fedboard.common.algorithms.topk.algorithm import ALGORITHM
        case _:
            from fedboard.common.algorithms.residual.algorithm import ALGORITHM
    return _checked(ALGORITHM, name, Algorithm)


def usual(feedback: Feedback | str) -> str:
    """What a run takes that names no algorithm."""
    return USUAL if Feedback(feedback) is Feedback.EXPLICIT else USUAL_FOR_PRESENCE


def named(algorithms: Iterable[str], feedback: Feedback | str) -> tuple[str, ...]:
    """Algorithms by name, where an empty name stands for the usual one of the feedback."""
    return tuple(name or usual(feedback) for name in algorithms)


def learns_from_ratings(name: str) -> bool:
    """Whether this is the name of an algorithm on ratings, as boards state it."""
    return name in ALGORITHMS or name in _entries()


def learns_from_examples(name: str) -> bool:
    """Whether this is the name of an algorithm on examples."""
    return name in EXAMPLE_ALGORITHMS or name in _example_entries()


def algorithm_of(name: str) -> Algorithm:
    """The algorithm of this name, as boards state it.

    A name is looked up and never taken apart, so that who states it chooses among what is installed here: no file,
    no module, no code of theirs.

    Raises:
        InputError: none is installed, or it cannot be loaded.
    """
    if name in ALGORITHMS:
        return _own(name)
    if name in _entries():
        return _brought(_entries()[name], Algorithm)
    known = algorithm_names()
    raise InputError(f"algorithm must be one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")


def example_algorithm_of(name: str) -> ExampleAlgorithm:
    """The algorithm on examples of this name, as boards state it; looked up, never taken apart.

    Raises:
        InputError: none is installed, or it cannot be loaded.
    """
    if name in EXAMPLE_ALGORITHMS:
        from fedboard.common.algorithms.representation.algorithm import ALGORITHM

        return ALGORITHM
    if name in _example_entries():
        return _brought(_example_entries()[name], ExampleAlgorithm)
    known = example_algorithm_names()
    meant = did_you_mean(name, known)
    raise InputError(f"an algorithm on examples must be one of {', '.join(known)}, got {name!r}{meant}")


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


def installed() -> Iterator[Algorithm]:
    """All algorithms: those of this package, then those of others as far as they can be loaded."""
    taken = set[str]()
    for algorithm in (*map(_own, ALGORITHMS), *_loadable(_entries(), Algorithm)):
        if not taken & set(algorithm.names):
            taken.update(algorithm.names)
            yield algorithm


def example_algorithms() -> Iterator[ExampleAlgorithm]:
    """All those on examples: of this package, then of others as far as they can be loaded."""
    yield from map(example_algorithm_of, EXAMPLE_ALGORITHMS)
    yield from _loadable(_example_entries(), ExampleAlgorithm)


def algorithm_names(feedback: Feedback | None = None) -> tuple[str, ...]:
    """Names that ``--algorithm`` takes: all, or those for one kind of feedback."""
    fitting = (one for one in installed() if feedback is None or feedback in one.feedback)
    return tuple(name for algorithm in fitting for name in algorithm.names)


def example_algorithm_names() -> tuple[str, ...]:
    """Names of algorithms on examples that ``--algorithm`` takes."""
    return tuple(algorithm.name for algorithm in example_algorithms())


def floor_names(feedback: Feedback) -> tuple[str, ...]:
    """The simplest private algorithms for this feedback, which every comparison shows."""
    return tuple(name for one in installed() if feedback in one.feedback for name in one.floors)


def rebuild_any(board: Board, *, backend: str = "numpy", features: FloatArray | None = None) -> BoardTask:
    """The task that a board was made by, on ratings or on examples, or the question that it states.

    From the board alone: what a device and a resumed server do.

    Args:
        board: of any version; version 0 says all that devices will be asked.
        backend: which kernels compute; the default are those of the base install. Of a task on ratings.
        features: public features of the items, float64, shape (n_items, n_features), for the server of a run that
            uses them. Of a task on ratings.

    Raises:
        InputError: the algorithm is not installed here, or does not know the configuration.
    """
    if board.task == StatedQuestion.NAME:
        return rebuilt_question(board)
    if not learns_from_examples(board.task):
        return rebuild_task(board, backend=backend, features=features)
    algorithm = example_algorithm_of(board.task)
    try:
        settings = msgspec.convert(dict(board.config), algorithm.settings)
    except msgspec.ValidationError as error:
        raise _unknown_configuration(error) from error
    return CohortTask(algorithm.task(settings))


def rebuild_task(board: Board, *, backend: str = "numpy", features: FloatArray | None = None) -> RatingTask:
    """The same of a board that was learnt from ratings; arguments and failures as of ``rebuild_any``."""
    if board.task == StatedQuestion.NAME:
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
        raise _unknown_configuration(error) from error
    if task.name != algorithm.name:  # its boards would be held to the rules of another
        raise InputError(f"algorithm {algorithm.name!r} makes tasks that are called {task.name!r}")
    return task


def _unknown_configuration(error: Exception) -> InputError:
    return InputError(f"the board's configuration is not one that this version of fedboard knows: {error}")


def _entries() -> Entries:
    """Those of other packages; a name of this package's own stays its own."""
    found = entries_of(ENTRY_POINTS, entry_points)
    return {name: entries for name, entries in found.items() if name not in ALGORITHMS}


def _example_entries() -> Entries:
    """Likewise; a name of an algorithm on ratings is not theirs to have either."""
    found = entries_of(EXAMPLE_ENTRY_POINTS, entry_points)
    taken = {*EXAMPLE_ALGORITHMS, *ALGORITHMS, *_entries()}
    return {name: entries for name, entries in found.items() if name not in taken}


@cache
def _others(entries: tuple[EntryPoint, ...]) -> object:
    return loaded(entries)


def _brought(entries: tuple[EntryPoint, ...], kind: type[Record]) -> Record:
    return _checked(_others(entries), entries[0].name, kind)


def _checked(found: object, name: str, kind: type[Record]) -> Record:
    if isinstance(found, kind) and found.name == name:
        return found
    what = f"the record of {found.name!r}" if isinstance(found, kind) else repr(type(found).__name__)
    raise InputError(f"algorithm {name!r} must be an {kind.__name__} record of that name, got {what}")


def _loadable(entries: Entries, kind: type[Record]) -> Iterator[Record]:
    for one in entries.values():
        try:
            found = _brought(one, kind)
        except FedboardError:  # asked for by name, it says why
            continue
        yield found


def _broken() -> str:
    """What cannot be loaded, for the end of a sentence."""
    loadable = {algorithm.name for algorithm in _loadable(_entries(), Algorithm)}
    broken = [name for name in _entries() if name not in loadable]
    return f" (installed, but not to be loaded: {', '.join(broken)})" if broken else ""
