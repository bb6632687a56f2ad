"""What ratings must satisfy whatever their format: the rating range; and the order of ids."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array
from fedboard.common.errors import InputError


def check_range(rating_range: Any, label: str) -> tuple[float, float]:
    """The public rating range as two numbers.

    Raises:
        InputError: it is not two finite numbers, the lower first.
    """
    try:
        low, high = (float(bound) for bound in rating_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(
            f"{label}: the rating range must be two numbers, the lower first, got {rating_range!r}; "
            "give for example (1, 5)."
        )
    return low, high


def check_values(
    values: Float32Array, rating_range: tuple[float, float], locate: Callable[[int], str]
) -> None:
    """Check every rating against the public range.

    Raises:
        InputError: a rating is outside, or not a number.
    """
    low, high = np.float32(rating_range[0]), np.float32(rating_range[1])
    if not values.size or (values.min() >= low and values.max() <= high):  # NaN is neither
        return
    within = (values >= low) & (values <= high)
    row = int(np.argmin(within))
    allowed = f"{rating_range[0]:g} to {rating_range[1]:g}"
    if np.isnan(values[row]):
        raise InputError(
            f"{locate(row)}: the rating is NaN; ratings must be {allowed}, correct or remove the line."
        )
    raise InputError(
        f"{locate(row)}: rating {values[row]:g} is outside the public rating range {allowed}; "
        "correct the rating or declare the true range."
    )


def id_order(words: list[str]) -> list[int]:
    """Positions that sort ids: by number when all are plain whole numbers (so 9 before 10), else as text."""
    if all(word.isascii() and word.isdigit() and (word == "0" or word[0] != "0") for word in words):
        return sorted(range(len(words)), key=lambda position: int(words[position]))
    return sorted(range(len(words)), key=words.__getitem__)
