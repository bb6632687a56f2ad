"""CPU seconds inside functions of this process."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock


class Stopwatch:
    """CPU seconds inside named functions of this process, without those of named functions they call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            start = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                spent = time.process_time() - start
                own = spent - self._inner.pop()
                self.seconds[name] = self.seconds.get(name, 0.0) + own
                self._inner[-1] += spent

        return run

    @contextmanager
    def watching(self, places: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
        """Wrap functions: (owner, attribute, name) of each."""
        with ExitStack() as stack:
            for owner, attribute, name in places:
                timed = self.timed(name, getattr(owner, attribute))
                stack.enter_context(mock.patch.object(owner, attribute, timed))
            yield
