"""When ratings were given: whole seconds since 1970 in UTC, or whatever whole numbers a file counts in."""

import re
from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError

_LARGEST = 2.0**62
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MAIL = re.compile(rf"[A-Z][a-z]{{2}} (?:{'|'.join(_MONTHS)}) \d\d \d\d:\d\d:\d\d [+-]\d{{4}} \d{{4}}")
"""As Goodreads writes a time, 30 characters."""
_LONGEST = 20
"""Characters of a whole number in a configuration."""


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


def is_mail_time(cell: str) -> bool:
    """Whether a text is a time as in ``Fri Aug 25 13:55:02 -0700 2017``."""
    if _MAIL.fullmatch(cell) is None:
        return False
    try:
        datetime.strptime(cell, "%a %b %d %H:%M:%S %z %Y")
    except ValueError:
        return False
    return True


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
