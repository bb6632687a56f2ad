"""What ratings must satisfy whatever their format: the rating range, the catalogue, one rating per pair."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import Float32Array, IndexArray
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.numbering import Numbered, id_order


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedItems:
    """Item column and catalogue, agreed with each other."""

    codes: IndexArray
    """int32, shape (n_rows,): positions in ``ids``."""
    ids: NDArray[np.str_]
    """Shape (n_items,): the catalogue."""
    titles: tuple[str, ...]
    """Shape (n_items,): ``item ID`` where the catalogue has no title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCatalogue:
    """The items there are, by a public list."""

    titles: dict[str, str]
    """Item id to title, which may be empty."""
    rated_only: bool
    """Whether the numbering leaves out items that nobody rated."""

    def apply(self, items: Numbered, locate: Callable[[int], str]) -> ListedItems:
        """Attach titles, and number all listed items unless ``rated_only``.

        Args:
            items: the item column.
            locate: names a row for a message.

        Raises:
            InputError: an item is not listed.
        """
        rated: list[str] = [str(item) for item in items.ids.tolist()]
        require_listed(self.titles, rated, items.codes, locate)
        ids, codes = rated, items.codes
        if not self.rated_only:
            listed = list(self.titles)
            ids = [listed[position] for position in id_order(listed)]
            number = {item: position for position, item in enumerate(ids)}
            codes = np.array([number[item] for item in rated], dtype=np.int32)[items.codes]
        titles = tuple(self.titles[item] or f"item {item}" for item in ids)
        return ListedItems(codes=codes, ids=np.array(ids, dtype=np.str_), titles=titles)


def require_listed(
    titles: dict[str, str], ids: list[Any], codes: IndexArray, locate: Callable[[int], str]
) -> None:
    """See that a list of items has all that occur.

    Args:
        titles: item id to title.
        ids: distinct ids of items, texts or whole numbers.
        codes: int32, shape (n_rows,): positions in ``ids``.
        locate: names a row for a message.

    Raises:
        InputError: an item is not listed; names its first row.
    """
    unknown = np.array([str(item) not in titles for item in ids], dtype=np.bool_)
    if unknown.any():
        row = int(np.flatnonzero(unknown[codes])[0])
        raise InputError(
            f"{locate(row)}: unknown item id {str(ids[codes[row]])!r}; "
            "every item must be in the file of titles, add it there or remove the line."
        )


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
