"""Formats that are numbered already: NumPy archives, and shards read whole.

Of an archive (user, item, rating, test_user, ..., item_id)

User numbers and item numbers are kept as they are; ``item_id`` is the public catalogue.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import NOT_ARRAYS
from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.named import MANIFEST
from fedboard.simulations.data.ratings import Ratings, Triples, check_values
from fedboard.simulations.data.reader import Asked, Reader, by_name
from fedboard.simulations.data.shards import open_shards

_TRAIN, _TEST = ("user", "item", "rating"), ("test_user", "test_item", "test_rating")


def _read(file: StoredFile, asked: Asked) -> Ratings:
    """Read ratings that are already numbered.

    Raises:
        InputError: a broken file, a missing or misshapen array, a number out of range, a repeated pair.
    """
    path, rating_range, titles = file.path, asked.rating_range, asked.titles
    arrays = _load(path)
    item_ids = np.array([str(item) for item in arrays["item_id"].tolist()], dtype=np.str_)
    last_user = max(int(arrays[name].max()) for name in ("user", "test_user") if name in arrays)
    shape = (last_user + 1, item_ids.size)
    train = _triples(path, arrays, _TRAIN, shape, rating_range)
    test = _triples(path, arrays, _TEST, shape, rating_range) if _TEST[0] in arrays else None
    if test is not None:
        _require_disjoint(path, train, test, item_ids.size)
    return Ratings(
        users=train.users,
        items=train.items,
        values=train.values,
        user_ids=np.arange(shape[0], dtype=np.int64),
        item_ids=item_ids,
        titles=None if titles is None else _titles(path, item_ids, titles),
        rating_range=rating_range,
        name=path.stem,
        items_listed=True,
        test=test,
    )


def _titles(path: Path, item_ids: NDArray[np.str_], titles: dict[str, str]) -> tuple[str, ...]:
    """A title for each item.

    Raises:
        InputError: one is not listed.
    """
    for row, item in enumerate(item_ids.tolist()):
        if item not in titles:
            raise InputError(
                f"{path}, item_id {row}: unknown item id {item!r}; every item must be in the file of titles, "
                "add it there or remove the line."
            )
    return tuple(titles[item] or f"item {item}" for item in item_ids.tolist())


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file, checked for name, shape and kind."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in (*_TRAIN, *_TEST, "item_id") if name in stored.files}
    except NOT_ARRAYS as error:
        raise InputError(
            f"{path} is not a readable npz file; write it again with numpy.savez_compressed."
        ) from error
    wanted = (*_TRAIN, "item_id", *(_TEST if any(name in arrays for name in _TEST) else ()))
    for name in wanted:
        if name not in arrays:
            raise InputError(f"{path}: there is no array {name!r}; it needs {', '.join(wanted)}.")
        if arrays[name].size == 0:
            raise InputError(f"{path}: the array {name!r} is empty; give at least one entry.")
        kinds = "iuU" if name == "item_id" else "iuf" if name.endswith("rating") else "iu"
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in kinds:
            raise InputError(f"{path}: the array {name!r} must be one column of numbers; write it again.")
    return arrays


def _triples(
    path: Path,
    arrays: dict[str, NDArray[Any]],
    names: tuple[str, str, str],
    shape: tuple[int, int],
    rating_range: tuple[float, float],
) -> Triples:
    """One part, checked and sorted."""
    user, item, rating = (arrays[name] for name in names)
    if not user.size == item.size == rating.size:
        raise InputError(f"{path}: the arrays {', '.join(names)} differ in length; write them again.")

    def locate(row: int) -> str:
        return f"{path}, row {row + 1} of {names[0]}, {names[1]}, {names[2]}"

    for kind, numbers, bound in (("user", user, shape[0]), ("item", item, shape[1])):
        if numbers.size and (numbers.min() < 0 or numbers.max() >= bound):
            row = int(np.argmax((numbers < 0) | (numbers >= bound)))
            raise InputError(
                f"{locate(row)}: unknown {kind} number {numbers[row]}; it must be 0 to {bound - 1}."
            )
    values = rating.astype(np.float32, copy=False)
    check_values(values, rating_range, locate)
    users, items = user.astype(np.int32, copy=False), item.astype(np.int32, copy=False)
    pairs = users.astype(np.int64) * shape[1] + items
    if np.all(pairs[1:] > pairs[:-1]):
        return Triples(users=users, items=items, values=values)
    order = np.argsort(pairs, kind="stable")
    repeated = pairs[order[1:]] == pairs[order[:-1]]
    if repeated.any():
        row = int(order[1:][repeated].min())
        raise InputError(
            f"{locate(row)}: user {users[row]} has already rated item {items[row]}; "
            "keep one rating per user and item."
        )
    return Triples(users=users.take(order), items=items.take(order), values=values.take(order))


def _require_disjoint(path: Path, train: Triples, test: Triples, n_items: int) -> None:
    """Refuse a test pair that is also in the training part: it would make every result too good."""
    keys = train.users.astype(np.int64) * n_items + train.items
    wanted = test.users.astype(np.int64) * n_items + test.items
    places = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    shared = np.flatnonzero(keys[places] == wanted)
    if shared.size:
        user, item = test.users[shared[0]], test.items[shared[0]]
        raise InputError(
            f"{path}: user {user} and item {item} are in the training and in the test part; "
            "remove the pair from one of them."
        )


def _of_manifest(file: StoredFile) -> Reader:
    """The reader with what the manifest says.

    Raises:
        InputError: it is in an archive, or no manifest.
    """
    if file.member is not None:
        raise InputError(f"{file.label}: shards are read from a folder; unpack the archive.")
    shards = open_shards(file.path.parent)
    return replace(
        SHARDS,
        rating_range=shards.rating_range,
        presence=shards.presence,
        lists_items=shards.items_listed,
        times=shards.has_times,
    )


def _read_shards(file: StoredFile, asked: Asked) -> Ratings:
    """Read all shards. Users are numbered and have the keys of the stream; their ids are not in the shards.

    Raises:
        InputError: they cannot be read, or do not say when.
    """
    shards = open_shards(file.path.parent)
    everybody = shards.read(0, shards.n_users)
    return Ratings(
        users=everybody.user_of_entry(),
        items=everybody.items,
        values=everybody.ratings,
        user_ids=np.arange(shards.n_users, dtype=np.int64),
        item_ids=shards.item_ids,
        titles=shards.titles,
        rating_range=shards.rating_range,
        name=shards.name,
        items_listed=shards.items_listed,
        presence=shards.presence,
        times=shards.times(0, shards.n_users) if asked.times else None,
        keys=everybody.user_keys,
    )


SHARDS = Reader(
    name="shards",
    what="a sharded data set that `fedboard data shard` has made",
    given_as="the folder, or its `shards.json`",
    read=_read_shards,
    recognises=by_name(MANIFEST),
    file_name=MANIFEST,
    of_file=_of_manifest,
    whole=True,
)
READERS = (
    Reader(
        name="npz",
        what="a NumPy archive",
        given_as="the `.npz` with `user`, `item` (whole numbers from 0), `rating`, `item_id` (and `test_user`, "
        "`test_item`, `test_rating`)",
        read=_read,
        recognises=by_name(".npz"),
        rating_range=(1.0, 5.0),
        lists_items=True,
        whole=True,
    ),
    SHARDS,
)
