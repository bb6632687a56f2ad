"""How many connections a board service takes, from its limits and what this process may open."""

from fedboard.server.board_service.limits import Limits
from fedboard.server.front.descriptors import room_for
from fedboard.server.front.limits import ConnectionLimits

_MOST_CONNECTIONS, _OTHER_DESCRIPTORS = 12_000, 512


def of_service(limits: Limits, *, key: str = "connections") -> ConnectionLimits:
    """Of its port; the soft limit of file descriptors of this process is raised to hold them.

    Args:
        limits: of the service.
        key: of the setting, for the message.

    Raises:
        InputError: this process may not open as many.
    """
    return ConnectionLimits(
        connections=room_for(limits.connections, most=_MOST_CONNECTIONS, others=_OTHER_DESCRIPTORS, key=key),
        per_address=limits.connections_per_address,
        idle_seconds=limits.idle_seconds,
    )
