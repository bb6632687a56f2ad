"""``fedboard server``: one process with one port for devices and readers, the round loop, and one for the operator.

An event loop takes the calls; a thread trains and asks (``round_loop``), another signs boards. All that must
survive is in the state folder, so the process may be killed at any moment; whoever started it starts it again.
"""

import asyncio
import logging
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from fedboard.common.boards.methods import MAX_REQUEST_BYTES as LARGEST_OF_READERS
from fedboard.common.errors import FedboardError, StorageError
from fedboard.common.files import held_alone
from fedboard.common.messages.devices import LONGEST_SECONDS, MAX_REQUEST_BYTES
from fedboard.server.fleet.credentials import introduction_of
from fedboard.server.fleet.device_service import DevicesServicer
from fedboard.server.fleet.enrolment import Enrolment
from fedboard.server.fleet.mailbox import Mailbox
from fedboard.server.fleet.queries import require_counted
from fedboard.server.fleet.register import Admitted, Member, Register
from fedboard.server.fleet.round_loop import RoundLoop
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder
from fedboard.server.fleet.status import fleet_families, status_of
from fedboard.server.grpc_port import GrpcPort, server_options
from fedboard.server.operating.ops import service_families, start_ops
from fedboard.server.operating.run_files import require_few_lost
from fedboard.server.publication import BoardStore
from fedboard.server.publishing.mirror import Publisher, publish_into
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.service import BoardsServicer
from fedboard.server.publishing.signing import SigningKey

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.5
_BOARD_SECONDS: Final = 0.25
"""How often it is looked for boards to sign, and for signed ones to hand out: a round waits for its board."""
_MOST_FAILURES: Final = 5
_SILENT_SECONDS: Final = 60.0
_LEAST_FREE: Final = 1 << 24
"""Bytes of the disk with the state folder: with fewer left no round is begun, and with twice as many it goes on."""
_STOP_SECONDS: Final = 3.0
_FAREWELL_SECONDS: Final = 0.5
_LEAST_PAUSE: Final = (0.05, 1.0)
"""Seconds after which a device comes again, however few there are: a sixtieth of the deadline, in this range."""


class TrainingFailedError(FedboardError):
    """The training fails again and again; the message says why."""


class FleetServer:
    """All of one fleet's server. One thread calls ``run``; any may call ``stop``."""

    def __init__(self, settings: FleetSettings, *, say: Callable[[str], None]) -> None:
        """Make ready; nothing listens yet.

        Args:
            settings: of the fleet, whose board 0 and job are prepared.
            say: takes sentences for the operator, from several threads.
        """
        self._settings, self._speak = settings, say
        self._state, self._keys = StateFolder.of(settings), KeysFolder.of(settings)
        self._told_at, self._trouble, self._is_full = time.monotonic(), "", False
        self._telling = threading.Lock()
        self._mailbox = Mailbox()
        self._rounds = RoundLoop(settings, self._mailbox, say=self._say, unshown=self._unshown)
        self._members: dict[str, Member] | None = None
        self._seen_at = self._over_at = 0.0
        self._to_start = list[Callable[[], None]]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopped = False

    def run(self, *, until_trained: bool = False) -> None:
        """Serve until ``stop``, or until a signal asks this process to end.

        Args:
            until_trained: end as soon as the training is complete and readers have its last board; for that it is
                waited as long as a round waits for answers.

        Raises:
            InputError: another server works on this state folder, a port cannot be listened on, or boards cannot be
                signed.
            PrivacyError: account or ledger do not go together with the settings, or devices were told of more than
                this server knows of.
            TrainingFailedError: ``until_trained``, and five tries in a row published nothing.
        """
        self._state.make()
        refusal = f"{self._state.path}: another fedboard server works there; stop it first"
        with held_alone(self._state.lock, refusal=refusal):
            require_counted(self._settings)
            asyncio.run(self._serve(until_trained))

    def stop(self) -> None:
        """End ``run`` soon; from any thread."""
        self._stopped = True
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._stop.set)

    def require_few_lost(self) -> None:
        """Hold a training that is over against the share of rounds that it may lose.

        Raises:
            RoundsLostError: it lost more.
        """
        if self._rounds.complete:
            require_few_lost(self._rounds.fares, most_lost=self._settings.rounds.most_lost)

    async def _serve(self, until_trained: bool) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._stopped:
            return
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self._loop.add_signal_handler(number, self.stop)
        async with AsyncExitStack() as stack:
            register = stack.enter_context(Register(self._state.members))
            self._devices = self._device_service(register)
            self._boards = BoardsServicer(Mirror(self._state.mirror), simulation=self._settings.simulated)
            self._publisher = self._publisher_of_boards()
            self._to_start = [
                self._publisher.start,
                self._rounds.start,
            ]  # what is on the disk is needed for both
            stack.callback(self._publisher.close)
            port = self._port()
            await self._boards.look()
            await port.start()
            stack.push_async_callback(port.close, seconds=_FAREWELL_SECONDS)
            stack.enter_context(self._ops())
            looked_after = stack.enter_context(Register(self._state.members))
            tasks = [
                asyncio.create_task(each)
                for each in (
                    port.run(),
                    self._boards.poll(_BOARD_SECONDS),
                    self._look(looked_after, until_trained),
                )
            ]
            stack.push_async_callback(self._end, tasks)
            self._say(f"devices and readers come to {self._settings.network.listening.text}")
            await self._until_stopped(tasks)

    async def _until_stopped(self, tasks: list["asyncio.Task[None]"]) -> None:
        assert self._stop is not None
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        for task in tasks:
            if task.done():
                task.result()  # raises what has ended it

    async def _end(self, tasks: list["asyncio.Task[None]"]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._boards.end()
        await asyncio.to_thread(self._rounds.stop, seconds=_STOP_SECONDS)
        with suppress(OSError):
            self._mailbox.seen.write(self._state.door, under_way=self._mailbox.under_way())

    def _device_service(self, register: Register) -> DevicesServicer:
        settings, (least, most) = self._settings, _LEAST_PAUSE
        return DevicesServicer(
            mailbox=self._mailbox,
            admitted=Admitted(register),
            enrolment=Enrolment(
                introduction=introduction_of(settings),
                open_register=lambda: Register(self._state.members),
                capacity=settings.capacity,
            ),
            least_pause=min(max(settings.rounds.deadline_seconds / 60, least), most),
        )

    def _publisher_of_boards(self) -> Publisher:
        settings, mirror = self._settings, Mirror(self._state.mirror)

        def sign() -> None:
            publish_into(
                mirror,
                self._state.run / "boards",
                key=SigningKey.read(*self._keys.boards),
                run=settings.name,
                simulation=settings.simulated,
                roots=self._keys.roots,
                witnesses=settings.boards.cosigners,
            )

        return Publisher(mirror, sign, poll_seconds=_BOARD_SECONDS)

    def _unshown(self, version: int) -> str | None:
        """Why readers do not have the board of a version yet; None where they have it."""
        latest = self._boards.shelf.latest
        if latest is not None and latest.manifest.version >= version:
            return None
        why = self._publisher.waiting or self._publisher.problem
        return f"board {version} is not published yet" + (f": {why}" if why else "")

    def _port(self) -> GrpcPort:
        return GrpcPort(
            (*self._devices.generic(), *self._boards.generic()),
            self._settings.network.listening,
            pair=(self._keys.key.read_bytes(), self._keys.certificate.read_bytes()),
            options=server_options(
                max_request_bytes=max(MAX_REQUEST_BYTES, LARGEST_OF_READERS), longest_seconds=LONGEST_SECONDS
            ),
        )

    def _ops(self) -> AbstractContextManager[object]:
        """Metrics, health and the live report."""
        return start_ops(
            self._settings.network.ops,
            run=self._state.run,
            families=self._families,
            problems=self._problems,
            most_lost=self._settings.rounds.most_lost,
        )

    def _problems(self) -> list[str]:
        rounds, found = (
            self._rounds,
            [self._publisher.problem, self._publisher.waiting, self._trouble or None],
        )
        if rounds.training.failures >= _MOST_FAILURES:
            found.append(
                f"the training was interrupted {rounds.training.failures} times in a row: {rounds.training.problem}"
            )
        if self._is_full:
            found.append(f"disk full: {self._state.path}")
        return [one for one in found if one is not None]

    def _families(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with suppress(FedboardError, OSError, sqlite3.Error):  # the rest is told in any case
            yield from list(fleet_families(self._settings))
        yield from service_families(self._boards.counters)
        calls = CounterMetricFamily("fedboard_device_calls", "Calls of devices.", labels=("status",))
        for status, count in sorted(dict(self._devices.counts).items()):
            calls.add_metric((status,), count)
        yield calls
        joins = CounterMetricFamily("fedboard_joins", "Requests to join.", labels=("outcome",))
        for outcome, count in sorted(dict(self._devices.enrolment.counts).items()):
            joins.add_metric((str(outcome),), count)
        yield joins
        held = "Bytes of answers that the round loop has not taken."
        yield GaugeMetricFamily("fedboard_answers_held_bytes", held, value=self._mailbox.held)
        failed = "Interruptions of the training since its last board."
        yield GaugeMetricFamily("fedboard_training_failures", failed, value=self._rounds.training.failures)

    async def _look(self, register: Register, until_trained: bool) -> None:
        """Take care of all else, for ever, or until the training is over.

        Raises:
            FedboardError: the server cannot go on.
        """
        while True:
            await asyncio.to_thread(self._take_care, register)
            rounds = self._rounds
            if rounds.fatal is not None:
                raise rounds.fatal
            if until_trained and rounds.complete and self._is_seen():
                return
            if until_trained and rounds.training.failures >= _MOST_FAILURES:
                raise TrainingFailedError(f"the training fails: {rounds.training.problem}")
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_seen(self) -> bool:
        """Whether readers have the last board, or it was waited for it as long as a round waits for answers."""
        last = max(BoardStore(self._state.boards).versions(), default=-1)
        if last < 0 or (why := self._unshown(last)) is None:
            return True
        now = time.monotonic()
        self._over_at = self._over_at or now
        if now - self._over_at < self._settings.rounds.deadline_seconds:
            return False
        self._say(f"{why}; start the server again for that")
        return True

    def _take_care(self, register: Register) -> None:
        """Whatever is due now. A disk that is full, or cannot be written, ends no server: it is tried again."""
        try:
            if not self._has_room():
                return
            while self._to_start:
                self._to_start[0]()
                self._to_start.pop(0)
            self._tell_members(register)
            if time.monotonic() - self._seen_at >= self._mailbox.seen.pause:
                self._mailbox.seen.write(self._state.door, under_way=self._mailbox.under_way())
                self._seen_at = time.monotonic()
            with suppress(FedboardError):  # whoever reads the ledger next says what is wrong with it
                self._tell_waiting()
            self._trouble = ""
        except (OSError, sqlite3.Error, StorageError) as error:
            if str(error) != self._trouble:
                self._say(
                    f"what the server keeps cannot be read or written just now: {error}; it is tried again"
                )
            self._trouble = str(error)

    def _say(self, sentence: str) -> None:
        with self._telling:
            self._told_at = time.monotonic()
            with suppress(OSError):  # its log may be on the disk that is full
                self._speak(sentence)

    def _has_room(self) -> bool:
        """Whether the disk has room; where it has none the round loop is held, before it loses a round."""
        free = shutil.disk_usage(self._state.path).free
        was_full, self._is_full = self._is_full, free < _LEAST_FREE * (2 if self._is_full else 1)
        if self._is_full and time.monotonic() - self._told_at >= (_SILENT_SECONDS if was_full else 0.0):
            needed = 2 * _LEAST_FREE / 1e6
            self._say(
                f"disk full: {self._state.path} has {free / 1e6:.0f} MB left; no round goes on before it has "
                f"{needed:.0f} MB"
            )
        if self._is_full and not was_full:
            self._rounds.hold()
        elif was_full and not self._is_full:
            self._say("the disk has room again: the server goes on")
            self._rounds.go_on()
        return not self._is_full

    def _tell_members(self, register: Register) -> None:
        """Who came, and who is gone."""
        now = {member.key: member for member in register.admitted()}
        before, self._members = self._members, now
        if before is None:
            return
        for key, member in now.items():
            if key not in before:
                self._say(f"{member.name} is a member now; it takes part from the next round on")
        for key, member in before.items():
            if key not in now:
                self._say(f"{member.name} is no member any more; nothing more is taken from it")

    def _tell_waiting(self) -> None:
        """Where the training stands, where nothing was told for a minute."""
        if self._rounds.complete or time.monotonic() - self._told_at < _SILENT_SECONDS:
            return
        status, problem = status_of(self._settings), self._rounds.training.problem
        online = status.devices.online or 0
        under_way = status.has_quorum or self._mailbox.under_way() is not None
        goes_on = f"round {self._rounds.round_under_way} is under way" if under_way else "no round begins"
        self._say(
            f"{online} of {status.devices.admitted} devices are online and the quorum is {status.quorum}: {goes_on}"
            + (f"; the last try ended: {problem}" if problem else "")
            + (f"; {self._publisher.waiting}" if self._publisher.waiting else "")
        )
