"""A second reader on this machine: a relay that reaches a port from another loopback address."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 1 << 16


@contextmanager
def reached_from(address: str, port: int) -> Iterator[int]:
    """A port whose connections go on to ``port`` of this machine, and seem to come from ``address`` there."""
    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listening.accept()
                    far = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
                    opened.extend((near, far))
                    for one, other in ((near, far), (far, near)):
                        threading.Thread(target=_pump, args=(one, other), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for one in opened:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(_PIECE):
            other.sendall(data)
        other.shutdown(socket.SHUT_RDWR)
