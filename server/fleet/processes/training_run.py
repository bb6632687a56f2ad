"""The training as a run of the SuperLink: handed in, watched, and handed in again until it is complete.

The ServerApp keeps its whole state in its own folder, so a run that is handed in again goes on from the last
published board; a training that is complete ends at once. What counts is the run's state as the SuperLink records
it: the exit status of Flower's commands says nothing.
"""

import time
from collections.abc import Callable

from fedboard.common.errors import PrivacyError
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.control import Control, RunState
from fedboard.server.fleet.processes.work_locks import is_at_work
from fedboard.server.fleet.rounds.booked_rounds import BEHIND

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_MOST_WAITING_SECONDS = 60.0
_GONE_SECONDS = 3.0
"""After which a ServerApp that no longer works and has not reported its end was killed."""


class TrainingRun:
    """One training, over as many runs as it takes."""

    def __init__(
        self,
        control: Control,
        state: StateFolder,
        *,
        say: Callable[[str], None],
        what: str = "the training",
    ) -> None:
        """Make ready.

        Args:
            control: of the SuperLink.
            state: names the job.
            say: takes sentences for the operator.
            what: it is called in them.
        """
        self.complete = False
        self.failures = 0
        """Runs in a row that failed without publishing a board."""
        self.problem: str | None = None
        """Why the last run failed; None while all is well."""
        self._control, self._state, self._say, self._what = control, state, say, what
        self._run_id: int | None = None
        self._handed_in = 0.0
        self._boards = 0
        self._last_at_work: float | None = None
        self._waits = False
        self._wait, self._next = _FIRST_WAIT, 0.0

    def begin(self) -> None:
        """After a start of the SuperLink: end what is left of earlier lives, and hand in the training."""
        for run in self._control.runs():
            if not run.finished:
                self._control.stop_run(run.run_id)
        self._run_id, self._next, self._last_at_work = None, 0.0, None
        self.watch()

    def watch(self) -> bool:
        """Look how it fares; hand it in if it has to be. False if the SuperLink has stopped starting runs.

        Raises:
            PrivacyError: devices were told of more than this server knows of.
        """
        if self.complete:
            return True
        now = time.monotonic()
        if self._run_id is None:
            if now >= self._next and not self._held_up():
                self._boards = self._published()
                self._run_id, self._handed_in = self._control.start_run(self._state.job), now
            return True
        run = next((run for run in self._control.runs() if run.run_id == self._run_id), None)
        if run is None or run.finished:
            self._ended(run)
        elif self._was_killed(now):
            self._control.stop_run(run.run_id)
        return run is None or not run.waiting or now - self._handed_in < _MOST_WAITING_SECONDS

    def _held_up(self) -> bool:
        """Whether the ServerApp of an earlier run is still at work: two would fight for the ledger."""
        before, self._waits = self._waits, is_at_work(self._state.run)
        if self._waits and not before:
            self._say(f"{self._what} waits until the ServerApp of an earlier run has ended")
        return self._waits

    def _was_killed(self, now: float) -> bool:
        """Whether the ServerApp was at work and is no longer."""
        if is_at_work(self._state.run):
            self._last_at_work = now
        return self._last_at_work is not None and now - self._last_at_work > _GONE_SECONDS

    def _ended(self, run: RunState | None) -> None:
        self._run_id = self._last_at_work = None
        if run is not None and run.completed:
            self.complete, self.problem = True, None
            return
        self.problem = "the run is gone" if run is None else run.details or "it was stopped"
        if BEHIND in self.problem:  # it would be so each time
            raise PrivacyError(self.problem[self.problem.index(BEHIND) :])
        if self._published() > self._boards:
            self.failures, self._wait = 0, _FIRST_WAIT
        self.failures += 1
        self._say(f"{self._what} was interrupted: {self.problem}; handed in again in {self._wait:g} s")
        self._next = time.monotonic() + self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def _published(self) -> int:
        return sum(1 for _ in (self._state.run / "boards").glob("board-*.board"))
