"""Noise that is not drawn here: what stands in the place of a stream where clients add it, and who says so."""

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from fedboard.common.arrays import BitArray
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.releases.noise import NoiseStream


class AbsentStream(NoiseStream):
    """The place of a stream where the noise is in the sums already: nothing can be drawn from it."""

    __slots__ = ()

    def bits(self, offset: int, count: int) -> BitArray:
        """Refuse: noise that is drawn here would not be the clients'.

        Raises:
            PrivacyError: always.
        """
        _refuse_to_draw()

    @classmethod
    def of(cls, *, private: bool) -> "AbsentStream":
        """One whose clients' noise is private, or seeded."""
        return (_SecretShares if private else AbsentStream)(key=b"")


class _SecretShares(AbsentStream):
    __slots__ = ()
    private: ClassVar[bool] = True


def _refuse_to_draw() -> NoReturn:
    raise PrivacyError("the noise of this release comes in shares from its clients; none of it is drawn here")


def least_shares(event: Mapping[str, Any]) -> int:
    """How many honest shares a sound event says to be in its sum; 0 where the server draws the noise."""
    return int(event["shares"]["least"]) if "shares" in event else 0
