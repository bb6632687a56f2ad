"""File descriptors: whether this process may open as many as its limits need, found out before anybody connects."""

import resource
from contextlib import suppress

from fedboard.common.errors import InputError

_EACH = 3
"""Of one connection: the one outside, and the two ends of the one inside."""
_LEAST_CONNECTIONS = 32


def room_for(connections: int | None, *, most: int, others: int, key: str) -> int:
    """Raise this process's soft limit as far as is needed, and say how many connections it has room for.

    Args:
        connections: that are wanted; None: as many as there is room for.
        most: where none are named, seek room for no more than this.
        others: descriptors for everything else.
        key: of the setting, for the message.

    Returns:
        The connections that are wanted, or as many as fit.

    Raises:
        InputError: they do not fit in what this account may open.
    """
    wanted = most if connections is None else connections
    allowed = _raised(others + _EACH * wanted)
    fits = (allowed - others) // _EACH
    if fits >= wanted:
        return wanted
    if connections is None and fits >= _LEAST_CONNECTIONS:
        return fits
    raise InputError(
        f"{key} is {wanted}, which needs {others + _EACH * wanted} file descriptors, and this account may open "
        f"{allowed}; raise its limit (ulimit -Hn, or LimitNOFILE= of a systemd unit), or set {key} to at most "
        f"{max(fits, 0)}"
    )


def _raised(needed: int) -> int:
    """How many descriptors this process may open, after its soft limit was raised for as many, where it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed if soft == resource.RLIM_INFINITY else soft
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with suppress(OSError, ValueError):  # a system may have a limit of its own beside this one
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
