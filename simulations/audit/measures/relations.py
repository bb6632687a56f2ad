"""Parts of the noise that must have nothing to do with each other."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from fedboard.common.arrays import FloatArray
from fedboard.simulations.audit.measures.statistics import distant_p, relation_p


class NoiseOfRun(Protocol):
    """The noise of one run."""

    @property
    def noise(self) -> Mapping[str, FloatArray]:
        """By release name, shape (rows, width)."""
        ...

    @property
    def starts(self) -> Mapping[str, tuple[int, ...]]:
        """By release name, first rows of the blocks in which it left."""
        ...


def relations_between(
    runs: Sequence[NoiseOfRun], drawn: Mapping[str, FloatArray], small: Collection[str]
) -> Iterator[tuple[str, float]]:
    """p-values of everything that must not be related, by what it is.

    Args:
        runs: whole runs, each with its own noise.
        drawn: by release name, the numbers that are judged: of all these runs, or of many runs of their own.
        small: names of the latter, which have one row for each of these runs.
    """
    first = runs[0]
    for name, numbers in drawn.items():
        flat = numbers.ravel()
        yield f"neighbouring numbers of {name}", relation_p(flat[:-1], flat[1:])
        yield f"neighbouring rows of {name}", relation_p(numbers[:-1], numbers[1:])
        yield f"distant numbers of {name}", distant_p(flat)
        for (k, one), (number, other) in itertools.combinations(enumerate(runs), 2):
            if name in one.noise and name in other.noise:
                yield f"{name} in runs {k} and {number}", relation_p(one.noise[name], other.noise[name])
        for row, next_row in itertools.pairwise(first.starts[name]):
            unit = first.noise[name]
            check = f"blocks of {name} from rows {row} and {next_row}"
            yield check, relation_p(unit[row:next_row], unit[next_row:])
    for name, other_name in itertools.combinations(drawn, 2):
        check = f"{name} and {other_name}"
        if name in small and other_name in small:
            yield check, _side_by_side(drawn[name], drawn[other_name])
        else:
            yield check, relation_p(first.noise[name], first.noise[other_name])


def _side_by_side(one: FloatArray, other: FloatArray) -> float:
    """The same runs and columns of two small releases, as far as both have them."""
    rows, width = min(len(one), len(other)), min(one.shape[1], other.shape[1])
    return relation_p(one[:rows, :width], other[:rows, :width])
