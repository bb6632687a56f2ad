"""Booking: a release is paid for by exactly the event that it states, with noise of the kind that was booked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.events import Event, digest
from fedboard.common.privacy.releases.absent_noise import AbsentStream
from fedboard.common.privacy.releases.noise import NoiseStream

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
