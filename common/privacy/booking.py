"""Booking: a release is paid for by exactly the event that it states, with noise of the kind that was booked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.events import Event, digest
from fedboard.common.privacy.noise import NoiseStream

if TYPE_CHECKING:
    from fedboard.common.privacy.ledger import Receipt


def require_paid(stated: Mapping[str, Any], event: Event, receipt: "Receipt", stream: NoiseStream) -> None:
    """Hold a receipt against what a release states and against the noise that it will draw.

    Args:
        stated: the release's own event. Public.
        event: what was booked, with the noise source. Public.
        receipt: the ledger's.
        stream: where the draws will come from.

    Raises:
        PrivacyError: the receipt is for another event than the noise of this release, or noise from a seed is
            booked as private.
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


__all__ = ["require_paid"]
