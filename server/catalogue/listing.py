"""Small public tables about items, such as titles and genres: read whole, line by line, with line numbers."""

import csv
import io

from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile

_MOST_BYTES, _PIECE = 1 << 30, 1 << 20


def numbered_lines(
    file: StoredFile, *, delimiter: str, encodings: tuple[str, ...], quoted: bool = True
) -> list[tuple[int, list[str]]]:
    """Cells of each line that is not empty, with its number.

    Args:
        file: the table. Public.
        delimiter: ``,`` or a tab, where cells may be quoted; or ``|`` or ``::``, where they may not.
        encodings: tried in this order.
        quoted: whether cells may be quoted, with the delimiters that allow it.

    Raises:
        InputError: the file cannot be read, is text in none of the encodings, or is no table.
    """
    text = _decode(file, encodings)
    if quoted and delimiter in (",", "\t"):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            return [(reader.line_num, cells) for cells in reader if cells]
        except csv.Error as error:
            raise InputError(
                f"{file.label}, line {reader.line_num}: not a table of cells ({error})."
            ) from error
    # Not splitlines: it also splits at characters that Latin-1 titles may contain.
    lines = text.replace("\r\n", "\n").split("\n")
    return [(number, line.split(delimiter)) for number, line in enumerate(lines, 1) if line]


def _decode(file: StoredFile, encodings: tuple[str, ...]) -> str:
    pieces, size = [], 0
    with file.open() as stream:
        while size <= _MOST_BYTES and (
            piece := stream.read(_PIECE)
        ):  # a read takes what it may take, at once
            pieces.append(piece)
            size += len(piece)
    content = b"".join(pieces)
    if size > _MOST_BYTES:
        raise InputError(
            f"{file.label} is larger than {_MOST_BYTES >> 20} MiB unpacked: that is no list of items."
        )
    for encoding in encodings:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise InputError(f"{file.label} is not text in {encodings[0]}; save it in that encoding.")
