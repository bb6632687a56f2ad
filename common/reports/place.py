"""Where a live page is served, on this machine unless an address says otherwise; and to whom.

A page from anywhere can make its visitor's browser ask 127.0.0.1, and can point a name of its own there (DNS
rebinding). So the Host must be an address of this machine or the name that was given, never another name, and a
request that says it comes from another page gets nothing. No answer carries a CORS header.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from fedboard.common.messages.addresses import parse_address

LOOPBACK = "127.0.0.1"
USUAL = "usual"
"""What stands for no address, in options whose address may be left out."""
RUN_PORT = 8717
"""Tried first where no address is given, so that a page that is open finds its server again after a restart."""
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:/\[\]@]+))(?::[0-9]{1,5})?")
_OWN = ("same-origin", "none")
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


def place_of(given: str, *, port: int, name: str = "the address of the live page (--live)") -> Place:
    """Read the address of a live page.

    Args:
        given: HOST:PORT, or ``USUAL`` for this machine and a port near ``port``.
        port: where it is usually served.
        name: of the setting, for errors.

    Raises:
        InputError: not HOST:PORT.
    """
    if given == USUAL:
        return Place(host=LOOPBACK, ports=tuple(range(port, port + _NEIGHBOURS)))
    address = parse_address(given, name=name, listening=True)
    return Place(host=address.host, ports=(address.port,))


def is_loopback(host: str) -> bool:
    """Whether this is an address (not a name) of the machine itself."""
    address = _address(host)
    return address is not None and address.is_loopback


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


def is_own_host(headers: Sequence[str], *, listening: str) -> bool:
    """Whether the Host of a request is one by which this page may be asked for.

    The port is not looked at: it may be another one behind a tunnel.

    Args:
        headers: every ``Host`` header of the request, as it came.
        listening: the host that the server was told to listen on.
    """
    found = _HOST.fullmatch(headers[0]) if len(headers) == 1 else None
    if found is None:
        return False
    name, address = (found["six"] or found["name"]).lower(), _address(listening)
    if listening == "localhost" or is_loopback(listening) or (address is not None and address.is_unspecified):
        here = name == "localhost" or is_loopback(name)
        return here or (address is not None and address.is_unspecified and _address(name) is not None)
    if address is None:
        return name == listening.lower()
    return _address(name) == address


def is_for_another_page(*, origin: str | None, host: str, site: str | None, mode: str | None) -> bool:
    """Whether a browser asks on behalf of a page that is not this one, as its headers tell.

    Following a link to the page is allowed from anywhere: the page alone says nothing.

    Args:
        origin: of the page that asks, if it says so.
        host: as it came.
        site: ``Sec-Fetch-Site``, if the browser sends it.
        mode: ``Sec-Fetch-Mode``.
    """
    if origin is not None and origin != f"http://{host}":
        return True
    return site is not None and site not in _OWN and mode != "navigate"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
