"""Identities of simulated devices, and a list of them: whoever reads this file has all of their keys."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.errors import InputError
from fedboard.common.keys.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.shared.properties import authority_of, can_be_vouched
from fedboard.common.protocols.shared.voucher import Voucher

SIMULATED = "simulation"
"""What a simulation gives as ``vouched_by``, in the place of somebody who vouches for devices."""
_LASTS_SECONDS = 10 * 365 * 86_400


def with_simulated_authority(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol's settings, in which the authority of all simulations has the place of ``simulation``.

    Raises:
        InputError: ``vouched_by`` names somebody; nobody vouches for devices that are not there.
    """
    found, asked = dict(settings), settings.get("vouched_by")
    authority = _authority().public.hex()
    if asked in (None, "", authority):
        return found
    if asked != SIMULATED:
        raise InputError(f"vouched_by must be {SIMULATED!r} in a simulation, got {asked!r}")
    return {**found, "vouched_by": authority}


def among_simulated(protocol: AggregationProtocol, clients: int) -> AggregationProtocol:
    """The same protocol on the server, among so many simulated devices, where it wants any vouched for.

    Raises:
        InputError: the protocol was not sized for so many.
    """
    if authority_of(protocol) is None or not can_be_vouched(protocol):
        return protocol
    return protocol.among(simulated_roster(clients))


def as_simulated(protocol: AggregationProtocol, client: int) -> AggregationProtocol:
    """The same protocol on one of the simulated devices, where it wants any vouched for."""
    if authority_of(protocol) is None or not can_be_vouched(protocol):
        return protocol
    return protocol.vouched(Voucher(identity=_identity(client), authority=_authority().public))


@lru_cache(maxsize=2)
def simulated_roster(clients: int) -> Roster:
    """The list of so many simulated devices."""
    keys = [_identity(number).public for number in range(clients)]
    return _authority().sign(keys, fleet=SIMULATED, number=1, seconds=_LASTS_SECONDS)


@lru_cache(maxsize=1 << 16)
def _identity(number: int) -> IdentityKey:
    return IdentityKey(_key(f"device {number}"))


@lru_cache(maxsize=1)
def _authority() -> RosterAuthority:
    return RosterAuthority(_key("authority"))


def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(f"fedboard simulated {name}".encode()).digest()
    )
