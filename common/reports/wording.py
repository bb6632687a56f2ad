"""How numbers are written and read: the same in tables, in captions and on axes."""

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Final, TypeAlias

from fedboard.common.privacy.shown import shown_number

_DOWNWARD: Final = Context(prec=5, rounding=ROUND_FLOOR)


def capital(text: str) -> str:
    """Begins a sentence."""
    return text[:1].upper() + text[1:]


def spent(value: float) -> str:
    """Five digits, rounded upward but for what floating point adds: no less is shown to be spent than is."""
    return shown_number(float(f"{value:.11g}"))


def left_over(value: float) -> str:
    """Five digits, rounded downward: no more is shown to be left than there is."""
    return "0" if value < 1e-9 else f"{_DOWNWARD.create_decimal(Decimal(repr(value))).normalize():f}"


def number(value: float | None, digits: int = 4) -> str:
    """A number with that many significant digits, without needless exponents; a dash for None.

    Large whole numbers are written out in groups of three; very small ones as ``1e-05``.
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}".replace(",", "\u202f")
    if abs(value) < 1e-3:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.0f}" if value == int(value) else f"{value:.{decimals}f}"


def setting(value: float) -> str:
    """A number that a person chose, as they wrote it: 2.5, 20, 1e-05."""
    return f"{value:.10g}"


def fixed(value: float | None, decimals: int = 4) -> str:
    """A number with a fixed count of decimals, so that a column lines up; a dash for None."""
    return "–" if value is None else f"{value:.{decimals}f}"


def percent(share: float | None, decimals: int = 1) -> str:
    """A share of one as a percentage; a dash for None, ``< 0.1 %`` for what would round to nothing."""
    if share is None:
        return "–"
    smallest = 10.0**-decimals
    if 0 < 100 * share < smallest / 2:
        return f"< {smallest:g} %"
    return f"{100 * share:.{decimals}f} %"


def byte_count(count: float | None) -> str:
    """A number of bytes in the binary unit that fits it; a dash for None."""
    if count is None:
        return "–"
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def duration(seconds: float | None) -> str:
    """Seconds as ``12.3 s``, ``4 min 10 s`` or ``2 h 05 min``; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def listing(parts: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Finished text. The first column names the row; others are numbers unless named in ``text_columns``.

    What follows a line break in a cell is a note on it.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: frozenset[int] = frozenset({0})
    emphasised_rows: frozenset[int] = frozenset()
    states: tuple[str, ...] = ()
    """Of each row, where rows differ in more than their numbers: ``made``, ``lost``, ``planned``."""


JsonObject: TypeAlias = dict[str, Any]


def number_or_none(value: object) -> float | None:
    """The value as a float if it is a finite number, else None (also for true, false and NaN)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def object_or_empty(value: object) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def numbers(value: object) -> list[float | None]:
    """A JSON list as numbers, with None where an entry is none; empty if the value is no list."""
    return [number_or_none(entry) for entry in value] if isinstance(value, list) else []


def numeric_entries(value: object) -> dict[str, float]:
    """The entries of a JSON object that are finite numbers, in file order."""
    entries = ((name, number_or_none(entry)) for name, entry in object_or_empty(value).items())
    return {name: number for name, number in entries if number is not None}
