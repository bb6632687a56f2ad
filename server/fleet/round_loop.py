"""The round loop of a fleet's server: one thread that trains, and then answers one query after another.

All that counts is on the disk after each step, so whatever ends the loop, it goes on from there: after a failure it
is tried again by itself, after a restart by the next server. A round that is under way when the loop is halted is
asked again.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedboard.common.board import Board
from fedboard.common.errors import FedboardError, PrivacyError, StorageError, TooFewAnswersError
from fedboard.server.fleet.job import Job, job_of
from fedboard.server.fleet.mailbox import Mailbox
from fedboard.server.fleet.queries import PutQuery, Standing, give_up, job_of_query, queries_of
from fedboard.server.fleet.rounds.asking import HaltedError, MemberNodes
from fedboard.server.fleet.rounds.over_nodes import BEHIND
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import RoundLog, StateFolder, reason_of
from fedboard.server.operating.run_files import LOST, UNLOGGED, Fares

_log = logging.getLogger(__name__)
_LONGEST_WAIT = 60.0
_LOOK_SECONDS = 0.5
"""How often it is looked for a new query."""
_SHOWN_SECONDS = 0.05
"""How often it is looked whether readers have a board."""
_LEAST_FREE = 1 << 24
"""Bytes of the state folder's disk: with fewer left no round goes on, and with twice as many it does again."""
_MOST_FAILURES = 3
"""Runs of one query that end without a board, before it is given up."""


class DiskFullError(StorageError):
    """The disk has no room for what a round writes: it is waited for, and nothing has failed."""


@dataclass(slots=True)
class Tries:
    """How often something has failed in a row, and why the last time."""

    failures: int = 0
    problem: str | None = None

    @property
    def wait(self) -> float:
        """Seconds until the next try."""
        return min(2.0 ** min(self.failures - 1, 10), _LONGEST_WAIT)


class RoundLoop:
    """The thread. Other threads start and stop it, and read how it fares."""

    def __init__(
        self,
        settings: FleetSettings,
        mailbox: Mailbox,
        *,
        say: Callable[[str], None],
        unshown: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        """Make ready; nobody is asked yet.

        Args:
            settings: of the fleet, prepared.
            mailbox: where devices get their messages.
            say: takes sentences for the operator, from this thread.
            unshown: why readers do not have the board of a version yet; None where they have it.
        """
        self.complete = False
        """Whether the training is over, or there is none."""
        self.fatal: BaseException | None = None
        """What ended the loop for good; None while it goes on."""
        self._settings, self._state = settings, StateFolder.of(settings)
        self._mailbox, self._say, self._unshown = mailbox, say, unshown
        self.training, self._log = Tries(), RoundLog(self._state.rounds)
        """How often in a row the training was interrupted without a new board, and why the last time."""
        self.full: str | None = None
        """That the disk is full, while no round goes on for that."""
        self._n_told, self._left_out = 0, set[int]()
        """How many rounds of the log were told, and queries that are over."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)

    @property
    def fares(self) -> Fares:
        """How the training fares so far."""
        return Fares.of(self._log.lines())

    def start(self) -> None:
        """Begin, or go on, with what is on the disk."""
        self._n_told = len(self._log.lines())
        if self._settings.alone:
            self.complete = True
            self._say("there is no training here: the server waits for queries")
        elif (reason := reason_of(self._state.run)) is not None:
            self.complete = True
            self._say(f"this training is closed: {reason}; its boards are published as before")
        self._thread.start()

    def stop(self, *, seconds: float) -> None:
        """End the loop; what computes for longer than this is left to end with the process."""
        self._stopped.set()
        self._mailbox.end()  # whoever waits for answers is woken
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _go_on(self) -> None:
        """See that the round under way may go on: of a full disk it is known before the round is lost.

        Raises:
            HaltedError: the loop is stopped.
            DiskFullError: as it says.
        """
        if self._stopped.is_set():
            raise HaltedError
        if (free := self._free()) < _LEAST_FREE:
            raise DiskFullError(
                f"disk full: {self._state.path} has {free / 1e6:.0f} MB left; no round goes on before it has "
                f"{2 * _LEAST_FREE / 1e6:.0f} MB"
            )

    def _free(self) -> int:
        return shutil.disk_usage(self._state.path).free

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self.complete:
                    self._answer_next()
                elif self._tried(
                    partial(job_of, self._settings),
                    self._state.run,
                    self.training,
                    "the training",
                    shown=self._until_shown,
                ):
                    fares, self.training.problem, self.complete = self.fares, None, True
                    self._say(f"the training is {'over' if fares.lost else 'complete'}: {fares.sentence}")
        except HaltedError:
            pass
        except BaseException as error:
            self.fatal = error
            if not isinstance(error, FedboardError):
                _log.exception("the round loop has ended")

    def _wait(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def _between(self, _: Board) -> None:
        """Rounds: the next one begins when enough devices are there."""
        self._mailbox.end_round()

    def _until_shown(self, board: Board) -> None:
        """Wait until readers have the board that is to be asked about, as long as for devices to come.

        Raises:
            TooFewAnswersError: they still lack it; nobody was asked for anything, so nothing is spent.
        """
        self._between(board)
        until = time.monotonic() + self._settings.rounds.pace.longest_seconds
        while (why := self._unshown(board.version)) is not None:
            self._stopped.wait(_SHOWN_SECONDS)
            self._go_on()
            if time.monotonic() > until:
                raise TooFewAnswersError(f"{why}; nobody was asked, and nothing was spent", asked=False)

    def _tried(
        self,
        job_now: Callable[[], Job],
        run: Path,
        tries: Tries,
        what: str,
        *,
        shown: Callable[[Board], None] | None = None,  # the board of a query is published to nobody
    ) -> bool:
        """Whether a job was run to its end; where it failed, or the disk is full, it is waited until the next try.

        Raises:
            PrivacyError: devices were told of more than this server knows of: it would be so each time.
        """
        before = _published(run)
        try:
            job, register = job_now(), self._state.members
            members = MemberNodes(self._mailbox, register, most_users=job.n_users, go_on=self._go_on)
            with closing(members) as nodes:
                run_job(nodes, job, on_round=lambda _: self._tell_rounds(), shown=shown or self._between)
            self._tell_rounds()
            return True
        except DiskFullError as error:
            self._tell_rounds()
            self.full = str(error)
            self._say(f"{what} waits: {error}")
            with suppress(OSError):  # the next try says what is wrong with the disk
                while not self._stopped.is_set() and self._free() < 2 * _LEAST_FREE:
                    self._stopped.wait(_LOOK_SECONDS)
            self.full = None
            self._say(f"the disk has room again: {what} goes on")
            return False
        except Exception as error:
            if isinstance(error, PrivacyError) and BEHIND in str(error):
                raise
            if not (known := isinstance(error, FedboardError | OSError)):
                _log.exception("%s was interrupted", what)
            self._tell_rounds()
            tries.problem = str(error) if known else f"{type(error).__name__}: {error}"
            tries.failures = 1 if _published(run) > before else tries.failures + 1
            self._say(f"{what} was interrupted: {tries.problem}; it is tried again in {tries.wait:g} s")
            self._wait(tries.wait)
            return False

    def _tell_rounds(self) -> None:
        """A round is over, or was interrupted: what the log of the training has gained."""
        self._mailbox.end_round()
        lines = self._log.lines()
        for line in lines[self._n_told :]:
            self._say(_told(line))
        self._n_told = len(lines)

    def _answer_next(self) -> None:
        """Ask the next query that waits, or wait for one."""
        put = self._next()
        if put is None:
            self._wait(_LOOK_SECONDS)
            return
        statement, tries = put.task().statement, Tries()
        self._say(f"{put.name}: {statement.sentence}")
        what = partial(job_of_query, self._settings, put, statement)
        while not self._tried(what, put.state.run, tries, put.name):
            if self._stopped.is_set():
                return
            if tries.failures >= _MOST_FAILURES:
                try:
                    give_up(put, self._state, str(tries.problem))
                except FedboardError as error:
                    self._say(f"{put.name}: what is reserved for it stays so ({error})")
                self._left_out.add(put.number)
                self._say(f"{put.name} is given up: {tries.problem}")
                return
        self._left_out.add(put.number)
        self._say(f"{put.name} is answered: fedboard query results")

    def _next(self) -> PutQuery | None:
        for put in queries_of(self._state):
            if put.number in self._left_out:
                continue
            try:
                if put.standing() is Standing.WAITING:
                    return put
            except FedboardError as error:
                self._say(f"{put.name} is left out: {error}")
            self._left_out.add(put.number)
        return None


def _published(run: Path) -> int:
    return sum(1 for _ in (run / "boards").glob("board-*.board"))


def _told(line: Mapping[str, Any]) -> str:
    """A line of the rounds' log, for the operator."""
    if line.get(UNLOGGED):
        return f"round {line['round']}: its board is published; the training ended before it was told"
    more = "".join(f", {count} {code}" for code, count in sorted(line.get("refused", {}).items()))
    times = line.get("attempts", 1)
    again = f", asked {times} times" if times > 1 else ""
    lost = ", LOST: its budget is spent and nothing came of it" if line.get(LOST) else ""
    return (
        f"round {line['round']}: {line.get('answers', 0)} answers{more}{again}{lost}, "
        f"{line['seconds']:.2f} s, epsilon so far {line['epsilon_spent']:.3g}"
    )
