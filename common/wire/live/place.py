"""Where a live page is served: on this machine unless an address says otherwise, and then in plain sight."""

import ipaddress
import socket
from dataclasses import dataclass

from fedboard.common.wire.addresses import parse_address

LOOPBACK = "127.0.0.1"
USUAL = "usual"
"""What stands for no address, in options whose address may be left out."""
RUN_PORT = 8717
"""Tried first where no address is given, so that a page that is open finds its server again after a restart."""
_NEIGHBOURS = 20
"""Ports after it that are tried next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to listen."""

    host: str
    """A name or an address; an IPv6 address without brackets."""
    ports: tuple[int, ...]
    """Tried in this order; 0 takes a free one."""

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return self.host == "localhost" or is_loopback(self.host)


def place_of(given: str, *, port: int) -> Place:
    """Read the address of a live page.

    Args:
        given: HOST:PORT, or ``USUAL`` for this machine and a port near ``port``.
        port: where it is usually served.

    Raises:
        InputError: not HOST:PORT.
    """
    if given == USUAL:
        return Place(host=LOOPBACK, ports=tuple(range(port, port + _NEIGHBOURS)))
    address = parse_address(given, name="the address of the live page (--live)", listening=True)
    return Place(host=address.host, ports=(address.port,))


def is_loopback(host: str) -> bool:
    """Whether this is an address (not a name) of the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def warning_of(place: Place) -> str | None:
    """What whoever serves the page beyond this machine must know; None on this machine."""
    if place.is_loopback:
        return None
    return (
        f"the live page is served on {place.host}, and everybody who reaches that reads it, without a password "
        "and unencrypted: budget, rounds and boards, and of a simulation its metrics, which are not private. "
        "Answers, refusals and bytes of a fleet are left out: no budget covers them. For yourself alone, leave it "
        f"on {LOOPBACK} and come through an SSH tunnel"
    )


def family_of(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """How to listen there.

    Raises:
        OSError: the name is not known.
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return family, (str(address[0]), int(address[1]))
