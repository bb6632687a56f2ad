"""From when until when something signed may be used: UTC to the second, and how far clocks may differ."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

CLOCK_SECONDS: Final = 300
"""By how much the clock of whoever signs and that of whoever checks may differ."""
DAY_SECONDS: Final = 86_400
_FORM = "%Y-%m-%dT%H:%M:%SZ"

Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970 UTC."""


def utc_text(seconds: float) -> str:
    """A time as it is signed, ``2026-01-31T12:00:00Z``; fractions of a second are dropped."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime(_FORM)


def utc_seconds(text: str) -> int:
    """Seconds since 1970 UTC of a time as it is signed.

    Raises:
        ValueError: it is not written like that, to the letter.
    """
    seconds = int(datetime.strptime(text, _FORM).replace(tzinfo=UTC).timestamp())
    if utc_text(seconds) != text:
        raise ValueError("not a time of the form 2026-01-31T12:00:00Z")
    return seconds


def is_utc_text(text: str) -> bool:
    """Whether this is a time as it is signed."""
    try:
        utc_seconds(text)
    except (ValueError, OverflowError, OSError):
        return False
    return True


def is_current(*, signed: str | None, expires: str, clock: Clock = time.time) -> bool:
    """Whether something signed may be used now: signed in the past and not expired, by clocks that may differ.

    Args:
        signed: when; None where nothing says so.
        expires: until when.
        clock: of this machine.
    """
    now = clock()
    begun = signed is None or utc_seconds(signed) <= now + CLOCK_SECONDS
    return begun and now <= utc_seconds(expires) + CLOCK_SECONDS
