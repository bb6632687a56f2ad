"""How many clients a secure sum needs, and how many it can lose. Public; server and clients compute alike."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fedboard.common.checks import require_whole
from fedboard.common.errors import InputError
from fedboard.common.protocols.secure_sum.masking.neighbours import (
    FEWEST_CLIENTS,
    Neighbourhood,
    fewest_left,
    neighbourhood,
)
from fedboard.common.protocols.secure_sum.messages import MOST_CLIENTS

DROPOUT = 0.3
COLLUDING = 0.1
_MOST_USERS = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class SumRules:
    """The public numbers of a secure sum."""

    most_users: int
    """Users whose contributions the sums have room for; 1 to 2^31."""
    survivors: int
    """Fewest clients whose inputs make a sum; >= 2."""
    dropout: float = DROPOUT
    """Largest share of the clients of a round that may drop out; ``dropout < (1 - colluding) / 2``."""
    colluding: float = COLLUDING
    """Largest share of them that may collude with the server; 0 to less than 1."""

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            InputError: one is out of range.
        """
        require_whole("most_users", self.most_users, most=_MOST_USERS)
        require_whole("survivors", self.survivors, least=2, most=MOST_CLIENTS)
        _require_share("dropout", self.dropout)
        _require_share("colluding", self.colluding)
        if not self.dropout < (1 - self.colluding) / 2:
            raise InputError(
                f"dropout must be below (1 - colluding) / 2 = {(1 - self.colluding) / 2:g}, got {self.dropout:g}: "
                "fewer than the shares that are needed would be left"
            )

    @staticmethod
    def sized(*, clients: int, users: int, settings: Mapping[str, Any]) -> "SumRules":
        """For a fleet.

        Args:
            clients: how many there are; >= 3.
            users: how many they host in all.
            settings: parameters that override the defaults, by name.

        Raises:
            InputError: an unknown setting, a value out of range, fewer than 3 clients, or more survivors than there
                are clients.
        """
        neighbourhood(clients, dropout=0.0, colluding=0.0)  # refuses fewer than 3
        dropout = settings.get("dropout", DROPOUT)
        _require_share("dropout", dropout)
        chosen = {"most_users": max(1, users), "survivors": fewest_left(clients, dropout), "dropout": dropout}
        rules = SumRules.from_parameters({**chosen, "colluding": COLLUDING, **settings})
        if rules.survivors > clients:
            raise InputError(f"survivors must be at most the {clients} clients, got {rules.survivors}")
        return rules

    @staticmethod
    def from_parameters(parameters: Mapping[str, Any]) -> "SumRules":
        """From numbers that may come from a peer.

        Raises:
            InputError: unknown, missing or out of range.
        """
        known = {field.name for field in fields(SumRules)}
        if set(parameters) != known:
            raise InputError(
                f"a secure sum has the parameters {', '.join(sorted(known))}, got {', '.join(sorted(parameters))}"
            )
        return SumRules(**parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """All of them, JSON-able."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def neighbourhood(self, clients: int) -> Neighbourhood:
        """Of each client, where so many advertised keys.

        Raises:
            InputError: fewer than 3.
        """
        return neighbourhood(clients, dropout=self.dropout, colluding=self.colluding)

    @property
    def fewest(self) -> int:
        """Clients without which no session begins."""
        return max(FEWEST_CLIENTS, self.survivors)


def _require_share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise InputError(f"{name} must be a share in [0, 1), got {value!r}")
