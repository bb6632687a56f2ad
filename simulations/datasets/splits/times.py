"""When ratings were given: whole seconds since 1970 in UTC, or whatever whole numbers a file counts in."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError

_LARGEST = 2.0**62
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MAIL = rf"\A[A-Z][a-z]{{2}} (?:{'|'.join(_MONTHS)}) \d\d \d\d:\d\d:\d\d [+-]\d{{4}} \d{{4}}\z"
"""As Goodreads writes a time, 30 characters."""
_LONGEST = 20
"""Characters of a whole number in a configuration."""


def times_of_arrow(column: Any) -> IntArray | None:
    """The times of a pyarrow column without empty cells; None where it holds none.

    Args:
        column: a ``pyarrow.ChunkedArray`` of whole numbers, of numbers (cut to whole ones), dates or timestamps.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return times_of_numbers(column.to_numpy())


def times_of_words(words: Any) -> IntArray | None:
    """The times of texts, int64: ISO 8601, or as in ``Fri Aug 25 13:55:02 -0700 2017``; None where one is neither.

    Args:
        words: a pyarrow array of texts without empty cells, or a list of them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        words = pa.array(words) if isinstance(words, list) else words
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    try:
        return times_of_arrow(words.cast(pa.timestamp("s")))
    except pa.ArrowInvalid:
        pass
    if not pc.all(pc.match_substring_regex(words, _MAIL)).as_py():
        return None
    month = pc.index_in(pc.utf8_slice_codeunits(words, 4, 7), pa.array(_MONTHS))
    iso = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(words, 26, 30),
        pc.utf8_slice_codeunits(pc.cast(pc.add(month, 101), pa.string()), 1, 3),
        pc.utf8_slice_codeunits(words, 8, 10),
        "-",
    )
    day = pc.utf8_slice_codeunits(words, 11, 19)
    zone = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(words, 20, 23), pc.utf8_slice_codeunits(words, 23, 25), ":"
    )
    try:
        told = pc.binary_join_element_wise(pc.binary_join_element_wise(iso, day, "T"), zone, "")
        return times_of_arrow(told.cast(pa.timestamp("s", tz="UTC")))
    except pa.ArrowInvalid:
        return None


def times_of_numbers(column: ArrayLike) -> IntArray | None:
    """The times of an array of numbers or ``datetime64``; None where one is none."""
    found = np.asarray(column)
    if found.dtype.kind == "M":
        found = np.where(np.isnat(found), np.float64("nan"), found.astype("datetime64[s]").astype(np.int64))
    if found.dtype.kind not in "iuf":
        return None
    if found.dtype.kind == "f":
        if not np.all(np.abs(found) < _LARGEST):  # nor is one NaN
            return None
        found = np.floor(found)
    times: IntArray = found.astype(np.int64, copy=False)
    return times


def is_whole(cell: str, largest: int = 2**63 - 1) -> bool:
    """Whether a cell is a whole number in digits, of any sign; ``int`` reads no thousands of digits."""
    digits = cell.strip().removeprefix("-")
    short = len(digits.lstrip("0")) <= len(str(largest))
    return digits.isascii() and digits.isdigit() and short and int(digits.lstrip("0") or "0") <= largest


def is_time(cell: str) -> bool:
    """Whether a cell is a number, a date or a timestamp."""
    try:
        return "_" not in cell and abs(float(cell)) < _LARGEST
    except ValueError:
        return _instant(cell) is not None


def public_time(given: int | float | str, key: str) -> int:
    """A time that somebody names in a configuration, in seconds since 1970; UTC where no zone is given.

    Args:
        given: a date or timestamp as ISO 8601 has it, or a whole number as the file has it. Public.
        key: of the configuration, for the message.

    Raises:
        InputError: it is neither; a share of all ratings is no time.
    """
    if isinstance(given, str) and len(given) <= _LONGEST and is_whole(given):
        given = int(given)
    if isinstance(given, int):
        return given
    found = _instant(given) if isinstance(given, str) else None
    if found is None:
        raise InputError(
            f"{key} must be a date such as 2005-12-01, or a whole number as the file counts its times, got "
            f"{given!r}. A share of all ratings is not taken: where it cuts depends on everybody's times, so that "
            "one user more would move the ratings of all others between the parts"
        )
    return int(found.timestamp())


def date_of(time: int) -> str:
    """The date of seconds since 1970, in UTC; the number itself where they are none."""
    try:
        return datetime.fromtimestamp(time, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return str(time)


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
