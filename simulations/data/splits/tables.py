"""A split as tables, by the ids of the file: for models of other packages, on the very rows of a run. Private."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import make_private_folder, open_private, write_private
from fedboard.common.arrays import Float32Array, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.splits.parts import HeldOut, RatingSplit, UserSplit

if TYPE_CHECKING:
    from pyarrow import Table

RECORD = "split.json"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SplitTables:
    """What a run learns from and is judged on: tables of pyarrow with columns ``user``, ``item``, ``rating``."""

    train: "Table"
    """What the board is learnt from. Of lists all ratings are 1.0."""
    validation: "Table"
    """For choosing settings; of lists what is to be found."""
    test: "Table"
    """For the reported result; of lists what is to be found."""
    validation_known: "Table | None" = None
    """Of lists: what a model may look at of the users of ``validation``. None where ratings are predicted."""
    test_known: "Table | None" = None
    """Of lists: what a model may look at of the users of ``test``. Where ratings are predicted, fedboard looks at
    training and validation rows."""

    def __iter__(self) -> Iterator[tuple[str, "Table"]]:
        """Name and table of each part that there is."""
        return ((one.name, part) for one in fields(self) if (part := getattr(self, one.name)) is not None)

    def __repr__(self) -> str:
        """One line, with nobody's ratings."""
        return f"<Split: {', '.join(f'{name} {part.num_rows:,} rows' for name, part in self)}>"


def split_tables(
    split: RatingSplit | UserSplit, user_ids: NDArray[Any], item_ids: tuple[str, ...]
) -> SplitTables:
    """A split by ids.

    Args:
        split: of a problem. Private.
        user_ids: shape (n_users,), as the file has them. Private.
        item_ids: of the catalogue.
    """
    import pyarrow as pa

    items = np.array(item_ids, dtype=np.str_)

    def table(users: IndexArray, rated: IndexArray, values: Float32Array) -> "Table":
        return pa.table({"user": user_ids[users], "item": items[rated], "rating": values})

    def of_cohort(rows: Cohort, users: IndexArray | None = None) -> "Table":
        own = rows.user_of_entry()
        return table(own if users is None else users[own], rows.items, rows.ratings)

    def of_lists(part: HeldOut) -> tuple["Table", "Table"]:
        return of_cohort(part.target, part.users), of_cohort(part.history, part.users)

    if isinstance(split, RatingSplit):
        validation, test = (
            table(part.users, part.items, part.values) for part in (split.validation, split.test)
        )
        return SplitTables(train=of_cohort(split.train), validation=validation, test=test)
    (validation, validation_known), (test, test_known) = of_lists(split.validation), of_lists(split.test)
    return SplitTables(
        train=of_cohort(split.train),
        validation=validation,
        test=test,
        validation_known=validation_known,
        test_known=test_known,
    )


def write_split(tables: SplitTables, folder: Path, told: dict[str, Any]) -> list[Path]:
    """Write each part as Parquet and as CSV, and how it came about, for their owner alone.

    Args:
        tables: private.
        folder: new, or empty.
        told: what made this split; goes to ``split.json`` with the number of rows.

    Raises:
        InputError: there is something else in the folder, or it cannot be made.
    """
    from pyarrow import csv, parquet

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is in use; give another --out, a folder that is new or empty")
    try:
        make_private_folder(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); give another --out") from error
    written = []
    for name, table in tables:
        for suffix, write in ((".parquet", parquet.write_table), (".csv", csv.write_csv)):
            written.append(folder / f"{name}{suffix}")
            with open_private(written[-1]) as stream:
                write(table, stream)
    told = {**told, "rows": {name: table.num_rows for name, table in tables}}
    write_private(folder / RECORD, msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
    return [*written, folder / RECORD]
