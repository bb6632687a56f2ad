"""HTTP responses of a bounded size: what a server announces is held against the limit, and what comes is counted.

A response is taken as it is and never unpacked, since a thousand compressed bytes may stand for a million; and no
server can send a node elsewhere.
"""

from collections.abc import Iterator

import httpx

from fedboard.client.node.tally import Traffic
from fedboard.common.wire.refusals import Refusal, RefusedError

_AS_IT_IS = "identity"


def bound_responses(client: httpx.Client, *, largest: int, traffic: Traffic | None = None) -> None:
    """From now on a response of more bytes, or a compressed one, is not read but refused.

    Args:
        client: makes the requests; they raise ``RefusedError``, ``too-large`` or ``malformed``.
        largest: most bytes of a response's body.
        traffic: counts what is sent and received; None: nobody counts.
    """
    counted = traffic or Traffic()

    def ask(request: httpx.Request) -> None:
        request.headers["accept-encoding"] = _AS_IT_IS
        counted.sent += int(request.headers.get("content-length", "0"))

    def hold(response: httpx.Response) -> None:
        if response.headers.get("content-encoding", _AS_IT_IS) != _AS_IT_IS:
            raise RefusedError(Refusal.MALFORMED)
        announced = response.headers.get("content-length", "0")
        if not announced.isdecimal() or len(announced) > 15 or int(announced) > largest:
            raise RefusedError(Refusal.TOO_LARGE)
        assert isinstance(response.stream, httpx.SyncByteStream)  # of a client that is not asynchronous
        response.stream = _Counted(response.stream, largest, counted)

    client.event_hooks = {"request": [ask], "response": [hold]}
    client.follow_redirects = False


class _Counted(httpx.SyncByteStream):
    """A body, up to so many bytes."""

    def __init__(self, stream: httpx.SyncByteStream, largest: int, traffic: Traffic) -> None:
        self._stream, self._left, self._traffic = stream, largest, traffic

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._left -= len(piece)
            self._traffic.received += len(piece)
            if self._left < 0:
                raise RefusedError(Refusal.TOO_LARGE)
            yield piece

    def close(self) -> None:
        self._stream.close()
