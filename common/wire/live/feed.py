"""The newest state of something, watched by one thread and told to any number of readers."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

State = Mapping[str, Any]
"""JSON-able."""
TICK_SECONDS = 0.2
"""Between two looks at what is watched; a look costs a few calls of the system."""
_TIMES_A_READ, _LONGEST_PAUSE = 200, 0.7
"""What was just read is read again after so many times what that took of this thread's own CPU, and after so many
seconds at most: changes that follow each other at once are told together, and none later than a second.
"""


class Source(Protocol):
    """What is watched."""

    def signature(self) -> object:
        """Cheap; another one means that there may be news."""
        ...

    def is_due(self) -> bool:
        """Whether something that ``read`` has put off can be done now."""
        ...

    def read(self) -> State:
        """The state as it is now. Never raises: what cannot be read is a state too."""
        ...


@dataclass(frozen=True, slots=True)
class News:
    """One state as it is told."""

    number: int
    text: str
    """JSON on one line."""


class Feed:
    """The newest state, for readers who wait for the next one."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._changed = threading.Condition()
        self._news: News | None = None
        self.closed = False

    def tell(self, state: State) -> None:
        """Make this the newest state, if it differs from the last."""
        text = json.dumps(state, allow_nan=False, separators=(",", ":"))
        with self._changed:
            if self._news is None or text != self._news.text:
                self._news = News(0 if self._news is None else self._news.number + 1, text)
                self._changed.notify_all()

    def after(self, number: int, *, patience: float) -> News | None:
        """The newest state if it is another one than ``number``, waited for; None if none came or all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self._is_new(number), patience)
            return self._news if self._is_new(number) else None

    def close(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _is_new(self, number: int) -> bool:
        return self._news is not None and self._news.number != number


class Watcher:
    """Looks at a source in a thread of its own, and tells what is new."""

    def __init__(self, source: Source, tell: Callable[[State], None]) -> None:
        """Make ready, with a first look.

        Args:
            source: what is watched.
            tell: takes each state; called from one thread at a time, and must not raise.
        """
        self._source, self._tell = source, tell
        self._stop = threading.Event()
        self._seen: object = None
        self._rested = 0.0
        self._look()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def __enter__(self) -> "Watcher":
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look once more, so that the last state is told, and stop."""
        self._stop.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            if time.monotonic() >= self._rested:
                self._look()

    def _look(self) -> None:
        seen = self._source.signature()  # before reading: what changes meanwhile is seen next time
        if seen != self._seen or self._source.is_due():
            self._seen, began = seen, time.thread_time()
            self._tell(self._source.read())
            pause = _TIMES_A_READ * (time.thread_time() - began)
            self._rested = time.monotonic() + min(pause, _LONGEST_PAUSE)
