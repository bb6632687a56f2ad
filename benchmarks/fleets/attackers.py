"""Whoever means a fleet's server ill, while devices take part: members that stall, flood or replay, and strangers.

    python benchmarks/fleets/attackers.py PLAN

PLAN is a JSON file, see ``AttackPlan``. Until SIGTERM:

* ``stalling`` members take work, say that an answer comes, and send none of it; or take a question and do not read;
* ``flooding`` members call as fast as they can, with answers that are none;
* ``replaying`` members send each of their calls again, and again with other bytes, and strangers send it too;
* ``idle`` connections are opened and left: half of them say nothing at all, half have done the TLS handshake.

Meanwhile a reader makes a call over a connection of its own once a second: how long that takes is measured.
"""

import hashlib
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import grpc
import msgspec

from fedboard.client.participation.config import load_device
from fedboard.client.participation.connection import CallError, ServerConnection, chunks
from fedboard.common.boards.boards_pb2 import FetchRequest
from fedboard.common.boards.layout import LATEST
from fedboard.common.boards.methods import FETCH, method
from fedboard.common.messages.devices import CHUNK_BYTES, DeviceKey, Method
from fedboard.common.messages.devices_pb2 import AnswerChunk, WorkRequest
from fleets.swarm import percentiles

_WORK = WorkRequest(version="0").SerializeToString()
_STALL_SECONDS = 20.0
_FLOOD_PAUSE = 0.002
"""So that what is measured is the server, and not who has more of this machine."""


class AttackPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one process does."""

    address: str
    authority: str
    """PEM file."""
    stalling: list[str]
    """Folders of such members."""
    flooding: list[str]
    replaying: list[str]
    idle: int
    told: str


class Member:
    """A device that has joined, and calls as it likes."""

    def __init__(self, folder: str, plan: AttackPlan, counts: Counter[str]) -> None:
        """Nothing is sent yet."""
        server = load_device(Path(folder) / "device.toml").server
        assert server is not None
        self.key, self.counts, self._micros = DeviceKey.load(server.key), counts, 0
        self.authority = Path(plan.authority).read_text()
        self.connection = ServerConnection(
            address=plan.address, authority=self.authority, key=self.key, largest=1 << 26
        )

    def signed(self, named: Method, content: bytes, **work: str) -> Any:
        """Metadata of a call."""
        self._micros = max(int(time.time() * 1e6), self._micros + 1)
        return self.key.metadata(named, hashlib.sha256(content).hexdigest(), micros=self._micros, **work)

    def call(self, named: Method, parts: Iterator[bytes], metadata: Any, *, timeout: float = 30.0) -> str:
        """One call of any method; the name of its status."""
        call = self.connection._open().stream_stream(named.path)(parts, timeout=timeout, metadata=metadata)
        try:
            for _ in call:
                pass
            status = "OK"
        except grpc.RpcError as error:
            status = error.code().name
        self.counts[f"{named.value} {status}"] += 1
        return status

    def work(self) -> str:
        """Name of what is to be answered; empty for nothing."""
        try:
            received = self.connection.receive()
        except CallError as error:
            self.counts[f"receive {error.trouble.name}"] += 1
            return ""
        return "" if received is None else received.work


def stall(member: Member, stop: threading.Event) -> None:
    """Say that an answer comes, and let it not come; or do not read what was asked for."""

    def nothing() -> Iterator[bytes]:
        yield AnswerChunk(content=bytes(CHUNK_BYTES)).SerializeToString()
        stop.wait(_STALL_SECONDS)

    while not stop.wait(0.5):
        if name := member.work():
            member.counts["stalled"] += 1
            member.call(Method.ANSWER, nothing(), member.signed(Method.ANSWER, b"answer", work=name))
        unread = member.connection._open().unary_stream(Method.WORK.path)
        call = unread(_WORK, timeout=_STALL_SECONDS, metadata=member.signed(Method.WORK, _WORK))
        stop.wait(1.0)
        call.cancel()


def flood(member: Member, stop: threading.Event) -> None:
    """Ask without end, and hand in what is no answer."""
    junk = os.urandom(3 * CHUNK_BYTES)
    while not stop.wait(_FLOOD_PAUSE):
        member.call(Method.WORK, iter([_WORK]), member.signed(Method.WORK, _WORK))
        if name := member.work():
            parts = (chunk.SerializeToString() for chunk in chunks(junk))
            member.call(Method.ANSWER, parts, member.signed(Method.ANSWER, junk, work=name))


def replay(member: Member, stop: threading.Event) -> None:
    """Each call twice, then with another body, then by a stranger: one of the four counts."""
    while not stop.wait(0.2):
        metadata = member.signed(Method.WORK, _WORK)
        told = [member.call(Method.WORK, iter([_WORK]), metadata) for _ in range(2)]
        other = WorkRequest(version="1").SerializeToString()
        told.append(member.call(Method.WORK, iter([other]), member.signed(Method.WORK, _WORK)))
        stranger = DeviceKey().metadata(
            Method.WORK, hashlib.sha256(_WORK).hexdigest(), micros=int(time.time() * 1e6)
        )
        told.append(member.call(Method.WORK, iter([_WORK]), stranger))
        member.counts["replays that counted"] += told[1:].count("OK")


def idle(plan: AttackPlan, counts: Counter[str], stop: threading.Event) -> None:
    """Open connections and leave them; those that the server has closed are opened again."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    host, _, port = plan.address.rpartition(":")
    held: list[socket.socket] = []
    while not stop.wait(0.5):
        held = [one for one in held if _is_open(one)]
        for number in range(plan.idle - len(held)):
            try:
                plain = socket.create_connection((host, int(port)), timeout=10)
                held.append(context.wrap_socket(plain) if number % 2 else plain)
                counts["idle opened"] += 1
            except OSError as error:
                counts[f"idle {type(error).__name__}"] += 1
                break
    for one in held:
        one.close()


def _is_open(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1 << 16) != b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def look(plan: AttackPlan, took: list[float], counts: Counter[str], stop: threading.Event) -> None:
    """A reader with a new connection each time."""
    credentials = grpc.ssl_channel_credentials(Path(plan.authority).read_bytes())
    while not stop.wait(1.0):
        began = time.monotonic()
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(plan.address, credentials, options=options) as channel:
            try:
                request = FetchRequest(name=LATEST).SerializeToString()
                list(channel.unary_stream(method(FETCH))(request, timeout=30.0))
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:  # there is no board yet
                    counts[f"reader {error.code().name}"] += 1
                    continue
        took.append(time.monotonic() - began)


def main() -> None:
    """All of it, until SIGTERM."""
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=AttackPlan)
    stop, counts, took = threading.Event(), Counter[str](), list[float]()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    kinds: list[tuple[Callable[[Member, threading.Event], None], list[str]]] = [
        (stall, plan.stalling),
        (flood, plan.flooding),
        (replay, plan.replaying),
    ]
    work: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (attack, (Member(folder, plan, counts), stop)) for attack, folders in kinds for folder in folders
    ]
    work += [(idle, (plan, counts, stop)), (look, (plan, took, counts, stop))]
    threads = [threading.Thread(target=one, args=given, daemon=True) for one, given in work]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(5.0)
    Path(plan.told).write_text(json.dumps({"reader": percentiles(took), "counts": dict(counts)}))


if __name__ == "__main__":
    main()
