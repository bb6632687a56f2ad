"""A warm node: one process per device that answers the server's questions for as long as it runs.

Flower's own SuperNode starts a process for each message (about 2 CPU seconds), asks for work every 3 seconds and
runs the code that the server sends. This one imports the app that is installed on the device once, asks as often
as it is told to, and runs nothing else. A server that is away is waited for; a failure of the app is answered with
a fixed code, never with its text.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TypeAlias

import httpx
from flwr.app import Context, Error, Message, RecordDict
from flwr.app.user_config import UserConfig
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity

from fedboard.client.boards.authority import OUT_OF_DATE, read_authority
from fedboard.client.fleet.connection import HEARTBEAT_SECONDS, Connection, UnreadMessageError
from fedboard.client.node.settings import NodeSettings
from fedboard.client.node.tally import Tally, Trouble
from fedboard.client.node.waits import Waits, jittered, pause_after, rest
from fedboard.common.keys.node_keys import load_private_key
from fedboard.common.rounds.flower_parts import record_of
from fedboard.common.rounds.question import refusal

ClientCallable: TypeAlias = Callable[[Message, Context], Message]

_log = logging.getLogger(__name__)

APP_FAILED: Final = "app-failed"
"""All that a server learns of an exception."""


class WarmNode:
    """Answers messages with an app, one at a time, until it is told to stop."""

    def __init__(
        self,
        settings: NodeSettings,
        app: ClientCallable,
        *,
        tally: Tally | None = None,
        idle: Callable[[], object] = lambda: None,
    ) -> None:
        """Read certificate and key; nothing is sent yet.

        Args:
            settings: of the device.
            app: answers a message.
            tally: where the app counts its refusals; None: nowhere.
            idle: is called about once a minute, also while the server is away, never while the app works.

        Raises:
            InputError: a file cannot be read as what it should be.
        """
        self.settings, self.tally = settings, tally or Tally()
        self._app, self._waits = app, Waits(settings.server, idle)
        self._connection = Connection(
            address=settings.server,
            root_certificate=read_authority(settings.root_certificate),
            private_key=load_private_key(settings.private_key),
            largest=settings.largest,
            traffic=self.tally.traffic,
        )
        self._context: Context | None = None
        self._unsent: tuple[Message, float] | None = None

    def run(self, stop: Event, *, messages: int | None = None) -> Tally:
        """Answer until ``stop`` is set; a server that is away is waited for.

        Args:
            stop: set it from another thread, or interrupt this one.
            messages: end after as many answers; None: never.

        Returns:
            What was done.
        """
        admitted = False
        with self._heartbeat():
            while not stop.is_set() and (messages is None or self.tally.answered < messages):
                self._waits.tidy()
                try:
                    if not admitted:
                        self._connection.activate()
                        _log.info("connected to %s", self.settings.server)
                    admitted = True
                    began = time.monotonic()
                    if not self._work():
                        rest(stop, jittered(self._pause(time.monotonic() - began)))
                    self._waits.went_well()
                except Exception as error:
                    found = _trouble(error, admitted=admitted)
                    admitted = admitted and found is not Trouble.NOT_ADMITTED
                    self._drop_unless(found in (Trouble.UNREACHABLE, Trouble.EXPIRED))
                    rest(stop, self._waits.failed(found))
        return self.tally

    def _pause(self, took: float) -> float:
        return pause_after(self.settings.poll_seconds, took=took)

    def _work(self) -> bool:
        """Send the answer that waits, or make the next one. False where there is nothing to do."""
        if self._unsent is None:
            try:
                message = self._connection.receive()
            except UnreadMessageError as unread:
                self._unsent = (self._refusal(unread), 0.0)
            else:
                if message is None:
                    return False
                began = time.monotonic()
                self._unsent = (self._answer(message), time.monotonic() - began)
        reply, seconds = self._unsent
        self._connection.send(reply, seconds=seconds)
        self._unsent = None
        self.tally.answered += 1
        return True

    def _refusal(self, unread: UnreadMessageError) -> Message:
        self._belong_to(unread.head.metadata.run_id)
        self.tally.asked += 1
        self.tally.refuse(unread.code)
        return Message(record_of(refusal(unread.code)), reply_to=unread.head)

    def _belong_to(self, run: int) -> None:
        """Flower asks the process for the run that a message belongs to."""
        TaskIdentity.run_id, TaskIdentity.task_id = run, 0
        TaskIdentity.node_id = self._connection.node_id

    def _answer(self, message: Message) -> Message:
        run, node = message.metadata.run_id, self._connection.node_id
        if self._context is None or self._context.run_id != run:
            config: UserConfig = {} if self.settings.device is None else {"device": self.settings.device}
            self._context = Context(
                run_id=run, node_id=node, node_config=config, state=RecordDict(), run_config={}
            )
        self._belong_to(run)
        self.tally.asked += 1
        reply = answered(self._app, message, self._context)
        self.tally.failed += reply.has_error()
        return reply

    def _drop_unless(self, kept: bool) -> None:
        if self._unsent is not None and not kept:
            self._unsent = None
            self.tally.undelivered += 1

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Keep the server informed while the app works, and say good-bye at the end."""
        ended = Event()
        heart = Thread(target=self._beat, args=(ended,), daemon=True, name="heartbeat")
        heart.start()
        try:
            yield
        finally:
            ended.set()
            self._connection.leave()

    def _beat(self, ended: Event) -> None:
        while not ended.wait(HEARTBEAT_SECONDS * random.uniform(0.6, 0.8)):
            try:
                if self._connection.node_id:
                    self._connection.beat()
            except (httpx.HTTPError, ValueError, RuntimeError):
                continue  # the loop finds the same trouble and says so


def answered(app: ClientCallable, message: Message, context: Context) -> Message:
    """The app's reply, or a fixed code where it raises: the text of an exception may hold data of the device."""
    try:
        return app(message, context)
    except Exception:
        _log.exception("the app failed; the server is told %r and nothing else", APP_FAILED)
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, APP_FAILED), reply_to=message)


def _trouble(error: Exception, *, admitted: bool) -> Trouble:
    if isinstance(error, httpx.TransportError):
        return Trouble.EXPIRED if any(sign in str(error) for sign in OUT_OF_DATE) else Trouble.UNREACHABLE
    if not isinstance(error, httpx.HTTPStatusError):
        return Trouble.REFUSED
    match error.response.status_code:
        case 401:
            return Trouble.NOT_ADMITTED
        case 403:
            return Trouble.ROUND_OVER
        case 412 if not admitted:
            return Trouble.TAKEN
        case 502 | 503 | 504:
            return Trouble.UNREACHABLE
    return Trouble.REFUSED
