"""A witness on a port: ``POST /add-checkpoint`` for logs, ``GET /<hash of a log's name>/checkpoint`` for whoever
watches. Anybody may ask; what counts is the log's signature.
"""

import asyncio
import ssl
import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from fedboard.common.boards.log.requests import MAX_REQUEST_BYTES
from fedboard.common.errors import InputError, StorageError
from fedboard.common.wire.addresses import parse_address
from fedboard.server.front.descriptors import room_for
from fedboard.server.front.front import INSIDE, Front, bound
from fedboard.server.front.limits import ConnectionLimits
from fedboard.server.publishing.log.witness.http import MAX_HEAD_BYTES, Answer, converse
from fedboard.server.publishing.log.witness.witness import Witness
from fedboard.server.tls import require_pair

_ADD, _CHECKPOINT = "/add-checkpoint", "/checkpoint"
_START_SECONDS = 10.0
_OTHER_DESCRIPTORS = 64
_IDLE_SECONDS = 120.0
_FAREWELL_SECONDS = 0.02
PER_ADDRESS = 16
"""Connections from one address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessSettings:
    """Where a witness listens."""

    address: str = "127.0.0.1:0"
    """``host:port``; port 0 takes a free one."""
    certificate: Path | None = None
    """PEM chain for TLS; None: no TLS, for a proxy on the same machine or a trial."""
    private_key: Path | None = None
    """PEM key of the certificate."""
    connections: int = 256
    connections_per_address: int = PER_ADDRESS
    """Of them; 0: any number, behind a proxy."""


class RunningWitness:
    """A witness in a thread of its own. Use it as a context manager."""

    def __init__(self, witness: Witness, settings: WitnessSettings) -> None:
        """Make ready.

        Raises:
            InputError: the address is none.
        """
        name = "the address of the witness"
        self._address = parse_address(settings.address, name=name, listening=True)
        self._witness, self._settings = witness, settings
        self.port = 0
        self.answered: Counter[int] = Counter()
        """Requests by status."""
        self._started, self._loop = threading.Event(), asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)

    def __enter__(self) -> "RunningWitness":
        """Listen.

        Raises:
            InputError: the address or the certificate cannot be used.
        """
        settings = self._settings
        if settings.certificate is not None and settings.private_key is not None:
            require_pair(settings.certificate, settings.private_key)
        self._listening = bound(self._address, name="the witness")
        self._thread.start()
        self._started.wait(_START_SECONDS)
        if self._failure is not None or not self.port:
            self.__exit__()
            raise InputError(f"the witness cannot serve on {settings.address}") from self._failure
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except (OSError, RuntimeError, ValueError, InputError) as error:
            self._failure = error
        finally:
            self._started.set()
            for one in self._listening:
                one.close()
            self._loop.close()

    async def _serve(self) -> None:
        talk = partial(converse, serve=self._answer, max_body=MAX_REQUEST_BYTES)
        server = await asyncio.start_server(
            talk, INSIDE, 0, limit=MAX_HEAD_BYTES, ssl=self._tls(), ssl_handshake_timeout=self._handshake()
        )
        front = Front(limits=self._limits())
        await front.start(self._listening, inside_port=int(server.sockets[0].getsockname()[1]))
        self.port = front.port
        self._started.set()
        await self._stop.wait()
        await front.close()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(_FAREWELL_SECONDS)  # what was closed is let go of

    def _tls(self) -> ssl.SSLContext | None:
        if self._settings.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._settings.certificate, self._settings.private_key)
        return context

    def _handshake(self) -> float | None:
        return None if self._settings.certificate is None else _START_SECONDS

    def _limits(self) -> ConnectionLimits:
        most = self._settings.connections
        return ConnectionLimits(
            connections=room_for(most, most=most, others=_OTHER_DESCRIPTORS, key="connections"),
            per_address=self._settings.connections_per_address,
            idle_seconds=_IDLE_SECONDS,
        )

    def _answer(self, method: str, path: str, body: bytes) -> Answer:
        """One request at a time: what was cosigned last is looked at and replaced in one step."""
        try:
            answer = self._answered(method, path, body)
        except (OSError, StorageError):  # nothing was cosigned
            answer = Answer(
                HTTPStatus.SERVICE_UNAVAILABLE, b"the witness cannot remember anything at present\n"
            )
        self.answered[answer.status.value] += 1
        return answer

    def _answered(self, method: str, path: str, body: bytes) -> Answer:
        if path == _ADD:
            if method != "POST":
                return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"POST a checkpoint here\n")
            reply = self._witness.add_checkpoint(body)
        elif path.endswith(_CHECKPOINT) and method == "GET":
            reply = self._witness.checkpoint(path.removesuffix(_CHECKPOINT).removeprefix("/"))
        else:
            return Answer(HTTPStatus.NOT_FOUND, b"/add-checkpoint and /HASH/checkpoint are here\n")
        return Answer(reply.status, reply.content, reply.kind)
