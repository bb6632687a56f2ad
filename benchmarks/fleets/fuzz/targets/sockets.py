"""Any bytes at all to the ports of a server, and to a device that asks one: over real sockets of this machine."""

import http.client
import socket
import time
from collections.abc import Callable, Mapping
from functools import cache
from unittest.mock import patch

import grpc
from fleets.fuzz.serving import (
    SECONDS,
    board_service,
    door,
    exchanged,
    node_name,
    of_this_process,
    quiet_again,
    require_silence,
    signed_now,
    status_of,
)
from fleets.fuzz.specimens import authority, introduction, node
from fleets.fuzz.trials import Parser

from fedboard.client.joining.introducing import NotAdmittedError, ask_to_join, introduced
from fedboard.common.boards.boards_pb2 import (
    GetRequest,
    LatestRequest,
    WatchRequest,
)
from fedboard.common.boards.methods import GET, LATEST, ROOT, WATCH, method
from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import load_private_key
from fedboard.common.keys.roster import IdentityKey
from fedboard.common.wire.addresses import Address
from fedboard.common.wire.enrolment import Introduction, Invitation, JoinRequest, digest_of_introduction

_MOST = 100_000
"""Bytes of an answer: so many fit between two ends of which nobody reads."""
_METHODS = (LATEST, GET, WATCH, ROOT)
_OK = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,  # gRPC's own, of what is no message of the method
        grpc.StatusCode.CANCELLED,
    }
)


class _RefusedCallError(Exception):
    """With a status that the service may give."""


def socket_parsers() -> list[Parser]:
    """Of both sides."""
    return [*_of_servers(), *_of_joining()]


def _of_servers() -> list[Parser]:
    fleet = (
        b"POST /v1/fleet/%s HTTP/1.1\r\nHost: fleet\r\nContent-Type: application/protobuf\r\n"
        b"flwr-public-key: " + node_name() + b"\r\nflwr-timestamp: {TIME}\r\nflwr-signature: {SIGNATURE}\r\n"
        b"fedboard-version: 1\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
    )
    chunked = fleet.replace(
        b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    join = b'{"secret":"00"}'
    requests = (
        fleet % b"pull-messages",
        chunked % b"push-object",
        b"GET /v1/enrolment/introduction HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\r\n",
        b"POST /v1/enrolment/join HTTP/1.1\r\nHost: fleet\r\nContent-Length: %d\r\n\r\n%s"
        % (len(join), join),
    )
    calls = [(GET, GetRequest(version=1)), (GET, GetRequest(version=1, encoding="exact", offset=3))]
    calls += [(LATEST, LatestRequest()), (WATCH, WatchRequest(known=0))]
    named = tuple(bytes([_METHODS.index(name)]) + message.SerializeToString() for name, message in calls)
    frames = tuple(_http2(name, message.SerializeToString()) for name, message in calls)
    return [
        Parser(
            name="server/door-http",
            read=_door_answers,
            refusals=(),
            specimens=requests,
            form="lines",
            share=0.2,
        ),
        Parser(
            name="server/board-calls",
            read=_service_answers,
            refusals=(_RefusedCallError,),
            specimens=named,
            share=0.2,
        ),
        Parser(name="server/board-http2", read=_service_takes, refusals=(), specimens=frames, share=0.1),
    ]


def _door_answers(content: bytes) -> object:
    return sound_status(exchanged(door().port, signed_now(content)))


def sound_status(answer: bytes) -> object:
    """What a door has answered; raises where it has failed."""
    status = status_of(answer)
    require_silence()
    if status is not None and status >= 500 and status not in (502, 503):
        raise AssertionError(f"the door answers {status}")
    return status


def _service_answers(content: bytes) -> object:
    name = _METHODS[content[0] % len(_METHODS)] if content else LATEST
    many = name in (GET, WATCH)
    channel = _channel()
    make = channel.unary_stream if many else channel.unary_unary
    call = make(method(name), request_serializer=bytes, response_deserializer=bytes)
    code, told = grpc.StatusCode.OK, ""
    try:
        if not many:
            call(content[1:], timeout=SECONDS)
        else:
            stream = call(content[1:], timeout=0.05 if name == WATCH else SECONDS)
            for _ in stream:
                if name == WATCH:
                    break
            stream.cancel()
    except grpc.RpcError as error:
        code, told = error.code(), error.details()  # type: ignore[attr-defined]  # of all that are raised here
    require_silence()
    if name == WATCH and code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return code  # there was nothing new
    if code not in _OK and "DecodeError" not in told:  # which is gRPC's own word for what is no message
        raise AssertionError(f"the service answers {code}")
    if code is not grpc.StatusCode.OK:
        raise _RefusedCallError(code.name)
    return code


@of_this_process
def _channel() -> grpc.Channel:
    options = [("grpc.max_receive_message_length", 1 << 24), ("grpc.enable_http_proxy", 0)]
    return grpc.insecure_channel(f"127.0.0.1:{board_service().port}", options=options)


def _service_takes(content: bytes) -> object:
    """What gRPC logs of it is not looked at; a sound request must be answered afterwards, as ever."""
    answer = exchanged(board_service().port, content)
    ends = time.monotonic() + SECONDS
    while not _is_served():
        if time.monotonic() > ends:
            raise AssertionError("the service answers nobody any more")
    quiet_again()
    return len(answer) > 0


def _is_served() -> bool:
    sound = _channel().unary_unary(method(LATEST), request_serializer=bytes, response_deserializer=bytes)
    try:
        return len(sound(b"", timeout=SECONDS, wait_for_ready=True)) > 0
    except grpc.RpcError:  # it came just as the server ended, of which another takes the place
        return False


def _http2(name: str, message: bytes) -> bytes:
    """A call as a client writes it: preface, settings, headers without compression, one message."""
    headers = [(":method", "POST"), (":scheme", "http"), (":path", method(name)), (":authority", "fleet")]
    headers += [("content-type", "application/grpc"), ("te", "trailers")]
    block = b"".join(
        b"\0" + b"".join(bytes([len(word)]) + word.encode() for word in header) for header in headers
    )
    data = b"\0" + len(message).to_bytes(4, "big") + message
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + _frame(4, 0, 0, b"")
        + _frame(1, 4, 1, block)
        + _frame(0, 1, 1, data)
    )


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _of_joining() -> list[Parser]:
    """Answers to a device that asks to join, from whoever has the server's key, or claims to be it."""
    own = introduction(authority().read_text()).to_bytes()
    readers: Mapping[str, tuple[Callable[[], object], bytes]] = {
        "device/join-answer": (lambda: ask_to_join(*_asking()), b'{"name":"ann","max_users":3}'),
        "device/introduction-answer": (lambda: introduced(_asking()[0]), own),
    }
    return [
        Parser(
            name=name,
            read=answered_with(read),
            refusals=(InputError, NotAdmittedError),
            specimens=(http_answer(content),),
            form="lines",
            share=0.3,
        )
        for name, (read, content) in readers.items()
    ]


@cache
def _asking() -> tuple[Invitation, Introduction, JoinRequest]:
    own = introduction(authority().read_text())
    digest = digest_of_introduction(own.to_bytes())
    invitation = Invitation(address=Address("127.0.0.1", 8443), introduction=digest, secret=bytes(32))
    line = " ".join(node().with_suffix(".pub").read_text().split()[:2])
    key = load_private_key(node())
    return (
        invitation,
        own,
        JoinRequest.made(key, line, IdentityKey(), secret=bytes(32), introduction=digest, version="1"),
    )


def http_answer(content: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(content),
        content,
    )


def answered_with(read: Callable[[], object]) -> Callable[[bytes], object]:
    """What a device makes of these bytes, when it has asked for something and they come back."""

    class Connection(http.client.HTTPConnection):
        """The other end has written already, and is closed."""

        answer = b""

        def __init__(self, host: str, port: int, *, timeout: float, context: object) -> None:
            super().__init__(host, port, timeout=timeout)

        def connect(self) -> None:
            self.sock, self.other = socket.socketpair()
            self.sock.settimeout(SECONDS)
            self.other.sendall(self.answer[:_MOST])
            self.other.shutdown(socket.SHUT_WR)

    def from_bytes(content: bytes) -> object:
        Connection.answer = content
        with patch.object(http.client, "HTTPSConnection", Connection):
            return read()

    return from_bytes
