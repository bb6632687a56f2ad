"""The service ``Devices`` over TLS on 127.0.0.1, in a thread of its own, with both of its sides."""

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from fedboard.client.participation.connection import ServerConnection, chunks
from fedboard.common.messages.addresses import Address
from fedboard.common.messages.devices import (
    LONGEST_SECONDS,
    MAX_REQUEST_BYTES,
    NO_WORK,
    DeviceKey,
    Method,
)
from fedboard.common.messages.devices_pb2 import AnswerChunk, AnswerReceipt, WorkPart, WorkRequest
from fedboard.common.messages.enrolment import Invitation, digest_of_introduction
from fedboard.server.fleet.device_service import DevicesServicer, SenderLimits
from fedboard.server.fleet.enrolment import Allowance, Enrolment
from fedboard.server.fleet.mailbox import Mailbox, Message
from fedboard.server.fleet.register import Capacity, Register
from fedboard.server.grpc_port import GrpcPort, server_options
from tests.server.vouched import vouched_pair

LARGEST = 1 << 18
"""Bytes of an answer."""
SECONDS = 20.0
MANY = 1_000_000


class OpenDevices:
    """The server, and both sides of it; ``eve`` has a key that nobody admits."""

    def __init__(
        self,
        folder: Path,
        *,
        members: Sequence[str] = (),
        introduction: bytes = b"hello",
        requests: int = MANY,
        answers: int = MANY,
        bytes_: int = 1 << 40,
        strangers: int = MANY,
        of_one: int = MANY,
        capacity: int = 100,
        most_held: int = 1 << 28,
        least_pause: float = 0.5,
        most_calls: int = 4096,
        grace: float = 0.1,
    ) -> None:
        """Make keys and the register."""
        self.folder, self.members_file = folder, folder / "members.sqlite"
        if not (folder / "server.pem").exists():
            vouched_pair(folder)
        self.authority = (folder / "authority.pem").read_text()
        self.keys = {name: DeviceKey() for name in (*members, "eve")}
        self.introduction, self.capacity = introduction, Capacity(devices=capacity, users=10 * capacity)
        for name in members:
            self._admit(name)
        self.mailbox = Mailbox(most_held=most_held)
        self.limits = SenderLimits(
            bytes=Allowance(per_minute=bytes_),
            requests=Allowance(per_minute=requests),
            answers=Allowance(per_minute=answers),
        )
        self.enrolment = Enrolment(
            introduction=introduction,
            register=self.members_file,
            capacity=self.capacity,
            of_all=Allowance(per_minute=strangers),
            of_one=Allowance(per_minute=of_one),
        )
        self.least_pause, self.most_calls, self.grace = least_pause, most_calls, grace
        self.service: DevicesServicer
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event
        self._started = Future[None]()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._channels: list[grpc.Channel] = []
        self._devices: list[ServerConnection] = []

    def _admit(self, name: str) -> None:
        with Register(self.members_file) as register:
            secret = hashlib.sha256(name.encode()).digest()
            register.invite(secret, name=name, max_users=1, seconds=60)
            register.join(secret, self.id(name), capacity=self.capacity)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        with Register(self.members_file) as register:
            self.service = DevicesServicer(
                mailbox=self.mailbox,
                register=register,
                enrolment=self.enrolment,
                limits=self.limits,
                least_pause=self.least_pause,
            )
            pair = tuple((self.folder / name).read_bytes() for name in ("server.key", "server.pem"))
            port = GrpcPort(
                self.service.generic(),
                Address("127.0.0.1", 0),
                pair=pair,  # type: ignore[arg-type]
                options=server_options(max_request_bytes=MAX_REQUEST_BYTES, longest_seconds=LONGEST_SECONDS),
                most_calls=self.most_calls,
                grace=self.grace,
            )
            await port.start()
            self.port = port.port
            running = asyncio.create_task(port.run())
            self._started.set_result(None)
            await self._stop.wait()
            running.cancel()
            await port.close(seconds=0.1)

    def start(self) -> None:
        """Until it listens."""
        self._thread.start()
        self._started.result(timeout=SECONDS)

    def close(self) -> None:
        """All of it."""
        for one in (*self._channels, *self._devices):
            one.close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        self._loop.close()

    def id(self, name: str) -> str:
        """By which the server knows the device."""
        return self.keys[name].public.hex()

    def invite(self, name: str, *, secret: bytes, max_users: int = 1) -> Invitation:
        """An invitation for a device."""
        with Register(self.members_file) as register:
            register.invite(secret, name=name, max_users=max_users, seconds=60)
        return Invitation(
            address=Address("127.0.0.1", self.port),
            introduction=digest_of_introduction(self.introduction),
            secret=secret,
        )

    def remove(self, name: str) -> None:
        """Shut a device out, as another process does."""
        with Register(self.members_file) as register:
            register.remove(name)

    def device(self, name: str, *, clock: Callable[[], float] = time.time) -> ServerConnection:
        """A device of this key, as it is."""
        made = ServerConnection(
            address=f"127.0.0.1:{self.port}",
            authority=self.authority,
            key=self.keys[name],
            largest=1 << 20,
            clock=clock,
        )
        self._devices.append(made)
        return made

    def ask(
        self, *names: str, frame: bytes = b"what?", beside: bytes = b"", seconds: float = 60.0
    ) -> dict[str, str]:
        """Have these devices asked; the names of their work."""
        message = Message("query.round", frame, beside)
        self.mailbox.ask({self.id(name): message for name in names}, largest=LARGEST, seconds=seconds)
        found = {name: self.mailbox.work_of(self.id(name)) for name in names}
        return {name: work.name for name, work in found.items() if work is not None}

    def answers(self, *, wait: float = 0.0) -> list[bytes]:
        """What came."""
        return [answer.content for answer in self.mailbox.answers(wait=wait)]

    def channel(self) -> grpc.Channel:
        """A connection of anybody."""
        credentials = grpc.ssl_channel_credentials(root_certificates=self.authority.encode())
        made = grpc.secure_channel(
            f"127.0.0.1:{self.port}", credentials, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._channels.append(made)
        return made

    def signed(
        self,
        name: str,
        method: Method = Method.WORK,
        body: bytes | None = None,
        *,
        work: str = NO_WORK,
        micros: int | None = None,
        signed_by: str | None = None,
    ) -> dict[str, str | bytes]:
        """Metadata of a call, to be changed."""
        sent = WorkRequest().SerializeToString() if body is None else body
        at = int(time.time() * 1e6) if micros is None else micros
        digest = hashlib.sha256(sent).hexdigest()
        made = dict(self.keys[signed_by or name].metadata(method, digest, micros=at, work=work))
        return {**made, "fedboard-key": self.id(name)}

    def work(
        self, metadata: Any, *, request: bytes = b"", timeout: float | None = SECONDS, **more: Any
    ) -> str:
        """Status of a call for work, sent as it is."""
        call = self.channel().unary_stream(Method.WORK.path, response_deserializer=WorkPart.FromString)
        return status_of(lambda: list(call(request, metadata=pairs(metadata), timeout=timeout, **more)))

    def answer(
        self,
        metadata: Any,
        sent: bytes | Iterator[bytes],
        *,
        channel: grpc.Channel | None = None,
        timeout: float | None = SECONDS,
        **more: Any,
    ) -> str:
        """Status of an answer, sent as it is: bytes in chunks, or messages one by one."""
        call = (channel or self.channel()).stream_unary(
            Method.ANSWER.path, response_deserializer=AnswerReceipt.FromString
        )
        messages = (one.SerializeToString() for one in chunks(sent)) if isinstance(sent, bytes) else sent
        return status_of(lambda: call(messages, metadata=pairs(metadata), timeout=timeout, **more))


def pairs(metadata: Any) -> Any:
    """As gRPC takes it."""
    return tuple(metadata.items()) if isinstance(metadata, dict) else metadata


def status_of(act: Callable[[], object]) -> str:
    """Name of the status with which a call ends."""
    try:
        act()
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def stalling(*chunks: bytes) -> tuple[Iterator[bytes], threading.Event]:
    """Messages of an answer that stop coming until the event is set."""
    go_on = threading.Event()

    def messages() -> Iterator[bytes]:
        for chunk in chunks:
            yield AnswerChunk(content=chunk).SerializeToString()
        go_on.wait(SECONDS)

    return messages(), go_on


@contextmanager
def open_devices(folder: Path, **more: Any) -> Iterator[OpenDevices]:
    """A server that is closed afterwards."""
    made = OpenDevices(folder, **more)
    made.start()
    try:
        yield made
    finally:
        made.close()
