"""What a public port takes on before anything is understood: connections, from where, and silent for how long."""

import ipaddress

import msgspec

from fedboard.common.errors import InputError

_HANDSHAKE_SECONDS = 20.0
_SPARED_SECONDS = 2.0


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one port."""

    connections: int
    """Open at a time; >= 1."""
    per_address: int = 256
    """Of them, from one IPv4 address or IPv6 /64 network; 0: as many as there are, for a port behind a proxy, where
    everybody has one address."""
    idle_seconds: float = 300.0
    """A connection over which nothing went for so long is closed; > 0."""
    handshake_seconds: float = _HANDSHAKE_SECONDS
    """One that has sent nothing at all after so long is closed; > 0."""
    least_bytes_per_second: float = 1024.0
    """One whose other end takes less than this over ``stall_seconds``, while bytes wait for it, is closed; >= 0."""
    stall_seconds: float = 60.0
    """> 0."""
    spared_seconds: float = _SPARED_SECONDS
    """At a limit, the connection that was silent longest makes room for a new one, if it was silent for so long."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: names the field.
        """
        ranges = {
            "connections must be >= 1": self.connections >= 1,
            "connections per address must be >= 0": self.per_address >= 0,
            "idle_seconds, handshake_seconds and stall_seconds must be > 0": min(
                self.idle_seconds, self.handshake_seconds, self.stall_seconds
            )
            > 0,
            "least_bytes_per_second must be >= 0": self.least_bytes_per_second >= 0,
        }
        for rule, holds in ranges.items():
            if not holds:
                raise InputError(rule)

    @property
    def of_one(self) -> int:
        """Most connections of one address."""
        return min(self.per_address or self.connections, self.connections)


def network_of(address: str) -> str:
    """The address itself, or of IPv6 the first 64 bits, which one household or machine has to itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "other"
    if parsed.version == 6 and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
