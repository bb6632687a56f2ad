"""Servers of the product on 127.0.0.1, one of each in every process that tries messages, and what they log."""

import asyncio
import base64
import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import Any

import httpx
import uvicorn
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedboard.common.wire import direct
from fedboard.server.publishing.limits import Limits
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.serving import RunningBoards, serve_boards
from fedboard.server.publishing.signing import SigningKey, create_board_keys
from fedboard.server.fleet.door.enrolment import Enrolment, JoinLimits
from fedboard.server.fleet.door.mailbox import Mailbox, Message
from fedboard.server.fleet.door.proxy import FleetProxy
from fedboard.server.fleet.members.records import Capacity
from fedboard.server.fleet.members.register import Register
from fleets.fuzz.specimens import boards, folder

SECONDS = 20.0
"""Longest silence of a server; where it is reached, it does not serve any more."""
NODE = ec.generate_private_key(ec.SECP384R1())
_PEM = NODE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


class _Heard(logging.Handler):
    """Keeps errors that a server logs, where it goes on as if nothing had happened."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.errors.append(error or AssertionError(record.getMessage()))


@cache
def _heard() -> _Heard:
    logging.getLogger().addHandler(heard := _Heard())
    return heard


def require_silence() -> None:
    """Raise what a server has logged."""
    if _heard().errors:
        raise _heard().errors.pop(0)


def quiet_again() -> None:
    """Forget what was logged."""
    _heard().errors.clear()


def of_this_process(
    start: Callable[[], Any], *, has_ended: Callable[[Any], bool] = lambda _: False
) -> Callable[[], Any]:
    """A server's threads do not come along where a process is forked: each has one of its own, and another where
    that has ended.
    """
    running: dict[int, Any] = {}

    def get() -> Any:
        if os.getpid() not in running or has_ended(running[os.getpid()]):
            _heard()
            running[os.getpid()] = start()
        return running[os.getpid()]

    return get


def exchanged(port: int, content: bytes) -> bytes:
    """What a server on this machine answers to these bytes, with which the connection ends."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as link:
        try:
            link.sendall(content)
            link.shutdown(socket.SHUT_WR)
            while part := link.recv(1 << 16):
                found = found or part
        except ConnectionError:
            pass  # it did not want to read on
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # the same, a moment earlier
                raise
    return found


def signed_now(content: bytes) -> bytes:
    """With the headers by which the door knows a node, where ``TIME`` and ``SIGNATURE`` stand."""
    now = datetime.now(UTC).isoformat().encode()
    signature = base64.b64encode(NODE.sign(now, ec.ECDSA(hashes.SHA256())))
    return content.replace(b"{TIME}", now).replace(b"{SIGNATURE}", signature)


def signed_directly(content: bytes, work: str) -> bytes:
    """With those by which it knows a device without Flower, which sign path, body and the work that is answered."""
    content = content.replace(b"{WORK}", work.encode())
    head, _, body = content.partition(b"\r\n\r\n")
    words = head.partition(b"\r\n")[0].split(b" ")
    path = words[1].decode("ascii", "ignore") if len(words) > 1 else ""
    sender = direct.Sender(private_key=NODE, public_key=_PEM.encode())
    named = work if work.encode() in head else "-"
    for name, value in sender.headers(path, body, micros=time.time_ns() // 1000, work=named).items():
        content = content.replace(b"{%s}" % name.encode(), value.encode())
    return content


def node_name() -> bytes:
    """The public key of the node that is admitted, as a header has it."""
    return base64.b64encode(_PEM.encode())


async def _superlink(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Takes everything."""
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"answer"})


@dataclass(frozen=True, slots=True)
class Door:
    """Of a fleet."""

    port: int
    mailbox: Mailbox

    def work(self) -> str:
        """Have the node asked anew; the name of its work."""
        self.mailbox.end()
        message = Message("query.fedboard-round", b"a question", b"a board")
        self.mailbox.ask("a round", {_PEM.encode(): message}, after=0, largest=1 << 16, seconds=3600.0)
        found = self.mailbox.work_of(_PEM.encode())
        return "" if found is None else found.name


@of_this_process
def door() -> Door:
    """A fleet's door, with a SuperLink behind it that takes everything."""
    listening = socket.create_server(("127.0.0.1", 0))
    place = folder() / f"members-{os.getpid()}.sqlite"
    plenty = 10**9
    upstream = httpx.AsyncClient(transport=httpx.ASGITransport(_superlink), base_url="http://superlink")
    proxy = FleetProxy(
        upstream,
        admitted=[_PEM],
        max_request_bytes=1 << 20,
        max_bytes_per_minute=plenty,
        max_requests_per_minute=plenty,
        max_answers_per_minute=plenty,
        enrolment=Enrolment(
            introduction=b"{}",
            open_register=lambda: Register(place),
            capacity=Capacity(devices=10, users=100),
            limits=JoinLimits(of_all=plenty, of_one_address=plenty),
        ),
    )
    config = uvicorn.Config(
        proxy, http="h11", ws="none", lifespan="off", access_log=False, log_config=None, server_header=False
    )
    server = uvicorn.Server(config)
    threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True).start()
    return Door(int(listening.getsockname()[1]), proxy.direct.mailbox)


@of_this_process
def board_service() -> RunningBoards:
    """A service with two boards."""
    place = folder() / f"service-{os.getpid()}"
    place.mkdir()
    written = place / "boards"
    written.mkdir()
    for board in boards():
        board.save(written / f"board-{board.version:04d}.board")
    key = SigningKey.read(create_board_keys(place / "keys")[0])
    publish_into(Mirror(place / "mirror"), written, key=key, run="films", simulation=False)
    limits = Limits(requests_per_second=1e9, least_bytes_per_second=0.0).behind_proxy()
    return serve_boards(place / "mirror", limits=limits)


def status_of(answer: bytes) -> HTTPStatus | None:
    """Of HTTP/1; None where the connection was closed without an answer."""
    words = answer[:40].split(b" ")
    return HTTPStatus(int(words[1])) if len(words) > 1 and words[1].isdigit() else None
