"""Ports on 127.0.0.1 for servers that a test starts."""

import os
import socket
from contextlib import ExitStack, suppress
from itertools import count

_FIRST, _EACH = 20_000, 1_000
"""Below the ports that systems hand out for connections, and a thousand for each process of ``pytest -n``."""
_handed_out = count()


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on, nobody connects from and no other test process takes."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 12
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < number:
            port = _FIRST + _EACH * worker + (os.getpid() + next(_handed_out)) % _EACH
            one = held.enter_context(socket.socket())
            with suppress(OSError):
                one.bind(("127.0.0.1", port))
                found.append(port)
    return found
