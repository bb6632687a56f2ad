"""A file of examples: features with a label, of one person or, with a column ``user``, of many.

Text: a header, then a line for each example. One column is called ``label``, one may be called ``user``, and each
other one is a feature by its public name. Features are found by name, so their order is free.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedboard.common.algorithms.supervised.examples import Examples, cohort_of
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError

LABEL, USER = "label", "user"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExamplesTable:
    """Examples by people, as a file has them. The examples and who they are of are private."""

    features: tuple[str, ...]
    """Names of the features, in the order of their numbers. Public."""
    users: tuple[str, ...] | None
    """Ids, ascending; None for one person's file. Private."""
    examples: Examples
    """A row a user; within a row in the order of the file. Private."""


def read_examples(path: Path) -> ExamplesTable:
    """Read a file of examples.

    Raises:
        InputError: it cannot be read as it is; names the line, never a value.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            return _table(path, csv.reader(stream))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: no examples can be read there ({reason})") from error
    except csv.Error as error:
        raise InputError(f"{path}: it is no CSV file: {error}") from error


def _table(path: Path, lines: Iterator[list[str]]) -> ExamplesTable:
    header = [name.strip() for name in next(lines, [])]
    features = tuple(name for name in header if name not in (LABEL, USER))
    if header.count(LABEL) != 1 or header.count(USER) > 1 or len(set(features)) < len(features):
        raise InputError(
            f"{path}: the first line must name each column once: {LABEL!r}, the features, and {USER!r} where "
            "the file is of many people"
        )
    if not features or "" in features:
        raise InputError(f"{path}: the first line must name at least one feature, and each by a name")
    at = [header.index(name) for name in (*features, LABEL)]
    owner = header.index(USER) if USER in header else None
    numbers: list[list[float]] = []
    users: list[str] = []
    for place, cells in enumerate(lines, start=2):
        if not cells:
            continue
        numbers.append(_numbers(path, place, cells, len(header), at))
        users.append("" if owner is None else cells[owner].strip())
        if owner is not None and not users[-1]:
            raise InputError(f"{path}, line {place}: it does not say whose example this is")
    values = np.array(numbers, dtype=np.float64).reshape(len(numbers), len(at))
    if np.abs(values).max(initial=0.0) > np.finfo(np.float32).max:
        raise InputError(f"{path}: a number is beyond what single precision holds")
    return _by_user(features, None if owner is None else users, values.astype(np.float32))


def _numbers(path: Path, place: int, cells: list[str], width: int, at: Sequence[int]) -> list[float]:
    if len(cells) != width:
        raise InputError(f"{path}, line {place}: the first line names {width} columns; give as many")
    try:
        found = [float(cells[column]) for column in at]
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise InputError(f"{path}, line {place}: features and label must be finite numbers")
    return found


def _by_user(
    features: tuple[str, ...],
    users: list[str] | None,
    values: "np.ndarray[tuple[int, int], np.dtype[np.float32]]",
) -> ExamplesTable:
    ids: tuple[str, ...] = ()
    counts = np.array([len(values)])
    if users is not None:
        names, owner, counts = np.unique(np.array(users, dtype=str), return_inverse=True, return_counts=True)
        values, ids = values[np.argsort(owner, kind="stable")], tuple(map(str, names))
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
    examples = Examples(
        indptr=indptr,
        features=np.ascontiguousarray(values[:, :-1]),
        labels=np.ascontiguousarray(values[:, -1]),
    )
    return ExamplesTable(features=features, users=None if users is None else ids, examples=examples)


class ExamplesFile:
    """A file of examples as a device's source: one person's, or many people's at a gateway."""

    def __init__(self, table: ExamplesTable, *, first_row: int = 0) -> None:
        """Use ``ExamplesFile.open``."""
        self._table, self._first_row = table, first_row

    @classmethod
    def open(cls, path: Path, *, first_row: int = 0) -> "ExamplesFile":
        """Read a file.

        Args:
            path: the file.
            first_row: number of its first user in the population. Public.

        Raises:
            InputError: it cannot be read as it is.
        """
        return cls(read_examples(path), first_row=first_row)

    @property
    def n_users(self) -> int:
        """One person, or as many as the file names."""
        return self._table.examples.n_users

    def cohort(self, board: Board) -> Cohort:
        """Everybody's examples, with the features in the order of a board's catalogue. Private.

        Raises:
            InputError: the file lacks one of them.
        """
        places = {name: place for place, name in enumerate(self._table.features)}
        wanted = board.catalogue.item_ids
        missing = [name for name in wanted if name not in places]
        if missing:
            raise InputError(f"the file of examples has no feature {missing[0]!r}, which this board needs")
        own, order = self._table.examples, [places[name] for name in wanted]
        ordered = replace(own, features=np.ascontiguousarray(own.features[:, order]))
        return cohort_of(ordered, first_row=self._first_row)
