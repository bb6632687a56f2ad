"""What the engine's workers run: plain functions on handles of shared arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import process_time
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError
from fedboard.common.kernels.packed import packed_rank
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import FactoredSums, ItemIndex
from fedboard.common.protocols.trusted.protocol import (
    FactoredMessage,
    Trusted,
    TrustedMessage,
    factored_bytes,
)
from fedboard.common.task import ClientTask
from fedboard.simulations.engine.shared import SharedArray, SharedArrays
from fedboard.simulations.streams.giving import given_by

Shapes = dict[str, tuple[tuple[int, ...], str]]
_BOTH, _COLUMNS = "labels", ("weights", "responses")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCohort:
    """A cohort whose arrays lie in shared memory."""

    indptr: SharedArray
    items: SharedArray
    ratings: SharedArray
    user_keys: SharedArray
    n_items: int
    features: SharedArray | None = None
    """Of examples; None for ratings."""

    @staticmethod
    def of(cohort: Cohort, shared: SharedArrays) -> "SharedCohort":
        """Copy a cohort into shared memory."""
        return SharedCohort(
            indptr=shared.copy_of(cohort.indptr),
            items=shared.copy_of(cohort.items),
            ratings=shared.copy_of(cohort.ratings),
            user_keys=shared.copy_of(cohort.keys),
            n_items=cohort.n_items,
            features=None if cohort.features is None else shared.copy_of(cohort.features),
        )

    def cohort(self) -> Cohort:
        """The cohort, without copying."""
        return Cohort(
            indptr=self.indptr.array,
            items=self.items.array,
            ratings=self.ratings.array,
            n_items=self.n_items,
            user_keys=self.user_keys.array,
            features=None if self.features is None else self.features.array,
        )

    @property
    def given(self) -> tuple[IntArray, IndexArray]:
        """Row ends and items of what users give; examples belong to no item."""
        if self.features is None:
            return self.indptr.array, self.items.array
        return np.zeros(self.indptr.shape[0], dtype=np.int64), np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedIndex:
    """An item-major index whose arrays lie in shared memory."""

    indptr: SharedArray
    users: SharedArray
    entries: SharedArray

    def index(self) -> ItemIndex:
        """The index, without copying."""
        return ItemIndex(indptr=self.indptr.array, users=self.users.array, entries=self.entries.array)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRows:
    """The rows of a round: ``weights``, ``vectors``, ``responses`` and ``total/<release>``, as far as asked.

    Where both are asked for, weights and responses are the columns of one array, ``labels``: whoever sums per item
    looks both up in one place.
    """

    arrays: Mapping[str, SharedArray]

    def shapes(self) -> Shapes:
        """Shape and type of each array."""
        return {name: (shared.shape, shared.dtype) for name, shared in self.arrays.items()}

    def contribution(self, population: SharedCohort) -> Contribution:
        """The rows of all users as one contribution, without copying."""
        arrays = {name: shared.array for name, shared in self.arrays.items()}
        if _BOTH in arrays:
            arrays |= {name: arrays[_BOTH][:, column] for column, name in enumerate(_COLUMNS)}
        totals = {name.removeprefix("total/"): a for name, a in arrays.items() if name.startswith("total/")}
        indptr, items = population.given
        return Contribution(
            n_items=population.n_items,
            indptr=indptr,
            items=items,
            weights=arrays.get("weights"),
            vectors=arrays.get("vectors"),
            responses=arrays.get("responses"),
            totals=totals,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSums:
    """Exact sums over the shared rows; pickles to handles, so every worker can form its own blocks."""

    population: SharedCohort
    index: SharedIndex
    rows: SharedRows
    rejected_rows: int
    backend: str
    noise_shares: ClassVar[int] = 0
    noise_ratio: ClassVar[float] = 1.0
    residue_bits: ClassVar[Mapping[str, int]] = MappingProxyType({})

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' exact sums."""
        sums = FactoredSums(
            contribution=self.rows.contribution(self.population),
            index=self.index.index(),
            backend=self.backend,
        )
        return sums.block(requests, start, stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeRows:
    """Some rows of exact sums, by release name, so that a worker gets those it works on and no others. Secret."""

    first: int
    """Number of the first row."""
    sums: Mapping[str, IntArray]
    rejected_rows: int
    noise_shares: int
    noise_ratio: float
    residue_bits: Mapping[str, int]

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' exact sums."""
        return {r.name: self.sums[r.name][start - self.first : stop - self.first] for r in requests}


def rows_of(sums: ExactSums, requests: Sequence[Request], start: int, stop: int) -> ExactSums:
    """What a worker needs for rows ``start:stop``: handles where all of it is shared, else these rows alone."""
    if isinstance(sums, SharedSums):
        return sums
    return SomeRows(
        first=start,
        sums=sums.block(requests, start, stop),
        rejected_rows=sums.rejected_rows,
        noise_shares=sums.noise_shares,
        noise_ratio=sums.noise_ratio,
        residue_bits=sums.residue_bits,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWork:
    """What every client of a round needs to know: all of it public, but for its own rows."""

    task: ClientTask
    protocol: Trusted
    board_path: str
    population: SharedCohort
    requests: tuple[Request, ...]
    scales: SharedArray | None = None
    """Personal levels of all users, float64; None where everybody gives all of her part."""
    present: SharedArray | None = None
    """Who takes part, bool; None for everybody."""

    def message(self, start: int, stop: int) -> TrustedMessage:
        """The checked message of rows ``start:stop``; the rows of users who do not take part are empty."""
        contribution = given_by(
            self.task,
            self.population.cohort().rows(start, stop),
            loaded_board(self.board_path),
            self.requests,
            present=self.present_rows(start, stop),
            scales=None if self.scales is None else self.scales.array[start:stop],
        )
        return self.protocol.encode(contribution, self.requests)

    def present_rows(self, start: int, stop: int) -> BoolArray | None:
        """Which of rows ``start:stop`` take part; None for all."""
        return None if self.present is None else self.present.array[start:stop]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsDone:
    """What came of a block of users."""

    rejected: int
    sizes: IntArray
    """Bytes that each user who takes part would send, int64."""
    seconds: float
    """CPU time of the block."""


@lru_cache(maxsize=2)
def loaded_board(path: str) -> Board:
    """A board of this run, read once in each process."""
    return Board.load(Path(path))


def shapes_of_rows(requests: Sequence[Request], population: SharedCohort) -> Shapes:
    """Shape and type of every array that the answers to these requests fill."""
    n_users, n_entries = population.indptr.shape[0] - 1, population.items.shape[0]
    short = np.dtype(np.int16).str
    shapes: Shapes = {}
    for request in requests:
        if request.source is SumSource.TOTAL:
            shape = (n_users, request.release.width)
            shapes[f"total/{request.name}"] = (shape, np.dtype(np.int64).str)
        elif request.source is SumSource.ITEM_COUNT:
            shapes["weights"] = ((n_entries,), short)
        elif request.source is SumSource.ITEM_PAIRS:
            shapes["responses"] = ((n_entries,), short)
        elif request.source is SumSource.ITEM_LINEAR:
            shapes[_BOTH] = ((n_entries, len(_COLUMNS)), short)
            shapes["vectors"] = ((n_users, request.release.width), short)
        elif request.source is SumSource.QUADRATIC:
            shapes["vectors"] = ((n_users, packed_rank(request.release.width)), short)
    if _BOTH in shapes:
        return {name: shape for name, shape in shapes.items() if name not in _COLUMNS}
    return shapes


def dense_message(work: ClientWork, start: int, stop: int) -> TrustedMessage:
    """A cohort's message, to be sent back whole."""
    return work.message(start, stop)


def factored_rows(work: ClientWork, rows: SharedRows, start: int, stop: int) -> RowsDone:
    """Write the checked rows of users ``start:stop`` where the aggregator finds them.

    ``encode`` has refused every row that breaks a bound, and the rows are only written here, so the
    aggregator's own check would look at the same numbers again: it is not repeated.
    """
    began = process_time()
    message = work.message(start, stop)
    if not isinstance(message, FactoredMessage):
        raise InputError("factored rows need the factored form of the trusted protocol")
    sent, present = message.contribution, work.present_rows(start, stop)
    indptr = work.population.indptr.array
    entries, users = slice(int(indptr[start]), int(indptr[stop])), slice(start, stop)
    kept = None if present is None else np.repeat(present, np.diff(indptr[start : stop + 1]))
    for name, shared in rows.arrays.items():
        if name.startswith("total/"):
            shared.array[users] = sent.totals[name.removeprefix("total/")]
        elif name == "vectors":
            shared.array[users] = sent.vectors
        elif name == _BOTH:
            for column, part in enumerate(_COLUMNS):
                _lay(getattr(sent, part), shared.array[entries, column], kept)
        else:
            _lay(getattr(sent, name), shared.array[entries], kept)
    sizes = factored_bytes(sent)
    sizes = sizes if present is None else sizes[present]
    return RowsDone(rejected=0, sizes=sizes, seconds=process_time() - began)


def _lay(values: ShortArray, room: ShortArray, kept: BoolArray | None) -> None:
    """Write the entries of the users who take part, and zeros over what others left there in another round."""
    if kept is None:
        room[:] = values
        return
    room[:] = 0
    room[kept] = values
