"""What is publicly known of the items of a catalogue, as boards carry it: numbers, and labels that an item bears.

Public by declaration, as the list of items is: nothing here is read off ratings. A device computes from it, so what
came from elsewhere is checked when it is read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import Float32Array
from fedboard.common.errors import InputError

MOST_FEATURES = 256
"""Numbers and labels together."""

_NAMES, _NUMBERS, _LABELS = "catalogue/features", "catalogue/numbers", "catalogue/labels"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CatalogueFeatures:
    """Numbers and labels of every item. Public."""

    number_names: tuple[str, ...]
    """Shape (n_numbers,): ``year`` and so on."""
    numbers: Float32Array
    """float32, shape (n_items, n_numbers), as the source gives them; NaN where it says nothing."""
    label_names: tuple[str, ...]
    """Shape (n_labels,): ``genres: Drama`` and so on."""
    labels: NDArray[np.uint8]
    """uint8, shape (n_items, n_labels): 1 where the item bears the label."""
    digest: str = field(init=False, default="")
    """SHA-256 of names and values, hex: two that are the same have the same."""

    def __post_init__(self) -> None:
        """Check names, shapes and values.

        Raises:
            InputError: they do not fit together, or there are none or too many.
        """
        n_items = self.numbers.shape[0] if self.numbers.ndim == 2 else -1
        for what, names, values, dtype in (
            ("numbers", self.number_names, self.numbers, np.float32),
            ("labels", self.label_names, self.labels, np.uint8),
        ):
            if values.dtype != dtype or values.shape != (n_items, len(names)):
                raise InputError(
                    f"item features need {what} as {dtype.__name__}, a row per item, a name per column"
                )
        if not 1 <= len(self.names) <= MOST_FEATURES:
            raise InputError(
                f"a catalogue has 1 to {MOST_FEATURES} item features or none, got {len(self.names)}"
            )
        if np.isinf(self.numbers).any() or (self.labels > 1).any():
            raise InputError("item features are finite numbers, NaN where unknown, and labels of 0 or 1")
        found = hashlib.sha256(json.dumps([n_items, self.number_names, self.label_names]).encode())
        for values in (self.numbers, self.labels):
            found.update(np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False)).data)
        object.__setattr__(self, "digest", found.hexdigest())

    def __eq__(self, other: object) -> bool:
        """Whether names and values are the same."""
        return isinstance(other, CatalogueFeatures) and self.digest == other.digest

    def __hash__(self) -> int:
        """Of the digest."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """One line."""
        return f"<CatalogueFeatures: {', '.join(self.names[:8])}{', ...' if len(self.names) > 8 else ''}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Of all, numbers first."""
        return (*self.number_names, *self.label_names)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.numbers.shape[0])

    def first(self, n_items: int) -> "CatalogueFeatures":
        """Those of the first items."""
        return CatalogueFeatures(
            number_names=self.number_names,
            numbers=self.numbers[:n_items],
            label_names=self.label_names,
            labels=self.labels[:n_items],
        )


def stored_features(features: CatalogueFeatures | None) -> dict[str, NDArray[Any]]:
    """The arrays by which a board carries features: none for None."""
    if features is None:
        return {}
    names = json.dumps([features.number_names, features.label_names], ensure_ascii=False)
    return {
        _LABELS: np.ascontiguousarray(features.labels),
        _NUMBERS: np.ascontiguousarray(features.numbers),
        _NAMES: np.frombuffer(names.encode(), dtype=np.uint8),
    }


def features_from(stored: Mapping[str, NDArray[Any]], *, n_items: int) -> CatalogueFeatures | None:
    """Features that came with a board; None where none did.

    Args:
        stored: arrays of a board by name, those of others too.
        n_items: of the catalogue.

    Raises:
        ValueError: they are incomplete, or no features of so many items.
    """
    if not stored.keys() & {_NAMES, _NUMBERS, _LABELS}:
        return None
    if not stored.keys() >= {_NAMES, _NUMBERS, _LABELS}:
        raise ValueError("its item features are incomplete")
    names = json.loads(stored[_NAMES].tobytes().decode())
    if not isinstance(names, list) or len(names) != 2:
        raise ValueError("its item features have no names")
    kinds = [tuple(kind) for kind in names if isinstance(kind, list)]
    if len(kinds) != 2 or not all(isinstance(name, str) for kind in kinds for name in kind):
        raise ValueError("its item features have no names")
    "".join((*kinds[0], *kinds[1])).encode()  # raises where the digest could not be taken
    if stored[_NUMBERS].shape[:1] != (n_items,):
        raise ValueError("its item features are of another catalogue")
    try:
        return CatalogueFeatures(
            number_names=kinds[0], numbers=stored[_NUMBERS], label_names=kinds[1], labels=stored[_LABELS]
        )
    except InputError as error:
        raise ValueError(str(error)) from error
