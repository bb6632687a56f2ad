"""``fedboard server``: one process with one port for devices and readers, the round loop, and one for the operator.

An event loop takes the calls; a thread trains and asks (``round_loop``), another signs boards. All that must
survive is in the state folder, so the process may be killed at any moment; whoever started it starts it again.
"""

import asyncio
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
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
from fedboard.server.fleet.register import Register
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

_LOOK_SECONDS: Final = 0.5
_BOARD_SECONDS: Final = 0.25
"""How often it is looked for boards to sign, and for signed ones to hand out: a round waits for its board."""
_MOST_FAILURES: Final = 5
_SILENT_SECONDS: Final = 60.0
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
        self._told_at, self._trouble = time.monotonic(), ""
        self._telling, self._stopped = threading.Lock(), threading.Event()
        self._mailbox = Mailbox()
        self._rounds = RoundLoop(settings, self._mailbox, say=self._say, unshown=self._unshown)
        mirror = Mirror(self._state.mirror)
        self._boards = BoardsServicer(mirror, simulation=settings.simulated)
        self._publisher = Publisher(mirror, self._sign_boards, poll_seconds=_BOARD_SECONDS)
        self._written_at = self._over_at = 0.0
        self._to_start = [self._publisher.start, self._rounds.start]
        """What is on the disk is needed for both."""
        self._under_way = False
        """Whether the file of the port says that a round is."""

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
        self._stopped.set()

    def require_few_lost(self) -> None:
        """Hold a training that is over against the share of rounds that it may lose.

        Raises:
            RoundsLostError: it lost more.
        """
        if self._rounds.complete:
            require_few_lost(self._rounds.fares, most_lost=self._settings.rounds.most_lost)

    async def _serve(self, until_trained: bool) -> None:
        settings, network = self._settings, self._settings.network
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        async with AsyncExitStack() as stack:
            least, most = _LEAST_PAUSE
            self._devices = DevicesServicer(
                mailbox=self._mailbox,
                register=stack.enter_context(Register(self._state.members)),
                enrolment=Enrolment(
                    introduction=introduction_of(settings),
                    register=self._state.members,
                    capacity=settings.capacity,
                    joined=lambda name: self._say(
                        f"{name} is a member now; it takes part from the next round on"
                    ),
                ),
                least_pause=min(max(settings.rounds.deadline_seconds / 60, least), most),
            )
            port = GrpcPort(
                (*self._devices.generic(), *self._boards.generic()),
                network.listening,
                pair=(self._keys.key.read_bytes(), self._keys.certificate.read_bytes()),
                options=server_options(
                    max_request_bytes=max(MAX_REQUEST_BYTES, LARGEST_OF_READERS),
                    longest_seconds=LONGEST_SECONDS,
                ),
            )
            stack.callback(self._publisher.close)
            await self._boards.look()
            await port.start()
            stack.push_async_callback(port.close, seconds=_FAREWELL_SECONDS)
            stack.enter_context(
                start_ops(
                    network.ops,
                    run=self._state.run,
                    families=self._families,
                    problems=self._problems,
                    most_lost=settings.rounds.most_lost,
                )
            )
            work = (port.run(), self._boards.poll(_BOARD_SECONDS), self._look(until_trained))
            tasks = [asyncio.create_task(one) for one in work]
            stack.push_async_callback(self._end, tasks)
            self._say(f"devices and readers come to {network.listening.text}")
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what has ended it

    async def _end(self, tasks: list["asyncio.Task[None]"]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._boards.end()
        await asyncio.to_thread(self._rounds.stop, seconds=_STOP_SECONDS)
        with suppress(OSError):
            self._mailbox.seen.write(self._state.door, under_way=self._mailbox.under_way())

    def _sign_boards(self) -> None:
        settings = self._settings
        publish_into(
            Mirror(self._state.mirror),
            self._state.boards,
            key=SigningKey.read(*self._keys.boards),
            run=settings.name,
            simulation=settings.simulated,
            roots=self._keys.roots,
            witnesses=settings.boards.cosigners,
        )

    def _unshown(self, version: int) -> str | None:
        """Why readers do not have the board of a version yet; None where they have it."""
        latest = self._boards.shelf.latest
        if latest is not None and latest.manifest.version >= version:
            return None
        why = self._publisher.waiting or self._publisher.problem
        return f"board {version} is not published yet" + (f": {why}" if why else "")

    def _problems(self) -> list[str]:
        training, found = (
            self._rounds.training,
            [self._publisher.problem, self._publisher.waiting, self._trouble, self._rounds.full],
        )
        if training.failures >= _MOST_FAILURES:
            found.append(
                f"the training was interrupted {training.failures} times in a row: {training.problem}"
            )
        return [one for one in found if one]

    def _families(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with suppress(FedboardError, OSError, sqlite3.Error):  # the rest is told in any case
            yield from list(fleet_families(self._settings))
        yield from service_families(self._boards.counters)
        for name, sentence, label, counts in (
            ("fedboard_device_calls", "Calls of devices.", "status", self._devices.counts),
            ("fedboard_joins", "Requests to join.", "outcome", self._devices.enrolment.counts),
        ):
            family = CounterMetricFamily(name, sentence, labels=(label,))
            for value, count in sorted(dict(counts).items()):
                family.add_metric((str(value),), count)
            yield family
        held = "Bytes of answers that the round loop has not taken."
        yield GaugeMetricFamily("fedboard_answers_held_bytes", held, value=self._mailbox.held)
        failed = "Interruptions of the training since its last board."
        yield GaugeMetricFamily("fedboard_training_failures", failed, value=self._rounds.training.failures)

    async def _look(self, until_trained: bool) -> None:
        """Take care of all else until the server is stopped, or the training is over.

        Raises:
            FedboardError: the server cannot go on.
        """
        rounds = self._rounds
        while not self._stopped.is_set():
            await asyncio.to_thread(self._take_care)
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
        self._over_at = self._over_at or time.monotonic()
        if time.monotonic() - self._over_at < self._settings.rounds.deadline_seconds:
            return False
        self._say(f"{why}; start the server again for that")
        return True

    def _take_care(self) -> None:
        """Whatever is due now. A disk that is full, or cannot be written, ends no server: it is tried again."""
        try:
            while self._to_start:
                self._to_start[0]()
                self._to_start.pop(0)
            self._tell_status()
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
            with suppress(OSError):  # its log may be on a disk that is full
                self._speak(sentence)

    def _tell_status(self) -> None:
        """Write what ``fedboard fleet status`` reads: from time to time, and when a round begins or ends."""
        seen, under_way, now = self._mailbox.seen, self._mailbox.under_way(), time.monotonic()
        if now - self._written_at >= seen.pause or (under_way is not None) != self._under_way:
            seen.write(self._state.door, under_way=under_way)
            self._written_at, self._under_way = now, under_way is not None

    def _tell_waiting(self) -> None:
        """Where the training stands, where nothing was told for a minute."""
        if self._rounds.complete or time.monotonic() - self._told_at < _SILENT_SECONDS:
            return
        problem, waiting = self._rounds.full or self._rounds.training.problem, self._publisher.waiting
        self._say(
            status_of(self._settings).sentence
            + (f"; the last try ended: {problem}" if problem else "")
            + (f"; {waiting}" if waiting else "")
        )
