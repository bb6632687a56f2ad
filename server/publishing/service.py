"""The gRPC service that readers get boards from: anonymous, rate limited, and without any key.

One thread with an event loop: on one core it carried more downloads than a pool of threads, and a reader who waits
for the next board costs no thread. Nothing about readers is logged or stored; addresses are held in memory for the
rate limit.
"""

import asyncio
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.wire.addresses import parse_address
from fedboard.server.front.front import Front, bound
from fedboard.server.front.limits import ConnectionLimits
from fedboard.server.publishing.counters import ServiceCounters
from fedboard.server.publishing.grpc_server import GrpcServers
from fedboard.server.publishing.handlers import Handlers
from fedboard.server.publishing.limits import Limits, of_service
from fedboard.server.publishing.log.log import BoardLog
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.publisher import Publisher
from fedboard.server.publishing.shelf import Shelf
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.publishing.upkeep.signers import USUAL_DAYS
from fedboard.server.tls import require_pair

_START_SECONDS = 10.0
_FAREWELL_SECONDS = 0.5


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
    log: Path | None = None
    """Folder of the run's log of boards, where they are written down before they are shown; None: nowhere."""
    witnesses: Path | None = None
    """Policy file of the witnesses that are asked to cosign the log; None: nobody is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """What a board service needs."""

    mirror: Path
    """Folder that ``publish_into`` writes."""
    signing: Signing | None = None
    """What to sign into the mirror while serving; None: only what is in the mirror is served, no key is needed."""
    address: str = "127.0.0.1:0"
    """``host:port``; port 0 takes a free one."""
    certificate: Path | None = None
    """PEM chain for TLS; None: no TLS, for a proxy on the same machine or a test."""
    private_key: Path | None = None
    """PEM key of the certificate."""
    simulation: bool = False
    """Whether boards whose noise can be reproduced from its seed are signed, marked as that, and handed out."""
    limits: Limits = field(default_factory=Limits)
    poll_seconds: float = 1.0
    """How often the mirror is looked at for new boards."""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            InputError: it is none.
        """
        parse_address(self.address, name="the address of the board service", listening=True)


class RunningService:
    """A board service in a thread of its own."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.counters = ServiceCounters()
        self.port = 0
        self._settings = settings
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._resources = ExitStack()
        self._publisher = _publisher(settings, self._resources)
        self._connections = ConnectionLimits(connections=1)
        self._listening: list[socket.socket] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="board-service", daemon=True)

    def start(self) -> None:
        """Sign what is there, then listen.

        Raises:
            InputError: the address, the certificate, the key or the boards cannot be used.
            PrivacyError: a board does not continue the one before it, or is a simulation that nobody asked for.
        """
        try:
            self._make_ready()
        except BaseException:
            self._let_go()
            self._resources.close()
            raise
        self._thread.start()
        self._started.wait(_START_SECONDS)
        if self._failure is not None or not self.port:
            self.close()
            raise InputError(
                f"the board service did not start within {_START_SECONDS:g} s, or cannot serve on "
                f"{self._settings.address}"
            ) from self._failure

    def _make_ready(self) -> None:
        _require_pair(self._settings)
        _require_offered(self._settings)
        self._connections = of_service(self._settings.limits)
        name = "the address of the board service"
        address = parse_address(self._settings.address, name=name, listening=True)
        self._listening = bound(address, name="the board service")
        if self._publisher is not None:
            self._publisher.start()

    def close(self) -> None:
        """Stop; waiting readers are let go, downloads under way break off and are resumed elsewhere."""
        if self._publisher is not None:
            self._publisher.close()
        self._resources.close()
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

    def __enter__(self) -> "RunningService":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except (OSError, RuntimeError, ValueError, InputError) as error:
            self._failure = error
        finally:
            self._started.set()
            self._let_go()

    def _let_go(self) -> None:
        for one in self._listening:
            one.close()
        self._loop.close()

    async def _serve(self) -> None:
        settings = self._settings
        shelf = Shelf(Mirror(settings.mirror), simulation=settings.simulation)
        front = Front(limits=self._connections, counts=self.counters.front)
        handlers = Handlers(shelf, settings.limits, self.counters, front=front)

        servers = GrpcServers(handlers.generic(), settings.limits, pair=_pair(settings))
        await servers.start()
        await front.start(self._listening, inside_port=servers.port)
        self.port = front.port
        polling = asyncio.create_task(handlers.poll(settings.poll_seconds))
        running = asyncio.create_task(servers.run(front.lead_to))
        self._started.set()
        await self._stop.wait()
        polling.cancel()
        running.cancel()
        await handlers.end_watches()
        await servers.close(seconds=_FAREWELL_SECONDS)
        await front.close()


def start_board_service(settings: ServiceSettings) -> RunningService:
    """Start serving a mirror.

    Returns:
        The running service; ``close`` it. ``port`` is where it listens, ``counters`` what it counts.

    Raises:
        InputError: the address, the certificate, the key or the boards cannot be used.
        PrivacyError: a board does not continue the one before it, or is a simulation that nobody asked for.
    """
    service = RunningService(settings)
    service.start()
    return service


def _publisher(settings: ServiceSettings, resources: ExitStack) -> Publisher | None:
    signing = settings.signing
    if signing is None:
        return None
    log = None
    if signing.log is not None:
        log = resources.enter_context(BoardLog.open(signing.log, witnesses=signing.witnesses))
    return Publisher(
        Mirror(settings.mirror),
        signing.boards,
        key=lambda: SigningKey.read(signing.key, *signing.more_keys),
        run=signing.run,
        simulation=settings.simulation,
        days=signing.days,
        roots=signing.roots,
        log=log,
        poll_seconds=settings.poll_seconds,
    )


def _require_offered(settings: ServiceSettings) -> None:
    """Refuse a mirror that is to be handed out and holds simulations."""
    shelf = Shelf(Mirror(settings.mirror), simulation=settings.simulation)
    shelf.reload()
    if shelf.withheld:
        raise PrivacyError(
            f"{settings.mirror}: version {min(shelf.withheld)} is a simulation: its noise can be reproduced from "
            "its seed. It is not served; --simulation serves it, marked as what it is"
        )


def _require_pair(settings: ServiceSettings) -> None:
    if settings.certificate is not None and settings.private_key is not None:
        require_pair(settings.certificate, settings.private_key)


def _pair(settings: ServiceSettings) -> tuple[bytes, bytes] | None:
    if settings.certificate is None or settings.private_key is None:
        return None
    return settings.private_key.read_bytes(), settings.certificate.read_bytes()
