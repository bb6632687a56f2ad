"""The door for devices that come without Flower, and what such a device makes of its answers: over sockets."""

import http.client

from fleets.fuzz.serving import NODE, door, exchanged, signed_directly
from fleets.fuzz.specimens import authority
from fleets.fuzz.targets.sockets import answered_with, sound_status
from fleets.fuzz.trials import Parser

from fedboard.client.node.connection import DirectConnection, DoorError
from fedboard.common.wire import direct as wire

_SIGNED = b"".join(
    b"%s: {%s}\r\n" % (name.encode(), name.encode())
    for name in (wire.KEY, wire.TIME, wire.DIGEST, wire.SIGNATURE)
)
_REQUEST = (
    b"POST %s HTTP/1.1\r\nHost: fleet\r\nfedboard-version: 1\r\nfedboard-pause: 2\r\nConnection: close\r\n"
    + _SIGNED
    + b"fedboard-work: %s\r\nContent-Length: %d\r\n\r\n%s"
)
_RESPONSE = (
    b"HTTP/1.1 200 OK\r\nfedboard-pause: 1.500\r\nfedboard-work: 00ff\r\nfedboard-kind: query.fedboard-round\r\n"
    b"fedboard-frame-bytes: 5\r\nContent-Length: 10\r\n\r\nframeboard"
)
_NOTHING = b"HTTP/1.1 204 No Content\r\nfedboard-pause: 3600\r\nConnection: close\r\n\r\n"


def direct_parsers() -> list[Parser]:
    """Of both sides."""
    answer = b"a sealed reply"
    return [
        Parser(
            name="server/direct-request",
            read=_door_answers,
            refusals=(),
            specimens=(
                _REQUEST % (wire.WORK_PATH.encode(), b"-", 0, b""),
                _REQUEST % (wire.ANSWER_PATH.encode(), b"{WORK}", len(answer), answer),
            ),
            form="lines",
            share=0.3,
        ),
        Parser(
            name="device/direct-answer",
            read=answered_with(_work_of_device),
            refusals=(OSError, http.client.HTTPException, DoorError),
            specimens=(_RESPONSE, _NOTHING),
            form="lines",
            share=0.3,
        ),
    ]


def _door_answers(content: bytes) -> object:
    there = door()
    return sound_status(exchanged(there.port, signed_directly(content, there.work())))


def _work_of_device() -> object:
    connection = DirectConnection(
        address="127.0.0.1:8443",
        root_certificate=authority().read_text(),
        private_key=NODE,
        largest=1 << 20,
        poll_seconds=2.0,
    )
    try:
        return connection.receive()
    finally:
        connection.close()
