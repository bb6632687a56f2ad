"""A thread that signs boards into a mirror as a run publishes them, and again before their signatures expire."""

import logging
import threading
import time
from collections.abc import Callable

from fedboard.common.boards.layout import ROOTS
from fedboard.common.errors import FedboardError
from fedboard.common.keys.validity import DAY_SECONDS
from fedboard.server.publishing.expiring import root_expiry
from fedboard.server.publishing.mirror_files import Mirror

_log = logging.getLogger(__name__)


class Publisher:
    """Looks at a folder of boards from time to time. A board that cannot be signed stops nothing that is served."""

    def __init__(self, mirror: Mirror, sign: Callable[[], object], *, poll_seconds: float = 1.0) -> None:
        """Make ready.

        Args:
            mirror: written by this publisher alone.
            sign: does ``publish_into`` there; it reads its key at each call, so that one that was replaced needs no
                restart.
            poll_seconds: between two looks.
        """
        self.problem: str | None = None
        """Why the last look failed; None where it did not."""
        self.waiting: str | None = None
        """Which boards wait for which witnesses; None where none does. Nothing but the showing waits."""
        self._mirror, self._sign, self._next_warning = mirror, sign, 0.0
        self._poll_seconds = poll_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="board-publisher", daemon=True)

    def start(self) -> None:
        """Sign what is there, then go on in the background.

        Raises:
            InputError, PrivacyError, OSError: what is there cannot be signed.
        """
        self._sign()
        self.waiting = self._mirror.waiting()
        self._thread.start()

    def close(self) -> None:
        """Stop; a board that is being signed is finished first."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            try:
                self._sign()
                self.problem, self.waiting = None, self._mirror.waiting()
            except (FedboardError, OSError) as error:
                if self.problem != str(error):
                    _log.warning("boards cannot be signed: %s", error)
                self.problem = str(error)
            self._warn()

    def _warn(self) -> None:
        """Say once a day that the root expires soon; the signature on the newest board is renewed here."""
        if time.monotonic() < self._next_warning:
            return
        self._next_warning = time.monotonic() + DAY_SECONDS
        expiry = root_expiry(self._mirror.folder / ROOTS)
        now = time.time()
        if expiry is not None and expiry.is_soon(now):
            _log.warning("%s", expiry.sentence(now))
