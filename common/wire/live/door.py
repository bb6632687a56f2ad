"""Who is let in: a browser that asks for this page by its own address, for nobody else's page.

A page from anywhere can make its visitor's browser ask 127.0.0.1, and can point a name of its own there (DNS
rebinding). So the Host must be an address of this machine or the name that was given, never another name, and a
request that says it comes from another page gets nothing. No answer carries a CORS header.
"""

import ipaddress
import re
from collections.abc import Sequence

from fedboard.common.wire.live.place import is_loopback

_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:/\[\]@]+))(?::[0-9]{1,5})?")
_OWN = ("same-origin", "none")


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
    name = (found["six"] or found["name"]).lower()
    if listening == "localhost" or is_loopback(listening):
        return name == "localhost" or is_loopback(name)
    address = _address(listening)
    if address is None:
        return name == listening.lower()
    asked = _address(name)
    return asked is not None and (address.is_unspecified or asked == address)


def is_for_another_page(
    *, origin: str | None, host: str, site: str | None, mode: str | None, events: bool
) -> bool:
    """Whether a browser asks on behalf of a page that is not this one, as its headers tell.

    Following a link to the page is allowed from anywhere: the page alone says nothing.

    Args:
        origin: of the page that asks, if it says so.
        host: as it came.
        site: ``Sec-Fetch-Site``, if the browser sends it.
        mode: ``Sec-Fetch-Mode``.
        events: whether it asks for events.
    """
    if origin is not None and origin != f"http://{host}":
        return True
    if site is None or site in _OWN:
        return False
    return events or mode != "navigate"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
