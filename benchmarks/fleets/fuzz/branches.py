"""Which branches of the product a message goes through: what leads to a new one is worth mutating further."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fedboard.common

_PRODUCT = str(Path(fedboard.common.__file__ or "").parents[1])
_OURS = tuple(f"{_PRODUCT}/{part}/" for part in ("client", "common", "server", "simulations", "cli"))
_OFTEN, _OF_THOSE = 2_000, 8
"""A function that was called so often without a new branch is followed in one call of eight."""
_Trace = Callable[[FrameType, str, Any], Any]


class Branches:
    """Steps from line to line in the product's own files, of all messages so far."""

    def __init__(self) -> None:
        """None yet."""
        self.found = 0
        """Steps that were seen at least once."""
        self._followed: dict[CodeType, _Function | None] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Follow what this thread does meanwhile."""
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, _: str, __: Any) -> _Trace | None:
        code = frame.f_code
        try:
            function = self._followed[code]
        except KeyError:
            ours = code.co_filename.startswith(_OURS)
            function = self._followed[code] = _Function(self) if ours else None
        return None if function is None or function.is_known() else function.step


class _Function:
    __slots__ = ("_calls", "_last", "_owner", "_steps")

    def __init__(self, owner: Branches) -> None:
        self._owner, self._steps, self._last, self._calls = owner, set[tuple[int, int]](), 0, 0

    def is_known(self) -> bool:
        self._last = 0
        self._calls += 1
        return self._calls > _OFTEN and self._calls % _OF_THOSE != 0

    def step(self, frame: FrameType, event: str, _: Any) -> _Trace:
        if event == "line":
            step = (self._last, frame.f_lineno)
            self._last = frame.f_lineno
            if step not in self._steps:
                self._steps.add(step)
                self._owner.found += 1
                self._calls = 0
        return self.step
