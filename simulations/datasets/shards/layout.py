"""The columns of a shard: one row for each rating, and how pyarrow writes them."""

from typing import Any, Final

USER, KEY, ITEM, VALUE, TIME = "user", "key", "item", "value", "time"
UNTIMED: Final = (USER, KEY, ITEM, VALUE)


def schema_of(*, times: bool) -> Any:
    """The schema of a shard, of pyarrow.

    ``user``: int64, the number of the user among all, from 0. ``key``: uint64, see ``id_keys``; int64 with the same
    bits is read too, since not everybody writes unsigned numbers. ``item``: int32,
    the number of the item in the catalogue. ``value``: float32. ``time``: int64, if they are kept. Item, value and
    time are empty in the one row of a user who has no rating, and nowhere else.

    Args:
        times: whether they are kept.
    """
    import pyarrow as pa

    columns = [
        pa.field(USER, pa.int64(), nullable=False),
        pa.field(KEY, pa.uint64(), nullable=False),
        pa.field(ITEM, pa.int32()),
        pa.field(VALUE, pa.float32()),
    ]
    return pa.schema([*columns, *([pa.field(TIME, pa.int64())] if times else [])])


def written_as(*, times: bool) -> dict[str, Any]:
    """Arguments of ``pyarrow.parquet.ParquetWriter``: some three bytes a rating, and 10 ns to read it.

    User numbers ascend by 0 or 1 and are kept as differences, keys and values are few in a row group; packing only
    pays for times, which are read only where a split asks for them.

    Args:
        times: whether they are kept.
    """
    return {
        "use_dictionary": [KEY, ITEM, VALUE],
        "column_encoding": {USER: "DELTA_BINARY_PACKED", **({TIME: "PLAIN"} if times else {})},
        "compression": {USER: "NONE", KEY: "NONE", ITEM: "NONE", VALUE: "NONE", TIME: "ZSTD"},
        "dictionary_pagesize_limit": 1 << 23,
    }
