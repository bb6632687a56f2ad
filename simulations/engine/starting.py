"""How worker processes are started: forked from one that has imported what they need, else each from nothing.

To import is most of what a worker costs in a short run. On Linux the first pool of a process starts a *fork
server* (``multiprocessing``'s own), which imports what workers need and does nothing else; workers are forked from
it, never from a process that holds ratings, keys or noise. What siblings could share are generators of random
numbers: NumPy's and Python's global ones are seeded anew in each worker. Noise that protects comes from the
operating system, or follows from its release's key (``fedboard.common.privacy.releases.noise``).

Telling the C library's allocator to keep the memory that a block of work frees, for the next block.
"""

import ctypes
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from typing import Any, Final, TypeAlias

import numpy as np

IMPORTED = (
    "fedboard.simulations.engine.forks",
    "fedboard.simulations.engine.spans",
    "fedboard.common.protocols.trusted",
)
"""What nearly every worker imports, after what makes that quick; if one cannot be imported, workers do without."""
COMPILED = ("fedboard.common.kernels.compiled.noise",)
"""And those with compiled kernels."""
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
Target: TypeAlias = Callable[..., None]


def start_process(
    target: Target, arguments: tuple[Any, ...], *, name: str, compiled: bool = True
) -> BaseProcess:
    """A daemon process that runs ``target(*arguments)``, a module-level function and what can be pickled.

    From the fork server where there is one that answers, else from nothing. Its BLAS has one thread. Where it is
    the first one, ``compiled`` says whether the fork server imports what compiled kernels need.
    """
    environment = {**os.environ, **_ONE_THREAD}
    for method in start_methods():
        context: Any = multiprocessing.get_context(method)
        process: BaseProcess = context.Process(
            target=_begin, args=(target, arguments, environment), name=name, daemon=True
        )
        try:
            if method == "forkserver":
                _serve_forks(IMPORTED + COMPILED * compiled)
                process.start()
            else:
                with one_blas_thread(), _interrupts_held():
                    process.start()
        except (EOFError, OSError):  # of the server: no room for its socket, or its folder is gone
            if method == "spawn":
                raise
            continue
        return process
    raise AssertionError("there is no start method")


def _serve_forks(imported: tuple[str, ...]) -> None:
    """Start the fork server, if there is none yet; it imports while we go on."""
    forkserver.set_forkserver_preload(list(imported))
    # It finds the packages that this process finds, and none that only lie in the current folder.
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}
    with environment_with({**_ONE_THREAD, **path}), _interrupts_held():
        forkserver.ensure_running()


def start_methods() -> tuple[str, ...]:
    """What is tried, in this order.

    No fork server where the system's own libraries do not survive a fork (macOS), nor where this process was told
    to ignore its environment: the server would look for packages elsewhere.
    """
    ignoring = sys.flags.isolated or sys.flags.ignore_environment
    return ("spawn",) if sys.platform != "linux" or ignoring else ("forkserver", "spawn")


def _begin(target: Target, arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
    """In the new process: as if it had been started from nothing just now."""
    os.environ.clear()
    os.environ.update(environment)
    seed_anew()
    target(*arguments)


def seed_anew() -> None:
    """Give this process global generators of its own: forked siblings have the same copies of the server's."""
    random.seed()
    np.random.seed()  # noqa: NPY002 (we do not use it; what we call may)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Workers share the cores among them already; their BLAS must not start threads of its own."""
    with environment_with(_ONE_THREAD):
        yield


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process inherits what is held, so a Ctrl-C while it still imports does not end it with a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def environment_with(changes: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process and those that it starts meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# From glibc's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

_LARGEST_ARRAY: Final = 32 << 20  # the most that glibc accepts on 64-bit machines
_KEPT: Final = 256 << 20


def keep_freed_memory() -> None:
    """Let this process hold on to up to 256 MB of freed memory.

    By default glibc gives freed arrays back to the system at once and gets them again, page by page and zeroed,
    for the next block of users: that cost up to a fifth of a round's time. Where the C library is another one
    nothing happens. Only speed depends on it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _LARGEST_ARRAY)
    mallopt(_TRIM_THRESHOLD, _KEPT)
