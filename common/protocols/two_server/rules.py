"""The public numbers of two servers, alike for leader, helper and clients: sizes, and what shares are bound to."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.protocols.sums.residues import Packing, own_stddevs
from fedboard.common.protocols.two_server.noise import NOISE_RATIO
from fedboard.common.protocols.two_server.shares import Layout

_MOST_USERS, _MOST_ITEMS = 1 << 24, 1 << 16


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    most_users: int
    most_items: int
    survivors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoServerRules:
    """What all sides compute alike. Every field is public."""

    most_users: int
    """Users whose contributions the sums have room for."""
    most_items: int
    """Items that a user sends, whatever she has rated: padded to it, or cut to those of largest weight."""
    survivors: int
    """Fewest clients that make a sum."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a number out of range.
        """
        ranges = {"most_users": _MOST_USERS, "most_items": _MOST_ITEMS, "survivors": self.most_users}
        for name, most in ranges.items():
            if not 1 <= getattr(self, name) <= most:
                raise InputError(
                    f"two-server's {name} must be a whole number in 1..{most}, got {getattr(self, name)}"
                )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Public: sizes, and the fewest clients."""
        return {"most_users": self.most_users, "most_items": self.most_items, "survivors": self.survivors}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """What a server states.

        Raises:
            InputError: not the parameters of this protocol.
        """
        try:
            read = msgspec.convert(dict(parameters), _Parameters)
        except msgspec.ValidationError as error:
            raise InputError(
                f"two-server has the settings most_users, most_items, survivors: {error}"
            ) from error
        return cls(most_users=read.most_users, most_items=read.most_items, survivors=read.survivors)

    def packing(self, requests: Sequence[Request]) -> Packing:
        """The round's numbers modulo 2^32, with room for the noise of both servers.

        Raises:
            InputError: no room.
        """
        noise = own_stddevs(requests, times=NOISE_RATIO)
        return Packing.of(requests, most_users=self.most_users, noise_stddevs=noise)

    def layout(self, about: bytes, requests: Sequence[Request]) -> Layout:
        """Where the round's numbers are.

        Raises:
            InputError: the protocol cannot carry these requests.
        """
        return Layout(about=about, packing=self.packing(requests), most_items=self.most_items)

    def bound(self, about: bytes) -> bytes:
        """What the helper's key and shares are bound to: the round and all parameters.

        A leader that tells the helper other parameters than clients, and so another scale of its noise, gets shares
        that the helper cannot open.
        """
        stated = json.dumps(dict(self.parameters), sort_keys=True).encode()
        return b"two-server\n" + hashlib.sha256(stated).hexdigest().encode() + b"\n" + about
