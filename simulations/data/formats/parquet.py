"""Parquet files, their columns named by a mapping; of a folder all that Spark calls a part, as one table."""

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.formats.text import require_columns
from fedboard.simulations.data.reader import Asked, Looks, Reader, Rows, Table, plain_columns
from fedboard.simulations.data.workbench import Workbench

_MAGIC = b"PAR1"
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NUMBERS = (*_WHOLE, "FLOAT", "DOUBLE", "DECIMAL", "HUGEINT", "BOOLEAN")
_DATES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")


def _recognises(looks: Looks) -> bool:
    """By its ending or its first bytes."""
    return looks.file.suffix == ".parquet" or looks.head.startswith(_MAGIC)


def _read(file: StoredFile, asked: Asked) -> Rows:
    """The rows of all files; ids are whole numbers or text, ratings any numbers."""
    files, counts = asked.files or (file,), list[int]()

    def locate(row: int) -> str:
        for one, here in zip(files, counts, strict=True):
            if row < here:
                return f"{one.label}, row {row + 1}"
            row -= here
        return files[-1].label

    return Rows(
        read=lambda bench: _table(bench, files, asked.mapping, counts),
        locate=locate,
        broken=lambda reason: f"{files[0].label} is not a readable Parquet file ({reason}); write it again.",
    )


def _table(
    bench: Workbench, files: tuple[StoredFile, ...], mapping: ColumnMapping, counts: list[int]
) -> Table:
    """Some files as one table; how many rows each has goes to ``counts``.

    Raises:
        InputError: no Parquet file, a missing column, a column of the wrong type, files that are not alike, or none
            that has rows.
    """
    first, statements = None, []
    for file in files:
        path = bench.path(file)
        kinds = kinds_of(bench, file, path)
        require_columns(file.label, list(kinds), mapping)
        counts.append(int(bench.one(f"SELECT num_rows FROM parquet_file_metadata({path})")))
        found = tuple(kinds[name] in _WHOLE for name in (mapping.user, mapping.item))
        if first is not None and found != first:
            raise InputError(
                f"{file.label}: its ids are whole numbers and those of {files[0].label} texts, or the other way "
                "round; write all files alike."
            )
        first = found
        cells = [
            f"{id_of(file, mapping.user, kinds)} AS user_id",
            f"{id_of(file, mapping.item, kinds)} AS item_id",
            f"{rating_of(file, mapping.rating, kinds)} AS rating",
        ]
        if mapping.time is not None:
            cells.append(f"{when_of(file, mapping.time, kinds)} AS given")
        statements.append(f"SELECT {', '.join(cells)} FROM read_parquet({path})")
    if not sum(counts):
        beside = " and the files beside it have" if len(files) > 1 else " has columns but"
        raise InputError(f"{files[0].label}{beside} no ratings; give a file with at least one rating.")
    return Table(source=f"({' UNION ALL '.join(statements)})", columns=plain_columns(timed=len(cells) == 4))


def kinds_of(bench: Workbench, file: StoredFile, path: str) -> dict[str, str]:
    """Name to duckdb's type of each column of a file.

    Raises:
        InputError: it is no Parquet file.
    """
    import duckdb

    try:
        found = bench.query(f"DESCRIBE SELECT * FROM read_parquet({path})")
    except duckdb.Error as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file.label} is not a readable Parquet file ({reason}); write it again."
        ) from error
    return {str(name): str(kind).partition("(")[0] for name, kind, *_ in found}


def column(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def id_of(file: StoredFile, name: str, kinds: dict[str, str]) -> str:
    """SQL for an id.

    Raises:
        InputError: the column holds neither whole numbers nor text.
    """
    kind = kinds[name]
    if kind not in (*_WHOLE, "VARCHAR", "ENUM"):
        raise InputError(
            f"{file.label}: the ids in {name!r} are {kind.lower()}; they must be whole numbers or text, "
            "convert the column."
        )
    return f"{column(name)}::{'BIGINT' if kind in _WHOLE else 'VARCHAR'}"


def rating_of(file: StoredFile, name: str, kinds: dict[str, str]) -> str:
    """SQL for a rating.

    Raises:
        InputError: the column holds no numbers.
    """
    if kinds[name] not in _NUMBERS:
        raise InputError(
            f"{file.label}: the ratings in {name!r} are {kinds[name].lower()}, not numbers; convert the column."
        )
    return f"{column(name)}::FLOAT"


def when_of(file: StoredFile, name: str, kinds: dict[str, str]) -> str:
    """SQL for a time.

    Raises:
        InputError: the column holds no times.
    """
    kind = kinds[name]
    if kind in _DATES:
        return f"floor(epoch({column(name)}))::BIGINT"
    if kind not in _NUMBERS:
        raise InputError(
            f"{file.label}: the times in {name!r} are {kind.lower()}; they must be numbers, dates or timestamps, "
            "convert the column."
        )
    return f"{column(name)}::BIGINT" if kind in _WHOLE else f"try_cast(floor({column(name)}) AS BIGINT)"


READERS = (
    Reader(
        name="parquet",
        what="any Parquet table",
        given_as="the file, or a folder of `part-*.parquet`, with `data.columns` and `data.rating_range`",
        read=_read,
        recognises=_recognises,
        file_name="part-*.parquet",
        times=True,
        generic=True,
    ),
)
