"""What of a changed ``fleet.toml`` a running server takes over, and what waits for its next start."""

from typing import Any

import msgspec

from fedboard.common.errors import InputError
from fedboard.server.fleet.plan.settings import FleetSettings

_LIVE = "nodes"
"""``[[nodes]]`` are read again; whatever else differs is named."""


def waiting_keys(running: FleetSettings, read: FleetSettings) -> list[str]:
    """Settings that differ and take effect when the server is started again, as ``section.key``.

    Args:
        running: with which the server was started.
        read: what the file says now.
    """
    before, after = (msgspec.to_builtins(one, enc_hook=str) for one in (running, read))
    return sorted(_differing({**before, _LIVE: None}, {**after, _LIVE: None}, ""))


def require_room(running: FleetSettings, read: FleetSettings) -> None:
    """Hold new ``[[nodes]]`` against what the sums of this training are sized for.

    Raises:
        InputError: they host more users than at the start.
    """
    users, most = (sum(node.max_users for node in one.nodes) for one in (read, running))
    if users > most:
        raise InputError(
            f"[[nodes]] host {users} users now, and sums are sized for {most}; start the server again to take more"
        )


def _differing(before: Any, after: Any, place: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted(before.keys() | after.keys()):
            inner = f"{place}.{key}" if place else str(key)
            found += _differing(before.get(key), after.get(key), inner)
        return found
    return [] if before == after else [place]
