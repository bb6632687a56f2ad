"""Network addresses as people write them: HOST:PORT, checked wherever one is read."""

import re
from typing import NamedTuple

from fedboard.common.errors import InputError

_FORM = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+(%[\w.-]+)?\]|[^\s:/\[\]@]+):(?P<port>[0-9]{1,5})")
LARGEST_PORT = 65535


class Address(NamedTuple):
    """Where something listens."""

    host: str
    """A name, an IPv4 address, or an IPv6 address without its brackets."""
    port: int

    @property
    def text(self) -> str:
        """HOST:PORT, with brackets about an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, *, name: str, listening: bool = False) -> Address:
    """Read HOST:PORT strictly: what else would be looked up, wrapped around or cut off is refused.

    gRPC takes the port modulo 2^16: told to listen on 99999 it listens on 34463.

    Args:
        text: as written; IPv6 addresses in brackets.
        name: of the setting, for the message.
        listening: whether port 0 is allowed, which takes a free one.

    Raises:
        InputError: another form, or a port out of range.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(
            f"{name} is HOST:PORT and nothing else, such as fedboard.example.org:8443, got {text!r}"
        )
    port = int(match["port"])
    if not (0 if listening else 1) <= port <= LARGEST_PORT:
        free = " (0 takes a free one)" if listening else ""
        least = 0 if listening else 1
        raise InputError(f"the port of {name} must be in [{least}, {LARGEST_PORT}]{free}, got {port}")
    return Address(match["host"].strip("[]"), port)


def is_address(text: str) -> bool:
    """Whether this has the form of HOST:PORT; the port may be out of range."""
    return _FORM.fullmatch(text) is not None
