"""The part of the door that strangers may use: a device introduces itself with an invitation, and is a member.

Two requests, over the same TLS port. What the server hands over first is public; what a device sends then is
looked at only as often as the limits allow, is small, and admits it in one transaction of the register. Everything
else at these places gets what it gets anywhere: not found.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from fedboard.common.errors import InputError, StorageError
from fedboard.common.keys.node_keys import public_key_pem
from fedboard.common.wire.enrolment import (
    INTRODUCTION_PATH,
    JOIN_PATH,
    LARGEST_REQUEST,
    JoinAnswer,
    JoinError,
    JoinRefusal,
    JoinRequest,
    digest_of_introduction,
)
from fedboard.server.fleet.door.allowance import Allowance
from fedboard.server.fleet.door.replies import Receive, Send, TooLargeError, answer, refuse, small_body
from fedboard.server.fleet.members.records import Capacity
from fedboard.server.fleet.members.register import Register

INTRODUCTION: Final = INTRODUCTION_PATH.encode()
JOIN: Final = JOIN_PATH.encode()
_STATUS: Final = {
    JoinRefusal.MALFORMED: 400,
    JoinRefusal.TOO_OFTEN: 429,
    JoinRefusal.FULL: 409,
    JoinRefusal.CLOSED: 404,
}
_REFUSED, _FAILED = 403, 503
_LONGEST_VERSION = 32
_ALL = "all"


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """How many requests to join are looked at in a minute."""

    of_all: int
    of_one_address: int


@dataclass(slots=True, kw_only=True)
class Enrolment:
    """Admits devices. Nothing of a request is logged; what becomes of it is counted by code."""

    introduction: bytes
    """What is handed over; an invitation holds for this and no other."""
    open_register: Callable[[], Register]
    """For one request, in a thread of its own."""
    capacity: Capacity
    limits: JoinLimits
    carrier: Literal["flower", "direct"] = "flower"
    """How devices that join are told to fetch questions."""
    network_of: Callable[[int], str] = lambda _: "other"
    """Where the connection from this port of our own machine comes from."""
    counts: Counter[str] = field(default_factory=Counter)
    """Requests to join, by what became of them: ``joined``, or a code."""
    _of_all: Allowance = field(init=False)
    _of_one: Allowance = field(init=False)

    def __post_init__(self) -> None:
        """Everybody may begin."""
        self._of_all = Allowance(per_minute=self.limits.of_all)
        self._of_one = Allowance(per_minute=self.limits.of_one_address)

    async def serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> int:
        """Serve a stranger; the status."""
        wanted = "GET" if scope["raw_path"] == INTRODUCTION else "POST"
        if scope["method"] != wanted or scope["query_string"]:
            await refuse(send, 404)
            return 404
        port = int((scope.get("client") or ("", 0))[1])
        if not self.admits_request(self.network_of(port)):
            status, body = refused(JoinRefusal.TOO_OFTEN)
        elif wanted == "GET":
            status, body = 200, self.introduction
        else:
            try:
                content = await small_body(receive, largest=LARGEST_REQUEST)
            except (TooLargeError, TimeoutError, ConnectionResetError):
                await refuse(send, 413)
                return 413
            status, body = await self.join(content)
        await answer(send, status, body, kind=b"application/json")
        return status

    def admits_request(self, network: str) -> bool:
        """Whether a request to join from this network is read at all; if so, it is counted.

        Args:
            network: an address, or of IPv6 a network.
        """
        if self._of_one.take(network, 1) and self._of_all.take(_ALL, 1):
            return True
        self.counts[JoinRefusal.TOO_OFTEN] += 1
        return False

    async def join(self, content: bytes) -> tuple[int, bytes]:
        """Status and answer to a request that was read whole."""
        try:
            joined = await asyncio.to_thread(self._joined, content)
            self.counts["joined"] += 1
            return 200, msgspec.json.encode(joined)
        except JoinError as error:
            self.counts[error.code] += 1
            return refused(error.code)
        except (sqlite3.Error, StorageError):
            self.counts["failed"] += 1
            return _FAILED, b""

    def _joined(self, content: bytes) -> JoinAnswer:
        request = JoinRequest.read(content)
        secret = request.proven(introduction=digest_of_introduction(self.introduction))
        try:
            key = public_key_pem(request.public_key, source="public_key")
        except InputError:
            raise JoinError(JoinRefusal.MALFORMED) from None
        version = request.version[:_LONGEST_VERSION] if request.version.isascii() else ""
        with self.open_register() as register:
            member = register.join(
                secret, key, capacity=self.capacity, version=version, identity=request.identity
            )
        return JoinAnswer(name=member.name, max_users=member.max_users, carrier=self.carrier)


def refused(code: JoinRefusal) -> tuple[int, bytes]:
    """Status and answer of a refusal."""
    return _STATUS.get(code, _REFUSED), msgspec.json.encode(JoinAnswer(refused=code.value))
