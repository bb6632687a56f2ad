"""How many clients a secure sum needs, and how many it can lose. Public; server and clients compute alike.

Masked vectors carry exact sums here, and sums with a share of the noise in distributed-dp.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import Given
from fedboard.common.protocols.secure_sum.advertised import Secrets, quorum
from fedboard.common.protocols.secure_sum.messages import MOST_CLIENTS
from fedboard.common.protocols.secure_sum.neighbours import (
    FEWEST_CLIENTS,
    Neighbourhood,
    fewest_left,
    neighbourhood,
    share_of,
    vouched_neighbourhood,
)
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.truncated import coarse_sums

DROPOUT = 0.3
COLLUDING = 0.1
_MOST_USERS = 1 << 31
_AUTHORITY = re.compile("([0-9a-f]{64})?")


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
    """Largest share of them that may collude with the server; 0 to less than 1. Of the devices on the list, where
    clients are vouched for."""
    vouched_by: str = ""
    """Public key of the authority that vouches for clients, 64 hexadecimal digits; nobody does where it is
    empty."""

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            InputError: one is out of range.
        """
        require_whole("most_users", self.most_users, most=_MOST_USERS)
        require_whole("survivors", self.survivors, least=2, most=MOST_CLIENTS)
        _require_share("dropout", self.dropout)
        _require_share("colluding", self.colluding)
        if not isinstance(self.vouched_by, str) or not _AUTHORITY.fullmatch(self.vouched_by):
            raise InputError(
                "vouched_by must be the public key of an authority, 64 hexadecimal digits as `fedboard keys "
                f"roster` prints them, or nothing, got {self.vouched_by!r}"
            )
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
        require_known(SumRules, parameters, of="a secure sum")
        return SumRules(**parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """All of them, JSON-able; who vouches only where somebody does."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return found if self.vouched_by else {k: v for k, v in found.items() if k != "vouched_by"}

    def neighbourhood(self, clients: int, devices: int | None = None) -> Neighbourhood:
        """Of each client, where so many advertised keys.

        Args:
            clients: how many.
            devices: on the list, where clients are vouched for.

        Raises:
            InputError: fewer than 3.
        """
        if devices is None:
            return neighbourhood(clients, dropout=self.dropout, colluding=self.colluding)
        return vouched_neighbourhood(clients, dropout=self.dropout, bad=self.colluding_of(devices))

    @property
    def fewest(self) -> int:
        """Clients without which no session begins."""
        return max(FEWEST_CLIENTS, self.survivors)

    def colluding_of(self, devices: int) -> int:
        """Devices of a list that may collude with the server."""
        return share_of(devices, self.colluding)

    def quorum(self, devices: int) -> int:
        """Confirmations of one set of survivors without which no client opens anything."""
        return quorum(devices, self.colluding_of(devices))

    def fewest_of(self, devices: int | None) -> int:
        """Clients without which there is no sum, where so many are on the list."""
        return self.fewest if devices is None else max(self.fewest, self.quorum(devices))

    def require_list(self, devices: int) -> None:
        """Refuse a list of devices that these numbers do not fit; any list fits those of an exact sum."""

    def require_sum_over(self, survivors: int) -> None:
        """Refuse a sum over too few clients.

        Raises:
            RefusedError: ``too-few``.
        """
        if survivors < self.fewest:
            raise RefusedError(Refusal.TOO_FEW)


def require_known(rules: type, parameters: Mapping[str, Any], *, of: str) -> None:
    """Refuse parameters that are not those of these rules; only who vouches may be left out.

    Raises:
        InputError: unknown or missing.
    """
    known = {field.name for field in fields(rules)}
    if set(parameters) | {"vouched_by"} != known:
        named = ", ".join(sorted(known - {"vouched_by"}))
        raise InputError(f"{of} has the parameters {named}, got {', '.join(sorted(parameters))}")


def _require_share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise InputError(f"{name} must be a share in [0, 1), got {value!r}")


class Answered(msgspec.Struct, frozen=True):
    """A step that is over."""

    question: bytes
    """SHA-256 of the message."""
    reply: bytes


class Memory(msgspec.Struct):
    """All that a session is, in steps; secrets inside."""

    secrets: Secrets
    answered: list[Answered] = msgspec.field(default_factory=list)
    session: bytes = b""
    clients: int = 0
    """How many advertised keys, as the server says."""
    neighbours: list[bytes] = msgspec.field(default_factory=list)
    """What they advertised, sorted by identity."""
    held: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list)
    """A neighbour's shares of its two seeds; ``NO_SHARE`` where its box could not be opened."""
    there: list[bool] = msgspec.field(default_factory=list)
    """Which neighbours are masked with."""
    roster: bytes = b""
    """The list of devices; empty where clients are not vouched for, as all that follows."""
    places: list[int] = msgspec.field(default_factory=list)
    """Of the neighbours, on the list."""
    members: bytes = b""
    """The set of all who take part, as the server said."""
    confirmed: tuple[bytes, bytes] = (b"", b"")
    """The sets of those masked with and of survivors, as this client has signed them."""


_log = logging.getLogger(__name__)


class Carried(Protocol):
    """Turns what a client gives into residues, and the sum of residues back into sums."""

    def packing(self, requests: Sequence[Request]) -> Packing:
        """How the requests become one vector; the same on server and clients.

        Raises:
            InputError: they leave no room modulo 2^32.
            PrivacyError: their sensitivity does not allow it.
        """
        ...

    def numbers(self, given: Given, noise: NoiseSource) -> NDArray[np.uint32]:
        """One client's vector, uint32, shape (size,). Private.

        Args:
            given: what the client gives. Private.
            noise: source of the client's own noise.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than there is room for.
        """
        ...

    def admitted(self, packing: Packing, sums: Mapping[str, IntArray]) -> Mapping[str, IntArray] | None:
        """What ``packing.unflatten`` gave, as far as honest clients can have made it. Private.

        None gives the round up, which everybody sees: only sums with all their noise may decide about that.
        """
        ...

    def residue_bits(self, packing: Packing) -> Mapping[str, int]:
        """By release name, bits of the modulus of sums that get their noise later; ``BookedRelease.publish``."""
        ...

    def noise_shares(self, survivors: int) -> int:
        """How many honest shares of the noise are in a sum over so many clients at least."""
        ...

    @property
    def noise_ratio(self) -> float:
        """Deviation of all noise in a sum over the booked one, at most. Public, so not of who stayed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactNumbers:
    """The coarse sums as they are; the server adds the noise."""

    most_users: int
    backend: str = "numpy"

    def packing(self, requests: Sequence[Request]) -> Packing:
        """Room for all users and for the noise, which is added to residues."""
        return Packing.of(requests, most_users=self.most_users)

    def numbers(self, given: Given, noise: NoiseSource) -> NDArray[np.uint32]:
        """The coarse sums; ``noise`` is not used.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than there is room for.
        """
        require_room(given, self.most_users)
        packing = self.packing(given.requests)
        return packing.flatten(
            coarse_sums(given.contribution, given.requests, packing.shifts, backend=self.backend)
        )

    def admitted(self, packing: Packing, sums: Mapping[str, IntArray]) -> Mapping[str, IntArray]:
        """The sums, whatever they are; the log says where honest clients cannot have made them.

        They are exact, so nobody else may learn that: a client could add just so much that it tells how large the
        others' sum is.
        """
        if not packing.plausible(sums, n_users=self.most_users):
            _log.warning(
                "the sums are larger than honest clients can have made them; the board may be spoilt"
            )
        return sums

    def residue_bits(self, packing: Packing) -> dict[str, int]:
        """All sums are residues until they have their noise."""
        return packing.residue_bits

    def noise_shares(self, survivors: int) -> int:
        """None: the sums are exact."""
        return 0

    @property
    def noise_ratio(self) -> float:
        """The server adds what it books."""
        return 1.0


def require_room(given: Given, most_users: int) -> None:
    """Refuse more rows than the sums of all clients together have room for.

    Raises:
        PrivacyError: there are more.
    """
    if given.contribution.n_users > most_users:
        raise PrivacyError(
            f"{given.contribution.n_users} rows, and the sums of all clients have room for {most_users}; "
            "nothing was sent"
        )
