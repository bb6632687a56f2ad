"""A mirror served by a thread, for as long as a test needs it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedboard.common.boards.witnesses import Witnesses
from fedboard.server.publishing.mirror import Publisher, publish_into
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.service import ServiceCounters
from fedboard.server.publishing.service import serve_boards as serving
from fedboard.server.publishing.signing import SigningKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """A run whose boards are signed as they are published, as a fleet's server does it."""

    boards: Path
    key: Path
    run: str
    roots: Path | None = None
    witnesses: Witnesses | None = None

    def publisher(self, mirror: Mirror, *, poll_seconds: float) -> Publisher:
        def sign() -> None:
            key = SigningKey.read(self.key)
            publish_into(
                mirror, self.boards, key=key, run=self.run, roots=self.roots, witnesses=self.witnesses
            )

        return Publisher(mirror, sign, poll_seconds=poll_seconds)


@dataclass(slots=True)
class RunningBoards:
    port: int
    counters: ServiceCounters
    publisher: Publisher | None
    close: Callable[[], None]

    @property
    def problem(self) -> str | None:
        """Why new boards cannot be signed at present."""
        return None if self.publisher is None else self.publisher.problem


@contextmanager
def serve_boards(
    mirror: Path,
    *,
    address: str = "127.0.0.1:0",
    signing: Signing | None = None,
    poll_seconds: float = 0.05,
    **settings: Any,
) -> Iterator[RunningBoards]:
    loop, begun, failed = asyncio.new_event_loop(), threading.Event(), list[BaseException]()
    found: list[tuple[int, ServiceCounters]] = []

    def listening(port: int, counters: ServiceCounters) -> None:
        found.append((port, counters))
        begun.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        except BaseException as error:
            failed.append(error)
        finally:
            begun.set()
            loop.close()

    with ExitStack() as stack:
        publisher = None
        if signing is not None:
            publisher = signing.publisher(Mirror(mirror), poll_seconds=poll_seconds)
            publisher.start()
            stack.callback(publisher.close)
        task = loop.create_task(
            serving(mirror, address=address, poll_seconds=poll_seconds, listening=listening, **settings)
        )
        thread = threading.Thread(target=run, name="boards", daemon=True)
        thread.start()
        begun.wait(30)
        if failed or not found:
            thread.join(30)
            raise failed[0] if failed else TimeoutError("the service does not listen")

        def close() -> None:
            if thread.is_alive():
                loop.call_soon_threadsafe(task.cancel)
                thread.join(30)

        stack.callback(close)
        yield RunningBoards(*found[0], publisher, close)
