"""The public numbers of distributed-dp, and why no sum can hold less noise than is booked."""

import math
from dataclasses import dataclass

from fedboard.common.errors import InputError
from fedboard.common.protocols.secure_sum.masking.neighbours import Neighbourhood, share_of
from fedboard.common.protocols.secure_sum.messages import MOST_CLIENTS
from fedboard.common.protocols.secure_sum.rules import SumRules
from fedboard.common.wire.refusals import Refusal, RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRules(SumRules):
    """The public numbers of a secure sum whose clients add the noise."""

    honest: int
    """Shares of the noise in every sum that nobody else knows; ``honest + floor(colluding most_clients) <=
    survivors``.
    """
    most_clients: int
    """Clients of a session at most; the sums have room for the noise of so many."""

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            InputError: one is out of range, or a sum could hold fewer honest shares than are stated.
        """
        SumRules.__post_init__(self)
        most = self.most_clients
        if isinstance(most, bool) or not isinstance(most, int) or not self.survivors <= most <= MOST_CLIENTS:
            raise InputError(
                f"most_clients must be a whole number from survivors = {self.survivors} to {MOST_CLIENTS}, "
                f"got {most!r}"
            )
        whole = isinstance(self.honest, int) and not isinstance(self.honest, bool)
        if not whole or not 1 <= self.honest <= self.honest_among(self.survivors):
            raise InputError(
                f"honest must be a whole number from 1 to survivors - floor(colluding most_clients) = "
                f"{self.honest_among(self.survivors)}, got {self.honest!r}: every sum must hold as much noise as "
                "is booked; ask for more survivors, or allow for fewer dropouts or colluding clients"
            )

    def honest_among(self, survivors: int) -> int:
        """How many of those who stay do not collude, at least."""
        return survivors - share_of(self.most_clients, self.colluding)

    @property
    def noise_ratio(self) -> float:
        """Deviation of all noise in a sum over the booked one, if everybody stays; >= 1.

        Every client adds a share, and only the fewest honest ones are counted.
        """
        return math.sqrt(self.most_clients / self.honest)

    def require_list(self, devices: int) -> None:
        """Refuse a list with more devices than ``most_clients``: more of them could collude than is allowed for.

        Raises:
            RefusedError: ``bad-protocol``.
        """
        if devices > self.most_clients:
            raise RefusedError(Refusal.BAD_PROTOCOL)

    def require_sum_over(self, survivors: int) -> None:
        """Refuse a sum over too few clients, or with fewer honest shares of the noise than are booked.

        Raises:
            RefusedError: ``too-few``.
        """
        SumRules.require_sum_over(self, survivors)
        if self.honest_among(survivors) < self.honest:
            raise RefusedError(Refusal.TOO_FEW)

    def neighbourhood(self, clients: int, devices: int | None = None) -> Neighbourhood:
        """Of each client, where so many advertised keys.

        Raises:
            RefusedError: more than ``most_clients``, of whom more could collude than is allowed for.
        """
        if clients > self.most_clients:
            raise RefusedError(Refusal.BAD_PROTOCOL)
        return SumRules.neighbourhood(self, clients, devices)
