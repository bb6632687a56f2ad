"""A mirror served by a thread of its own: ``fedboard server --boards``, and whoever has no other event loop."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.boards.methods import MAX_REQUEST_BYTES
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.wire.addresses import parse_address
from fedboard.server.grpc_port import GrpcPort, server_options
from fedboard.server.publishing.counters import ServiceCounters
from fedboard.server.publishing.limits import Limits
from fedboard.server.publishing.mirror import USUAL_DAYS
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.publisher import Publisher
from fedboard.server.publishing.service import BoardsServicer
from fedboard.server.publishing.shelf import Shelf
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.tls import require_pair

_START_SECONDS = 10.0
_FAREWELL_SECONDS = 0.5
_MORE_CALLS = 256
"""Calls beyond downloads and waiting readers: they are answered or sent away within a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """A run whose boards are signed as they are published."""

    boards: Path
    """Folder of the boards."""
    key: Path
    """The private signing key."""
    run: str
    """Public name of the run."""
    more_keys: tuple[Path, ...] = ()
    """Further private keys, where the root asks for the signatures of several."""
    roots: Path | None = None
    """Folder of the root documents; None: those that the mirror has, or none."""
    days: float = USUAL_DAYS
    """How long a manifest is good."""
    witnesses: Witnesses | None = None
    """Whose cosignatures are waited for; None: nobody's."""

    def publisher(self, mirror: Mirror, *, simulation: bool = False, poll_seconds: float = 1.0) -> Publisher:
        """What signs them into a mirror."""
        return Publisher(
            mirror,
            self.boards,
            key=lambda: SigningKey.read(self.key, *self.more_keys),
            run=self.run,
            simulation=simulation,
            days=self.days,
            roots=self.roots,
            witnesses=self.witnesses,
            poll_seconds=poll_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    mirror: Path
    address: str
    pair: tuple[bytes, bytes] | None
    simulation: bool
    limits: Limits
    poll_seconds: float


class RunningBoards:
    """A mirror that is served. Use it as a context manager, or ``close`` it."""

    def __init__(self, settings: _Settings, publisher: Publisher | None) -> None:
        """Make ready."""
        self.counters = ServiceCounters()
        self.port = 0
        self._settings, self._publisher = settings, publisher
        self._started, self._failure = threading.Event(), list[BaseException]()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="boards", daemon=True)

    def start(self) -> None:
        """Sign what is there, then listen.

        Raises:
            InputError: the address, the key or the boards cannot be used.
            PrivacyError: a board does not continue the one before it, or is a simulation that nobody asked for.
        """
        try:
            if self._publisher is not None:
                self._publisher.start()
        except BaseException:
            self._loop.close()
            raise
        self._thread.start()
        self._started.wait(_START_SECONDS)
        if self._failure or not self.port:
            self.close()
            raise InputError(
                f"boards could not be served on {self._settings.address} within {_START_SECONDS:g} s: "
                f"{self._failure[0] if self._failure else 'the machine is busy'}"
            ) from (self._failure[0] if self._failure else None)

    def close(self) -> None:
        """Stop; waiting readers are let go, downloads under way break off and are resumed elsewhere."""
        if self._publisher is not None:
            self._publisher.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    @property
    def problem(self) -> str | None:
        """Why new boards cannot be signed at present; None where they can."""
        return None if self._publisher is None else self._publisher.problem

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; False where it still runs after so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def __enter__(self) -> "RunningBoards":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except (OSError, RuntimeError, ValueError, InputError) as error:
            self._failure.append(error)
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        settings, limits = self._settings, self._settings.limits
        servicer = BoardsServicer(
            Mirror(settings.mirror), limits=limits, simulation=settings.simulation, counters=self.counters
        )
        port = GrpcPort(
            servicer.generic(),
            parse_address(settings.address, name="the address of the board service", listening=True),
            pair=settings.pair,
            options=server_options(
                max_request_bytes=MAX_REQUEST_BYTES, longest_seconds=limits.stream_seconds
            ),
            most_calls=limits.streams + limits.watchers + _MORE_CALLS,
        )
        await servicer.look()
        await port.start()
        self.port = port.port
        tasks = [asyncio.create_task(one) for one in (servicer.poll(settings.poll_seconds), port.run())]
        self._started.set()
        await self._stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await servicer.end()
        await port.close(seconds=_FAREWELL_SECONDS)


def serve_boards(
    mirror: Path,
    *,
    address: str = "127.0.0.1:0",
    certificate: Path | None = None,
    private_key: Path | None = None,
    signing: Signing | None = None,
    simulation: bool = False,
    limits: Limits | None = None,
    poll_seconds: float = 1.0,
) -> RunningBoards:
    """Start serving a mirror over gRPC, in a thread of its own.

    Args:
        mirror: folder that ``publish_into`` writes.
        address: ``host:port``; port 0 takes a free one.
        certificate: PEM chain for TLS; None: no TLS, for a proxy on the same machine or a test.
        private_key: PEM key of the certificate.
        signing: what to sign into the mirror while serving; None: only what is in it is served, no key is needed.
        simulation: whether boards whose noise can be reproduced from its seed are signed, marked as that, and
            handed out.
        limits: None for the default.
        poll_seconds: how often boards and mirror are looked at.

    Returns:
        The running service; ``port`` is where it listens, ``counters`` what it counts.

    Raises:
        InputError: the address, the certificate, the key or the boards cannot be used.
        PrivacyError: a board does not continue the one before it, or is a simulation that nobody asked for.
    """
    place = parse_address(address, name="the address of the board service", listening=True)
    pair = None
    if certificate is not None and private_key is not None:
        require_pair(certificate, private_key)
        pair = private_key.read_bytes(), certificate.read_bytes()
    if Shelf(Mirror(mirror), simulation=simulation).withheld:
        raise PrivacyError(
            f"{mirror}: a board there is a simulation: its noise can be reproduced from its seed. It is not "
            "served; --simulation serves it, marked as what it is"
        )
    settings = _Settings(
        mirror=mirror,
        address=place.text,
        pair=pair,
        simulation=simulation,
        limits=limits or Limits(),
        poll_seconds=poll_seconds,
    )
    publisher = None
    if signing is not None:
        publisher = signing.publisher(Mirror(mirror), simulation=simulation, poll_seconds=poll_seconds)
    service = RunningBoards(settings, publisher)
    service.start()
    return service
