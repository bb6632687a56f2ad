"""Booking, and the bound of a row: a release is paid for by exactly the event that it states, with noise of the
kind that was booked, and which rows keep an L2 bound is decided in whole numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.events import Event, digest
from fedboard.common.privacy.releases.noise import AbsentStream, NoiseStream

if TYPE_CHECKING:
    from fedboard.common.privacy.ledger.ledger import Receipt


class _Stated(Protocol):
    """What booking needs of a release."""

    @property
    def name(self) -> str: ...

    def event(self) -> dict[str, Any]: ...


Stated = TypeVar("Stated", bound=_Stated)


def require_paid(stated: Mapping[str, Any], event: Event, receipt: "Receipt", stream: NoiseStream) -> None:
    """Hold a receipt against what a release states and against the noise that it will draw.

    Args:
        stated: the release's own event. Public.
        event: what was booked, with the noise source. Public.
        receipt: the ledger's.
        stream: where the draws will come from.

    Raises:
        PrivacyError: the receipt is for another event than the noise of this release, noise from a seed is
            booked as private, or noise that clients add as drawn here or the other way round.
    """
    name = stated["name"]
    differs = any(event.get(key) != value for key, value in stated.items())
    if differs or receipt.event_digest != digest(event):
        raise PrivacyError(f"the receipt of release {name!r} is for another release")
    if stream.private is not event.get("private"):
        raise PrivacyError(
            f"release {name!r} is booked as {'' if event.get('private') else 'not '}private, "
            "its noise is of the other kind"
        )
    if isinstance(stream, AbsentStream) is not ("shares" in event):
        raise PrivacyError(
            f"release {name!r} is booked with noise {'of its clients' if 'shares' in event else 'drawn here'}, "
            "and is given the other kind"
        )


@dataclass(slots=True, kw_only=True, eq=False)
class BookedOnce(Generic[Stated]):
    """A release that has been paid for; it can be drawn once as a whole, and not be copied."""

    release: Stated
    event: Event
    """What was booked, with the noise source."""
    receipt: "Receipt"
    stream: NoiseStream = field(repr=False)
    _drawn: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Hold the receipt against the release.

        Raises:
            PrivacyError: they do not belong together, or the receipt was used before.
        """
        require_paid(self.release.event(), self.event, self.receipt, self.stream)
        self.receipt.use()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: a copy would draw with the same randomness again."""
        raise PrivacyError(f"release {self.release.name!r} is paid for once and cannot be copied")

    def _use_up(self, before: str) -> None:
        """Let the draw be made, once.

        Raises:
            PrivacyError: it was made before, in the words of ``before``.
        """
        if self._drawn:
            raise PrivacyError(before)
        self._drawn = True


_NUMBERS_PER_CHUNK = 1 << 16  # stays in cache
_NEAR, _ULP = 1e-9, 2.0**-52
"""Relative distance from the bound beyond which float64 is sure: for width w it is off by less than w ulp."""
_TOO_LARGE = 1 << 63
"""For a sum of squares in 64 bits."""


def keeps_l2_bound(rows: IntArray, bound: int) -> BoolArray:
    """Which rows have a sum of squares of at most ``bound^2``, exactly; bool, shape (n,).

    In float64 where that is sure, in whole numbers where a row lies within 1e-9 of it.

    Args:
        rows: int64, shape (n, width), any values. Private.
        bound: whole number > 0. Public.
    """
    kept = np.zeros(rows.shape[0], dtype=np.bool_)
    step = max(1, _NUMBERS_PER_CHUNK // max(1, rows.shape[1]))
    for first in range(0, rows.shape[0], step):
        part = rows[first : first + step]
        values = part.astype(np.float64)
        lengths = np.sqrt(np.einsum("jw,jw->j", values, values)) / float(bound)
        kept[first : first + step] = lengths <= 1.0
        unsure = np.flatnonzero(np.abs(lengths - 1.0) <= max(_NEAR, rows.shape[1] * _ULP))
        if unsure.size:
            kept[first + unsure] = _squared_lengths(part[unsure]) <= bound * bound
    return kept


def _squared_lengths(rows: IntArray) -> "np.ndarray[tuple[int], np.dtype[Any]]":
    """Sums of squares, shape (n,): in 64 bits where none can exceed them, else as Python's whole numbers."""
    largest = max(int(rows.max()), -int(rows.min()))
    whole: np.ndarray[Any, Any] = rows.astype(
        np.int64 if largest * largest * rows.shape[1] < _TOO_LARGE else np.object_
    )
    return np.asarray((whole * whole).sum(axis=1))
