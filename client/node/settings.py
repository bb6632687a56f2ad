"""How a device reaches its server."""

from dataclasses import dataclass
from pathlib import Path

from fedboard.client.answering.asker import LARGEST_QUESTION
from fedboard.common.wire.addresses import parse_address


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How a device reaches its server."""

    server: str
    """``host:port``."""
    authority: Path
    """PEM file with the certificate of whoever vouches for the server."""
    key: Path
    """The device's own, see ``DeviceKey``."""
    largest: int = LARGEST_QUESTION
    """Most bytes of a question that is taken; a larger one is not read."""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            InputError: it is none.
        """
        parse_address(self.server, name="a server's address")
