"""The ratings of many users on one machine: what a gateway (a hospital, a household, a test node) answers from.

A folder of plain arrays, memory-mapped: ``indptr.npy`` (int64), ``items.npy`` (int32), ``ratings.npy`` (float32)
as in ``fedboard.common.cohort.Cohort``, ``user_keys.npy`` (uint64) where the cohort has keys of its users, and
``cohort.json`` with the item ids that the item numbers stand for.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import make_private_folder, open_private, write_private
from fedboard.client.recommending.recommend import rating_range_of
from fedboard.common.arrays import NOT_ARRAYS, ascends
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.errors import InputError

_FORMAT = 1
_DTYPES: dict[str, np.dtype[Any]] = {
    "indptr": np.dtype(np.int64),
    "items": np.dtype(np.int32),
    "ratings": np.dtype(np.float32),
}
_KEYS = "user_keys"


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: int
    item_ids: tuple[str, ...]
    first_row: int = 0
    user_keys: bool = False


class CohortFile:
    """A folder with the ratings of many users, open for reading."""

    def __init__(self, cohort: Cohort, item_ids: tuple[str, ...]) -> None:
        """Use ``CohortFile.open``."""
        self._cohort = cohort
        self._item_ids = item_ids

    @classmethod
    def open(cls, folder: Path, *, first_row: int | None = None) -> "CohortFile":
        """Map a folder written by ``write_cohort``.

        Args:
            folder: the place.
            first_row: number of its first user in the population; default: what the folder says. Public.

        Raises:
            InputError: a file is missing, damaged, or its numbers make no sense.
        """
        header = _read_header(folder)
        indptr, items, ratings = (_read_array(folder, name, dtype) for name, dtype in _DTYPES.items())
        keys = _read_array(folder, _KEYS, np.dtype(np.uint64)) if header.user_keys else None
        try:
            cohort = Cohort(
                indptr=indptr,
                items=items,
                ratings=ratings,
                n_items=len(header.item_ids),
                first_row=header.first_row if first_row is None else first_row,
                user_keys=keys,
            )
            _require_sound(cohort)
        except InputError as error:
            raise InputError(f"{folder}: {error}; write the folder again") from None
        return cls(cohort, header.item_ids)

    @property
    def n_users(self) -> int:
        """Number of users. The server accepts at most what it admitted the node for."""
        return self._cohort.n_users

    def cohort(self, board: Board) -> Cohort:
        """All users' rows in a board's catalogue; ratings that it cannot use are left out. Private."""
        low, high = rating_range_of(board) or (-np.inf, np.inf)
        own = self._cohort
        if board.catalogue.item_ids != self._item_ids:
            own = self._renumbered(board.catalogue.item_ids)
        usable = (own.ratings >= low) & (own.ratings <= high)
        return own if usable.all() else own.where(usable)

    def _renumbered(self, item_ids: tuple[str, ...]) -> Cohort:
        numbers = {item_id: number for number, item_id in enumerate(item_ids)}
        new = np.array([numbers.get(item_id, -1) for item_id in self._item_ids], dtype=np.int32)
        items = new[self._cohort.items]
        known = items >= 0
        renumbered = cohort_from_triples(
            self._cohort.user_of_entry()[known],
            items[known],
            self._cohort.ratings[known],
            n_users=self._cohort.n_users,
            n_items=len(item_ids),
        )
        own = self._cohort
        return replace(renumbered, first_row=own.first_row, user_keys=own.user_keys)


def write_cohort(folder: Path, cohort: Cohort, item_ids: tuple[str, ...]) -> None:
    """Write a folder that ``CohortFile.open`` reads.

    Args:
        folder: made if it is missing; it and its files are readable by their owner alone, also if they were
            not before.
        cohort: its ``first_row`` and the keys of its users are kept. Private.
        item_ids: the id of each item number. Public.

    Raises:
        InputError: ids and numbers do not fit together, or the cohort is not sound.
    """
    if len(item_ids) != cohort.n_items or len(set(item_ids)) != len(item_ids):
        raise InputError(f"a cohort of {cohort.n_items} items needs as many item ids, all different")
    whole = cohort.rows(0, cohort.n_users)
    _require_sound(whole)
    make_private_folder(folder)
    for name, dtype in _DTYPES.items():
        with open_private(folder / f"{name}.npy") as stream:
            np.save(stream, np.ascontiguousarray(getattr(whole, name), dtype=dtype))
    if whole.user_keys is not None:
        with open_private(folder / f"{_KEYS}.npy") as stream:
            np.save(stream, np.ascontiguousarray(whole.user_keys, dtype=np.uint64))
    header = _Header(
        format=_FORMAT,
        item_ids=tuple(item_ids),
        first_row=cohort.first_row,
        user_keys=whole.user_keys is not None,
    )
    write_private(folder / "cohort.json", msgspec.json.encode(header))


def _read_header(folder: Path) -> _Header:
    try:
        header = msgspec.json.decode((folder / "cohort.json").read_bytes(), type=_Header)
    except OSError as error:
        raise InputError(f"{folder}: no cohort can be read there ({error.strerror})") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{folder}: cohort.json cannot be read ({error}); write the folder again") from None
    if header.format != _FORMAT:
        raise InputError(
            f"{folder}: a cohort of format {header.format}; this version of fedboard reads {_FORMAT}"
        )
    if len(set(header.item_ids)) != len(header.item_ids):
        raise InputError(f"{folder}: an item id is listed twice; write the folder again")
    return header


def _read_array(folder: Path, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    place = folder / f"{name}.npy"
    try:
        array: NDArray[Any] = np.load(place, mmap_mode="r", allow_pickle=False)
    except NOT_ARRAYS as error:
        raise InputError(f"{place}: cannot be read; write the folder again") from error
    if array.ndim != 1 or array.dtype != dtype:
        raise InputError(f"{place}: must be one column of {dtype}; write the folder again")
    return array


def _require_sound(cohort: Cohort) -> None:
    """Refuse what compiled kernels would read out of place; says no number of anybody's.

    Raises:
        InputError: which rule is broken.
    """
    indptr, items = cohort.indptr, cohort.items
    if cohort.first_row < 0:
        raise InputError("first_row must be >= 0")
    if indptr[0] != 0 or indptr[-1] != items.size or not ascends(indptr):
        raise InputError("indptr must ascend from 0 to the number of ratings")
    if items.size and (items.min() < 0 or items.max() >= cohort.n_items):
        raise InputError("items must be numbers of the listed item ids")
    ascending = np.diff(items) > 0
    inner = indptr[(indptr > 0) & (indptr < items.size)]
    ascending[inner - 1] = True  # from one row to the next anything goes
    if not ascending.all():
        raise InputError("items must ascend within a row, each once")
    if not np.isfinite(cohort.ratings).all():
        raise InputError("ratings must be finite numbers")
