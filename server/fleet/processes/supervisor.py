"""``fedboard server``: keeps the parts of a fleet's server running, and the training going, until told to stop.

Parts are processes of their own: Flower's SuperLink (with the ServerApp below it), the proxy that devices reach,
and the board service. One that ends is started again, whatever its exit status; when the supervisor itself is
killed they end within two seconds, and the next one goes on from what is on disk.
"""

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from fedboard.common.errors import FedboardError, StorageError
from fedboard.common.files import write_atomically
from fedboard.server.fleet.plan.closing import reason_of
from fedboard.server.fleet.plan.preparing import keep_register
from fedboard.server.fleet.plan.reloading import require_room, waiting_keys
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.admission import Admission
from fedboard.server.fleet.processes.board_process import board_command
from fedboard.server.fleet.processes.children import Child
from fedboard.server.fleet.processes.control import Control
from fedboard.server.fleet.processes.message_store import compact, forget, knows_as_gone
from fedboard.server.fleet.processes.ports import require_descriptors, require_free_ports
from fedboard.server.fleet.processes.proxy_process import proxy_command
from fedboard.server.fleet.processes.question_runs import QuestionRuns
from fedboard.server.fleet.processes.superlink import superlink_command, superlink_environment
from fedboard.server.fleet.processes.training_run import TrainingRun
from fedboard.server.fleet.processes.wall_clock import WallClock, written_ahead
from fedboard.server.fleet.processes.work_locks import alone
from fedboard.server.fleet.questions.account import require_counted
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.fleet.status import status_of
from fedboard.server.operating.run_fares import LOST, UNLOGGED, Fares, require_few_lost

_TICK_SECONDS = 0.1
_LOOK_SECONDS = 0.5
_MOST_FAILURES = 5
_SILENT_SECONDS = 60.0
_LEAST_FREE = 1 << 24
"""Bytes of the disk with the state folder: with fewer left the server stops, and with twice as many it goes on."""
_PORT_SECONDS = 5.0
"""How long what is left of a server that was killed may still hold its ports."""


class TrainingFailedError(FedboardError):
    """The training fails again and again; the message says why."""


class Supervisor:
    """All parts of one fleet's server."""

    def __init__(self, settings: FleetSettings, config: Path, *, say: Callable[[str], None]) -> None:
        """Make ready; nothing is started.

        Args:
            settings: what ``config`` says.
            config: file of the settings, for the children.
            say: takes sentences for the operator.
        """
        self._settings, self._config, self._speak = settings, config, say
        self._told_at, self._is_full = time.monotonic(), False
        self._state = StateFolder.of(settings)
        self._control = Control(port=settings.network.superlink_port, authority=settings.network.authority)
        self._training = TrainingRun(self._control, self._state, say=self._say)
        self._questions = QuestionRuns(self._control, self._state, say=self._say)
        self._superlink = Child(
            name="superlink",
            command=superlink_command(settings),
            environment=superlink_environment(settings),
            log=self._state.log("superlink"),
        )
        self._others = [
            Child(name="proxy", command=proxy_command(config), log=self._state.log("proxy")),
        ]
        if settings.board.enabled or settings.board.metrics_port is not None:
            self._others.append(
                Child(name="board", command=board_command(config), log=self._state.log("board"))
            )
        self._begun = False
        self._admission: Admission | None = None
        self._to_reload, self._clock, self._trouble = False, WallClock(), ""
        self._told_rounds, self._told_end = 0, False
        self._written: dict[str, Any] = {}

    def run(self, stop: Event, *, until_trained: bool) -> None:
        """Supervise until ``stop`` is set or this thread is interrupted.

        Args:
            stop: set from elsewhere.
            until_trained: end as soon as the training is complete.

        Raises:
            InputError: another server works on this state folder, or a port cannot be listened on.
            TrainingFailedError: ``until_trained``, and five runs in a row published nothing.
        """
        self._state.make()
        self._told_rounds = len(self._rounds())
        with ExitStack() as stack:
            stack.enter_context(alone(self._state.lock))
            require_free_ports(self._settings, patience=_PORT_SECONDS)
            require_descriptors(self._settings)
            self._tell_removed(keep_register(self._settings))
            if (back := written_ahead(self._state.door)) > 0:
                self._tell_put_back(back)
            if back or knows_as_gone(self._state.database, self._settings.public_keys):
                forget(self._state.database)
            compact(self._state.database)  # the one before may have been killed
            require_counted(self._settings)
            self._tell_closed()
            enrolment = self._settings.enrolment
            self._admission = Admission(
                self._control,
                self._state,
                invited=enrolment is None or enrolment.carrier == "flower",
                say=self._say,
            )
            stack.enter_context(self._control)
            stack.callback(self._stop)
            next_look = 0.0
            while not stop.is_set():
                due = time.monotonic() >= next_look
                next_look = time.monotonic() + _LOOK_SECONDS if due else next_look
                self._take_care(look=due)
                if until_trained and self._training.complete:
                    return
                if until_trained and self._training.failures >= _MOST_FAILURES:
                    raise TrainingFailedError(f"the training fails: {self._training.problem}")
                time.sleep(_TICK_SECONDS)  # an interrupt in an event's wait can find its lock released

    def _take_care(self, *, look: bool) -> None:
        """Whatever is due now. A disk that is full, or cannot be written, ends no server: it is tried again."""
        try:
            if not self._has_room():
                return
            self._tend()
            if self._to_reload:
                self._to_reload = False
                self._reloaded()
            if look:
                self._look()
                self._trouble = ""
        except (OSError, sqlite3.Error, StorageError) as error:
            if str(error) != self._trouble:
                self._say(
                    f"what the server keeps cannot be read or written just now: {error}; it is tried again"
                )
            self._trouble = str(error)

    def _say(self, sentence: str) -> None:
        self._told_at = time.monotonic()
        with suppress(OSError):  # its log may be on the disk that is full
            self._speak(sentence)

    def _has_room(self) -> bool:
        """Whether the disk has room; where it has none all parts are stopped, before one of them loses a round."""
        free = shutil.disk_usage(self._state.path).free
        was_full, self._is_full = self._is_full, free < _LEAST_FREE * (2 if self._is_full else 1)
        if self._is_full and time.monotonic() - self._told_at >= (_SILENT_SECONDS if was_full else 0.0):
            needed = 2 * _LEAST_FREE / 1e6
            self._say(
                f"disk full: {self._state.path} has {free / 1e6:.0f} MB left; the server stops, and goes on by "
                f"itself with {needed:.0f} MB"
            )
        if self._is_full and not was_full:
            self._stop_parts()
        elif was_full and not self._is_full:
            self._say("the disk has room again: the server goes on")
        return not self._is_full

    def _tell_waiting(self) -> None:
        """Where the training stands, where nothing was told for a minute."""
        if self._training.complete or time.monotonic() - self._told_at < _SILENT_SECONDS:
            return
        status, problem = status_of(self._settings), self._training.problem
        online = status.devices.online or 0
        goes_on = f"round {self._told_rounds} is under way" if status.has_quorum else "no round begins"
        self._say(
            f"{online} of {status.devices.admitted} devices are online and the quorum is {status.quorum}: {goes_on}"
            + (f"; the last try ended: {problem}" if problem else "")
        )

    def _tell_closed(self) -> None:
        """A training that is closed is not handed in; its boards are served. Nor is one where questions are all."""
        if self._settings.questions is not None and self._settings.questions.alone:
            self._training.complete = self._told_end = True
            self._say("there is no training here: the server waits for questions")
        if (reason := reason_of(self._state.run)) is not None:
            self._training.complete = self._told_end = True
            self._say(f"this training is closed: {reason}; its boards are published as before")

    def _tell_removed(self, names: Sequence[str]) -> None:
        for name in names:
            self._say(f"{name} was removed for good and stays out; take its line out of [[nodes]]")

    def reload(self, *_: object) -> None:
        """Read the settings again, soon; may be the handler of a signal, so it takes no lock."""
        self._to_reload = True

    def _reloaded(self) -> None:
        """Take over ``[[nodes]]``, and say what waits for the next start; what is wrong changes nothing."""
        try:
            read = read_settings(self._config)
            waiting = waiting_keys(self._settings, read)
            require_room(self._settings, read)
            removed = keep_register(read)
        except (FedboardError, OSError) as error:
            self._say(f"not reloaded: {error}")
            return
        self._tell_removed(removed)
        also = f"; for the next start: {', '.join(waiting)}" if waiting else ""
        self._say(f"reloaded: {len(read.nodes)} nodes in [[nodes]]{also}")

    @property
    def fares(self) -> Fares:
        """How the training fares so far."""
        return Fares.of(self._rounds())

    def require_few_lost(self) -> None:
        """Hold a training that is over against the share of rounds that it may lose.

        Raises:
            RoundsLostError: it lost more.
        """
        if self._training.complete:
            require_few_lost(self.fares, most_lost=self._settings.rounds.most_lost)

    def _tend(self) -> None:
        if self._superlink.starts and self._superlink.pid is None and not self._begun:
            self._forget_messages()
        for child in (self._superlink, *self._others):
            if not child.tend():
                continue
            again = "" if child.starts == 1 else f" again (start {child.starts}, after {child.ended})"
            self._say(f"{child.name} started{again}, process {child.pid}")
            if child is self._superlink:
                self._begun = False

    def _forget_messages(self) -> None:
        """A SuperLink that was killed while it made its database never starts again with it, so there has to be a
        new one. Nothing is lost: who is admitted is in the settings, and the training in its own folder.
        """
        forget(self._state.database)

    def _look(self) -> None:
        if (back := self._clock.put_back()) > 0:
            self._tell_put_back(back)
            self._superlink.stop()
            self._forget_messages()
            self._begun = False
        try:
            if not self._begun:
                self._begun = self._control.ready() and self._begin()
            else:
                if self._admission is not None:
                    self._admission.look()
                watched = self._questions if self._training.complete else self._training
                if not watched.watch():
                    self._say("the SuperLink no longer starts runs; it is restarted")
                    self._superlink.stop()
        except (httpx.HTTPError, ValueError):
            pass  # it is starting, busy or ending; the next look finds out
        self._tell_rounds()
        with suppress(FedboardError):  # whoever reads the ledger next says what is wrong with it
            self._tell_waiting()
        self._write_counts()

    def _tell_put_back(self, seconds: float) -> None:
        self._say(
            f"the clock of this machine was put back by {seconds:.0f} s: the SuperLink begins a new database, "
            "since it would count devices as present until then"
        )

    def _begin(self) -> bool:
        if self._admission is not None:
            self._admission.begin()
        self._training.begin()
        self._questions.begin()
        return True

    def _tell_rounds(self) -> None:
        lines = self._rounds()
        for line in lines[self._told_rounds :]:
            if line.get(UNLOGGED):
                self._say(
                    f"round {line['round']}: its board is published; the training ended before it was told"
                )
                continue
            more = "".join(f", {count} {code}" for code, count in sorted(line.get("refused", {}).items()))
            times = line.get("attempts", 1)
            again = f", asked {times} times" if times > 1 else ""
            lost = ", LOST: its budget is spent and nothing came of it" if line.get(LOST) else ""
            self._say(
                f"round {line['round']}: {line.get('answers', 0)} answers{more}{again}{lost}, "
                f"{line['seconds']:.2f} s, epsilon so far {line['epsilon_spent']:.3g}"
            )
        self._told_rounds = len(lines)
        if self._training.complete and not self._told_end:
            self._told_end = True
            self._say(f"the training is {'over' if self.fares.lost else 'complete'}: {self.fares.sentence}")

    def _rounds(self) -> list[dict[str, Any]]:
        return RoundLog(self._state.run / "rounds.jsonl").lines()

    def _write_counts(self) -> None:
        counts: dict[str, Any] = {
            "starts": {child.name: child.starts for child in (self._superlink, *self._others)},
            "training_failures": self._training.failures,
        }
        if counts != self._written:
            write_atomically(self._state.counts / "supervisor.json", json.dumps(counts).encode())
            self._written = counts

    def _stop(self) -> None:
        self._stop_parts()
        compact(self._state.database)

    def _stop_parts(self) -> None:
        """First the door, then what is behind it."""
        for child in (*self._others, self._superlink):
            child.stop()
