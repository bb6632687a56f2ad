"""Ratings of some users, all of each, sorted by user and item: what is read so, and written to shards.

Rows of ratings on a workbench: checked, users and items numbered, sorted; the way that every source goes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import printable
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.reader import Rows, Which
from fedboard.simulations.data.workbench import Workbench, first_line_of, quoted


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SortedUsers:
    """Ratings of some users, all of each, sorted by user and item. Private."""

    keys: BitArray
    """uint64, shape (n_users,), see ``id_keys``; empty where they were not asked."""
    ends: IntArray
    """int64, shape (n_users + 1,), from 0: where the ratings of each begin and end; some may have none."""
    items: IndexArray
    """int32, shape (n_ratings,); empty where they were not asked, as the next."""
    values: Float32Array
    """float32, shape (n_ratings,)."""
    times: IntArray | None
    """int64, shape (n_ratings,); None: not kept, or not asked."""

    @property
    def counts(self) -> IntArray:
        """How many ratings each has, int64, shape (n_users,)."""
        return np.diff(self.ends)

    def some(self, start: int, stop: int) -> "SortedUsers":
        """Users ``start:stop`` of these, as views."""
        first, last = int(self.ends[start]), int(self.ends[stop])
        return SortedUsers(
            keys=self.keys[start:stop],
            ends=self.ends[start : stop + 1] - first,
            items=self.items[first:last],
            values=self.values[first:last],
            times=None if self.times is None else self.times[first:last],
        )

    @staticmethod
    def joined(parts: "list[SortedUsers]") -> "SortedUsers":
        """All of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        times = [part.times for part in parts if part.times is not None]
        return SortedUsers(
            keys=np.concatenate([np.zeros(0, np.uint64), *(part.keys for part in parts)]),
            ends=ends_of(np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])),
            items=np.concatenate([np.zeros(0, np.int32), *(part.items for part in parts)]),
            values=np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
            times=np.concatenate(times) if times else None,
        )


def ends_of(counts: IntArray) -> IntArray:
    """Where each of so many begins and ends, int64, shape (n + 1,), from 0."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def cut(sizes: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Cut what stands in a row into pieces of at most so much; what alone is more is a piece of its own.

    Args:
        sizes: int64, shape (n,), >= 0.
        most: >= 1.

    Yields:
        Bounds (first, one past the last), one piece after the other; none is empty.
    """
    ends, start = ends_of(sizes), 0
    while start < sizes.size:
        within = int(np.searchsorted(ends, ends[start] + most, side="right")) - 1
        stop = max(within, start + 1)
        yield start, stop
        start = stop


_TEXTS_AT_ONCE = 1 << 17
_PLAIN = "regexp_full_match({0}, '0|[1-9][0-9]*')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The items there are, by a public list."""

    titles: dict[str, str]
    """Item id to title, which may be empty."""
    rated_only: bool
    """Whether the numbering leaves out items that nobody rated."""


class SortedRows:
    """The rows of a source, checked and numbered, as sorted users. Private.

    Order: users and items by their ids, whole numbers by value (also where texts are plain whole numbers, all of
    them), texts by their characters; rows of one pair in the order of the file.
    """

    def __init__(
        self, bench: Workbench, rows: Rows, *, label: str, scale: tuple[float, float], listed: Listed | None
    ) -> None:
        """Read all rows, check them, number users and items.

        Args:
            bench: of this source alone.
            rows: of it.
            label: how messages call it.
            scale: lowest and highest rating.
            listed: the items there are; None: those that occur.

        Raises:
            InputError: there is no rating, or one that cannot be used; names its row.
        """
        import duckdb

        self._bench, self._rows, self._label, self._read = bench, rows, label, "read"
        self._scale, self._listed_apart = scale, listed is not None and not listed.rated_only
        self._table = rows.read(bench)
        self.timed = "given" in self._table.columns
        values = ", ".join(f"{column.value} AS {role}" for role, column in self._table.columns.items())
        try:
            bench.query(f"CREATE TABLE read AS SELECT {values} FROM {self._table.source}")
        except duckdb.Error as error:
            raise InputError(rows.broken(first_line_of(error))) from error
        self._require_cells()
        self._keep_ratings()
        self._require_scale()
        self._number("user")
        self._number("item")
        self.item_ids, self.titles = self._listed(listed)

    def _require_cells(self) -> None:
        """See that no cell is missing or of another kind than it must be."""
        if self._bench.one(f"SELECT count(*) FROM {self._read}") == 0:
            raise InputError(
                f"{self._label} has a header but no ratings; give a file with at least one rating."
            )
        wrong = {role: f"{role} IS NULL" for role in self._table.columns}
        for role in ("user_id", "item_id"):
            if self._is_text(role):
                wrong[role] += f" OR {role} = '' OR contains({role}, chr(65533))"
        row = self._first(" OR ".join(wrong.values()))
        if row is None:
            return
        told = ", ".join(f"({condition})" for condition in wrong.values())
        is_wrong = self._bench.query(f"SELECT {told} FROM read WHERE rowid = {row}")[0]
        column = next(c for c, bad in zip(self._table.columns.values(), is_wrong, strict=True) if bad)
        cell = self._bench.one(f"SELECT {column.cell} FROM {self._table.source} LIMIT 1 OFFSET {row}")
        if cell is None or cell == "":
            fault = f"the {column.name} is empty"
        elif "\ufffd" in cell:
            fault = f"the {column.name} is not UTF-8 text"
        else:
            fault = f"{column.name} {cell[:40]!r} {column.wrong}"
        raise InputError(f"{self._rows.locate(row)}: {fault}; correct or remove it.")

    def _is_text(self, cell: str) -> bool:
        kind = self._bench.one(f"SELECT typeof({cell}) FROM read LIMIT 1")
        return str(kind) == "VARCHAR"

    def _first(self, condition: str) -> int | None:
        """The first row of which this is true."""
        found = self._bench.one(f"SELECT min(rowid) FROM {self._read} WHERE {condition}")
        return None if found is None else int(found)

    def _keep_ratings(self) -> None:
        """Leave out what is no rating; counts become presence."""
        which = self._rows.which
        if which is Which.ALL:
            return
        if which is Which.USED and (row := self._first("NOT rating >= 0 OR isnan(rating)")) is not None:
            raise InputError(f"{self._rows.locate(row)}: the count is negative or NaN; correct it.")
        if self._first("rating <> 0") is None:
            what, verb = ("count", "used") if which is Which.USED else ("rating", "rated")
            raise InputError(
                f"{self._rows.locate(0)}: this {what} and all others are 0; give a file where something is {verb}."
            )
        value = "1::FLOAT" if which is Which.USED else "rating"
        self._read = f"(SELECT rowid, * REPLACE ({value} AS rating) FROM read WHERE rating <> 0)"

    def _require_scale(self) -> None:
        scale = self._scale
        low, high = (float(np.float32(bound)) for bound in scale)
        row = self._first(f"NOT rating BETWEEN {low!r} AND {high!r}")
        if row is None:
            return
        value = self._bench.one(f"SELECT rating FROM read WHERE rowid = {row}")
        allowed = f"{scale[0]:g} to {scale[1]:g}"
        where = self._rows.locate(row)
        if np.isnan(value):
            raise InputError(
                f"{where}: the rating is NaN; ratings must be {allowed}, correct or remove the line."
            )
        raise InputError(
            f"{where}: rating {value:g} is outside the public rating range {allowed}; "
            "correct the rating or declare the true range."
        )

    def _number(self, role: str) -> None:
        """A table ``users`` or ``items`` of distinct ids in order, each with its number."""
        self._bench.query(
            f"CREATE TABLE distinct_{role} AS SELECT DISTINCT {role}_id AS id FROM {self._read}"
        )
        order = "id"
        if self._is_text(f"{role}_id"):
            plain = self._bench.one(f"SELECT bool_and({_PLAIN.format('id')}) FROM distinct_{role}")
            order = "length(id), id" if plain else "id"
        self._bench.query(
            f"CREATE TABLE {role}s AS SELECT id, (row_number() OVER (ORDER BY {order}) - 1)::INTEGER AS number "
            f"FROM distinct_{role} ORDER BY {order}; DROP TABLE distinct_{role}"
        )

    def _listed(self, listed: Listed | None) -> tuple[NDArray[np.str_], tuple[str, ...] | None]:
        """Ids of the catalogue, and titles where there is a list; ``items`` is numbered by it."""
        found = self._ids("item").astype(np.str_)
        if listed is None:
            return found, None
        import pyarrow as pa

        unknown = [item for item in found.tolist() if item not in listed.titles]
        if unknown:
            texts = ", ".join(map(quoted, unknown))
            row = self._first(f"item_id::VARCHAR IN ({texts})")
            assert row is not None  # each of them occurs
            item = self._bench.one(f"SELECT item_id::VARCHAR FROM read WHERE rowid = {row}")
            raise InputError(
                f"{self._rows.locate(row)}: unknown item id {item!r}; "
                "every item must be in the file of titles, add it there or remove the line."
            )
        ids = found
        if not listed.rated_only:
            names = list(listed.titles)
            ids = np.array([names[position] for position in id_order(names)], dtype=np.str_)
            numbers = pa.table({"id": ids.tolist(), "number": np.arange(ids.size, dtype=np.int32)})
            given = self._bench.register(numbers)
            self._bench.query(
                f"CREATE OR REPLACE TABLE items AS SELECT items.id, {given}.number FROM items JOIN {given} "
                f"ON items.id::VARCHAR = {given}.id"
            )
        return ids, tuple(listed.titles[item] or f"item {item}" for item in ids.tolist())

    def _ids(self, role: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Ids by number: int64, or text where they are that."""
        within = "" if stop is None else f"WHERE number >= {start} AND number < {stop}"
        sql = f"SELECT id FROM {role}s {within} ORDER BY number"
        return np.concatenate([_array(batch.column(0)) for batch in self._bench.arrow(sql)])

    @cached_property
    def user_ids(self) -> NDArray[Any]:
        """Shape (n_users,): the ids, ascending; int64 or text."""
        return self._ids("user")

    @cached_property
    def n_rows(self) -> int:
        """How many there are, those of repeated pairs among them."""
        return int(self._bench.one(f"SELECT count(*) FROM {self._read}"))

    def ratings(self, *, name: str) -> Ratings:
        """All of them, in memory.

        Args:
            name: of the data set. Public.

        Raises:
            InputError: as of ``users``.
        """
        users, items = np.empty(self.n_rows, np.int32), np.empty(self.n_rows, np.int32)
        values, times = np.empty(self.n_rows, np.float32), np.empty(self.n_rows * self.timed, np.int64)
        first, start = 0, 0
        for some in self.users(keys=False):
            stop = start + some.items.size
            users[start:stop] = np.repeat(np.arange(first, first + some.counts.size), some.counts)
            items[start:stop], values[start:stop] = some.items, some.values
            if some.times is not None:
                times[start:stop] = some.times
            first, start = first + some.counts.size, stop
        return Ratings(
            users=users[:start],
            items=items[:start],
            values=values[:start],
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            titles=self.titles,
            rating_range=self._scale,
            name=name,
            times=times[:start] if self.timed else None,
            items_listed=self._listed_apart,
        )

    def users(self, *, keys: bool) -> Iterator[SortedUsers]:
        """All users in order, some at a time, all rows of each.

        Args:
            keys: whether with the key of each, see ``id_keys``.

        Raises:
            InputError: a pair occurs twice that must not.
        """
        times, rest = ", given" if self.timed else "", None
        order = (", given" * self.timed + ", rating") * self._rows.repeats
        sql = (
            f"SELECT users.number AS u, items.number AS i, rating{times} FROM {self._read} AS read "
            f"JOIN users ON read.user_id = users.id JOIN items ON read.item_id = items.id ORDER BY u, i{order}"
        )
        for batch in self._bench.arrow(sql):
            columns = [np.asarray(column) for column in batch.columns]
            columns = (
                columns
                if rest is None
                else [np.concatenate(pair) for pair in zip(rest, columns, strict=True)]
            )
            last = int(np.searchsorted(columns[0], columns[0][-1]))  # the last user may have more rows
            rest = [column[last:] for column in columns]
            if last:
                yield self._sorted([column[:last] for column in columns], keys=keys)
        if rest is not None:
            yield self._sorted(rest, keys=keys)

    def _sorted(self, columns: list[NDArray[Any]], *, keys: bool) -> SortedUsers:
        users, items, values, *times = columns
        same = (users[1:] == users[:-1]) & (items[1:] == items[:-1])
        if same.any():
            if not self._rows.repeats:
                self._refuse_repeated()
            kept = np.append(~same, True)  # they stand by time, then by value
            users, items, values, *times = (column[kept] for column in columns)
        first, stop = int(users[0]), int(users[-1]) + 1
        return SortedUsers(
            keys=id_keys(self._ids("user", first, stop).tolist(), Kind.USER)
            if keys
            else np.zeros(0, np.uint64),
            ends=ends_of(np.bincount(users - first, minlength=stop - first)),
            items=items,
            values=values,
            times=times[0] if times else None,
        )

    def _refuse_repeated(self) -> None:
        """Say where a pair stands for the second time."""
        again = (
            "SELECT rowid AS row, row_number() OVER (PARTITION BY user_id, item_id ORDER BY rowid) AS occurs "
        )
        row = self._bench.one(f"SELECT min(row) FROM ({again} FROM {self._read}) WHERE occurs > 1")
        ((user, item),) = self._bench.query(f"SELECT user_id, item_id FROM read WHERE rowid = {row}")
        raise InputError(
            f"{self._rows.locate(int(row))}: user {printable(user)} has already rated item {printable(item)}; "
            "keep one rating per user and item."
        )


def _array(column: Any) -> NDArray[Any]:
    """A pyarrow array of whole numbers as int64, or of texts as text; some of them are objects at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        return np.asarray(column, dtype=np.int64)
    longest = max(int(pc.max(pc.utf8_length(column)).as_py()), 1)
    found = np.empty(len(column), dtype=f"<U{longest}")
    for start in range(0, len(column), _TEXTS_AT_ONCE):
        part = column[start : start + _TEXTS_AT_ONCE]
        found[start : start + len(part)] = part.to_pylist()
    return found


def id_order(words: list[str]) -> list[int]:
    """Positions that sort ids: by number when all are plain whole numbers (so 9 before 10), else as text."""
    if all(word.isascii() and word.isdigit() and (word == "0" or word[0] != "0") for word in words):
        return sorted(range(len(words)), key=lambda position: int(words[position]))
    return sorted(range(len(words)), key=words.__getitem__)
