"""One thread of linear algebra in this process, so that no board depends on how many cores a machine has.

A library that shares a sum of many numbers among threads adds them in another order for each number of threads: an
inner product over 10 000 items or more then has other last bits on another machine, and so has every later board.
"""

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_BRINGS_ITS_OWN = "scipy.linalg"
"""SciPy's library is another one than NumPy's, and many steps load it when they need it."""


class _Limit:
    """Held once for all threads of the process: the first to come sets it, the last to go takes it back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._held = ExitStack()

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._held.enter_context(_libraries().limit(limits=1, user_api="blas"))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._held.close()


_LIMIT = _Limit()


@cache
def _libraries() -> "ThreadpoolController":
    """Those of NumPy and SciPy, both loaded. Looking for them takes ten milliseconds."""
    from threadpoolctl import ThreadpoolController  # devices read this package without it

    importlib.import_module(_BRINGS_ITS_OWN)
    return ThreadpoolController()


@contextmanager
def one_blas_thread_here() -> Iterator[None]:
    """Linear algebra of this process has one thread meanwhile, in whichever thread it is called; may be nested.

    Processes that are started meanwhile are not told. Libraries of others than NumPy and SciPy are limited where
    they were loaded before the first use.
    """
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()
