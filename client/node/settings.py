"""How a device reaches its server."""

from dataclasses import dataclass
from pathlib import Path

from fedboard.client.answering.asker import LARGEST_QUESTION
from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import parse_address


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How a device reaches its server."""

    server: str
    """``host:port``."""
    root_certificate: Path
    """PEM file of the authority that vouches for the server."""
    private_key: Path
    """The node's key, as ``fedboard keys node`` makes it."""
    poll_seconds: float = 1.0
    """Mean time between two requests for work; in [0.05, 3600]. A round waits that long for this device."""
    largest: int = LARGEST_QUESTION
    """Most bytes of a message that is taken; a larger one is not read."""
    device: str | None = None
    """What the app finds as ``node_config["device"]``."""

    def __post_init__(self) -> None:
        """Check the address and the interval.

        Raises:
            InputError: one is out of range.
        """
        parse_address(self.server, name="a server's address")
        if not 0.05 <= self.poll_seconds <= 3600:
            raise InputError(f"poll_seconds must be in [0.05, 3600], got {self.poll_seconds:g}")
