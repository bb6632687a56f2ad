"""Any comma- or tab-separated file with a header line, its columns named by a mapping."""

import csv

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, require_columns
from fedboard.simulations.datasets.formats.text import TextLayout, first_line, read_text

FORMAT_CSV, FORMAT_TSV = "csv", "tsv"
DELIMITERS = {FORMAT_CSV: ",", FORMAT_TSV: "\t"}


def read(file: StoredFile, *, delimiter: str, mapping: ColumnMapping) -> RawColumns:
    """Read a file with a header line; ids may be any text.

    Raises:
        InputError: a column is missing, or see ``read_text``.
    """
    names = next(csv.reader([first_line(file)], delimiter=delimiter))
    require_columns(f"{file.label}, line 1", names, mapping)
    layout = TextLayout(
        delimiter=delimiter,
        columns=tuple(names),
        mapping=mapping,
        header=True,
        whole_number_ids=False,
        quoted=True,
    )
    return read_text(file, layout)


__all__ = ["DELIMITERS", "FORMAT_CSV", "FORMAT_TSV", "read"]
