"""The items of a sharded data set: a Parquet file beside the shards, in the order of their numbers. Public."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import open_private
from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.shards.checking import digest_of, readable
from fedboard.simulations.datasets.shards.manifest import ITEMS, Items

_ID, _TITLE = "item", "title"


def write_catalogue(folder: Path, ids: NDArray[np.str_], titles: tuple[str, ...] | None) -> Items:
    """Write the items, with a title for each or with none at all; returns what the manifest says of them."""
    import pyarrow as pa
    from pyarrow import parquet as arrow_parquet

    columns = {_ID: pa.array(ids.tolist(), pa.string())}
    if titles is not None:
        columns[_TITLE] = pa.array(titles, pa.string())
    with open_private(folder / ITEMS) as stream:
        arrow_parquet.write_table(pa.table(columns), stream, compression="ZSTD")
    return Items(file=ITEMS, sha256=digest_of(folder / ITEMS), count=int(ids.size), titles=titles is not None)


def read_catalogue(folder: Path, told: Items) -> tuple[NDArray[np.str_], tuple[str, ...] | None]:
    """Ids, shape (n_items,), and titles of the items.

    Args:
        folder: of the shards.
        told: what the manifest says of them.

    Raises:
        InputError: the file is missing, damaged, or not the one that the manifest tells of.
    """
    from pyarrow import parquet as arrow_parquet

    file = StoredFile(path=folder / told.file)
    with file.open() as stream, readable(file):
        if digest_of(file.path) != told.sha256:
            raise InputError(
                f"{file.label} is not the file that the manifest tells of (its digest differs): it was cut, "
                "changed, or exchanged; bring back the right one or write the shards again."
            )
        names = [_ID, *([_TITLE] if told.titles else [])]
        opened = arrow_parquet.ParquetFile(stream)
        if any(name not in opened.schema_arrow.names for name in names):
            raise InputError(
                f"{file.label} must have the columns {', '.join(names)}; write the shards again."
            )
        table = opened.read(columns=names)
        columns = [table.column(name).to_pylist() for name in names]
    texts = all(isinstance(cell, str) for column in columns for cell in column)
    if table.num_rows != told.count or not texts or len(set(columns[0])) < told.count:
        raise InputError(
            f"{file.label} must name {told.count} items, each once, in texts; write the shards again."
        )
    ids = np.array(columns[0], dtype=np.str_)
    return ids, tuple(columns[1]) if told.titles else None
