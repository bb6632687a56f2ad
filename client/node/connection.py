"""A device at its server's door: fetch a message, hand in the reply, each in one signed request over TLS.

What comes is bounded before it is read, and nothing of a response is followed, unpacked or executed. The base
install is enough for it.
"""

import http.client
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedboard.client.node.tally import Traffic
from fedboard.common.errors import FedboardError
from fedboard.common.wire import direct as wire
from fedboard.common.wire.addresses import parse_address

_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 20.0
"""After which a connection is not used again: a server closes those that were silent for longer."""
_SLACK_BYTES: Final = 1 << 16
_INSTALLED: Final = version("fedboard")
_MOST_DIGITS: Final = 15
_LONGEST_NAME: Final = 64


class DoorError(FedboardError):
    """The server answered, and not with what was asked for."""

    def __init__(self, status: int) -> None:
        """Keep the status.

        Args:
            status: of HTTP; 0 where the response was none that a server of a fleet gives.
        """
        super().__init__(f"status {status}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Received:
    """What is to be answered."""

    work: str
    """Its name."""
    kind: str
    frame: bytes | None
    """None: it is larger than is taken, and was not read."""
    board: bytes | None
    """That came beside it."""


class DirectConnection:
    """One device's requests. Each may raise ``OSError``, ``http.client.HTTPException`` or ``DoorError``."""

    def __init__(
        self,
        *,
        address: str,
        root_certificate: str,
        private_key: ec.EllipticCurvePrivateKey,
        largest: int,
        poll_seconds: float,
        traffic: Traffic | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make ready; nothing is sent yet.

        Args:
            address: ``host:port`` of the server.
            root_certificate: PEM text of the authority that vouches for it.
            private_key: the device's; its public half is known to the server.
            largest: most bytes of a message that is taken.
            poll_seconds: after which the device comes again, if the server does not ask for more.
            traffic: counts the bytes, if anybody does.
            clock: seconds since 1970 UTC.
        """
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusted.minimum_version = ssl.TLSVersion.TLSv1_2
        trusted.load_verify_locations(cadata=root_certificate)
        host, port = parse_address(address, name="a server's address")
        self._https = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=trusted)
        public = private_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self._sender = wire.Sender(private_key=private_key, public_key=public)
        self._largest = largest + _SLACK_BYTES
        self._poll_seconds, self._traffic, self._clock = poll_seconds, traffic or Traffic(), clock
        self._micros, self._used = 0, float("-inf")
        self.pause = 0.0
        """Seconds after which the server asks the device to come again."""

    def receive(self) -> Received | None:
        """What there is to answer; None where there is nothing."""
        response = self._ask(wire.WORK_PATH, b"", work=None)
        self.pause = wire.seconds_of(response.getheader(wire.PAUSE, ""))
        if response.status == http.HTTPStatus.NO_CONTENT:
            response.read()
            return None
        name, kind = response.getheader(wire.WORK, ""), response.getheader(wire.KIND, "")
        n_bytes, n_frame = (_number(response.getheader(key)) for key in ("content-length", wire.FRAME_BYTES))
        if not 0 < len(name) <= _LONGEST_NAME or not name.isalnum() or not 0 <= n_frame <= n_bytes:
            self.close()
            raise DoorError(0)
        if n_bytes > self._largest:
            self.close()  # unread
            return Received(name, kind, None, None)
        content = response.read(n_bytes)
        if len(content) != n_bytes:
            raise http.client.IncompleteRead(content)
        self._traffic.received += n_bytes
        return Received(name, kind, content[:n_frame], content[n_frame:] or None)

    def send(self, work: str, reply: bytes) -> None:
        """Hand in the reply to a message.

        Args:
            work: name of the message.
            reply: what is said.
        """
        self._ask(wire.ANSWER_PATH, reply, work=work).read()
        self._traffic.sent += len(reply)

    def close(self) -> None:
        """Until the next request."""
        self._https.close()

    def _ask(self, path: str, body: bytes, *, work: str | None) -> http.client.HTTPResponse:
        now = self._clock()
        if now - self._used > _IDLE_SECONDS or now < self._used:
            self._https.close()
        self._micros = max(int(now * 1_000_000), self._micros + 1)
        signed = self._sender.headers(
            path, body, micros=self._micros, **({} if work is None else {"work": work})
        )
        plain = {
            wire.VERSION: _INSTALLED,
            wire.PAUSE: f"{self._poll_seconds:g}",
            "Accept-Encoding": "identity",
        }
        try:
            self._https.request("POST", path, body=body, headers={**signed, **plain})
            response = self._https.getresponse()
        except BaseException:
            self._https.close()
            raise
        self._used = self._clock()
        if response.status not in (http.HTTPStatus.OK, http.HTTPStatus.NO_CONTENT):
            self._https.close()
            raise DoorError(response.status)
        if response.getheader("content-encoding", "identity") != "identity":
            self._https.close()
            raise DoorError(0)
        return response


def _number(text: str | None) -> int:
    """A number of bytes; -1 for what is none."""
    given = text or ""
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= _MOST_DIGITS else -1
