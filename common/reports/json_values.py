"""Reading loosely: what a report finds in JSON files that other versions may have written."""

import math
from typing import Any, TypeAlias

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
