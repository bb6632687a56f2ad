"""Whether a fleet's server can listen where it is told to: each port is tried once before anything is started."""

import errno
import socket
import time

from fedboard.common.errors import InputError
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.processes.proxy_process import connection_limits

_LOCAL = "127.0.0.1"
_AGAIN_SECONDS = 0.1
_ADVICE = {
    errno.EADDRINUSE: "another process listens there; end it or choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have that address; give one of its own, or 0.0.0.0 for all",
    errno.EACCES: "this account may not listen there; choose a port from 1024 up",
}


def require_free_ports(settings: FleetSettings, *, patience: float = 0.0) -> None:
    """Try every port on its address.

    Args:
        settings: of the fleet.
        patience: how long a port that is in use may stay so, seconds.

    Raises:
        InputError: an address is none or not of this machine, or a port is in use.
    """
    deadline = time.monotonic() + patience
    for key, host, port in _places(settings):
        while (problem := _problem(host, port)) is not None:
            in_use = problem.errno == errno.EADDRINUSE
            if not in_use or time.monotonic() >= deadline:
                advice = _ADVICE.get(problem.errno or 0, f"{problem.strerror}; give another address")
                raise InputError(f"{key}: cannot listen on {host}:{port}: {advice}")
            time.sleep(_AGAIN_SECONDS)


def require_descriptors(settings: FleetSettings) -> None:
    """Check that each process of the server may open as many files as its connections need.

    Raises:
        InputError: it may not.
    """
    connection_limits(settings.network)


def _places(settings: FleetSettings) -> list[tuple[str, str, int]]:
    network, board = settings.network, settings.board
    places = [
        ("network.listen and port", network.listen, network.port),
        ("network.superlink_port", _LOCAL, network.superlink_port),
    ]
    if board.enabled:
        places.append(("board.listen and port", board.listen, board.port))
    if board.metrics_port is not None:
        places.append(("board.metrics_port", _LOCAL, board.metrics_port))
    return places


def _problem(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
            trial.bind(address)
            trial.listen(1)
    except OSError as error:
        return error
    return None
