"""The one module that decorates with numba: kernels compile once, then come from a cache on disk.

Import it (and everything under ``plain`` and ``blocked``) only through ``backends.implementation``: numba is
optional and takes about half a second to import.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

import numba
from numba import types
from numba.core import event
from numba.extending import intrinsic as _intrinsic

from fedboard.common.kernels.shared.compiled_code import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])

INTEGER: Final = types.int64
BOOLEAN: Final = types.boolean
REAL: Final = types.float64


def compiled(*signature: Any) -> Callable[[Function], Function]:
    """Compile a function to machine code, cached on disk, without the interpreter lock.

    Floating-point operations keep their order, so results do not depend on what the compiler fancies.

    Args:
        signature: argument types from ``reading`` and ``writing``, INTEGER for int. With them the function is
            compiled, or read from the cache, on import, and read-only and writable inputs share one version.
            Without them it is compiled into each compiled function that calls it.
    """
    options = {"nogil": True, "error_model": "numpy", "boundscheck": False}
    arguments = [types.void(*signature)] if signature else []
    njit: Any = numba.njit

    def decorate(function: Function) -> Function:
        with _own_cache_folder():
            try:
                return cast(Function, njit(*arguments, cache=True, **options)(function))
            except RuntimeError:  # nowhere to write a cache: compile in every process
                return cast(Function, njit(*arguments, **options)(function))

    return decorate


def emitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that emits instructions callable from compiled functions; literals reach it as such.

    The first parameter, the typing context, is not part of the call.
    """
    return cast(Callable[..., Any], _intrinsic(prefer_literal=True)(function))


def reading(kind: str, dimensions: int) -> Any:
    """Type of a contiguous array argument that is only read. ``kind``: a numba scalar type name."""
    return types.Array(getattr(types, kind), dimensions, "C", readonly=True)


def reading_spread(kind: str) -> Any:
    """Type of a flat array argument that is only read, and whose elements may lie apart."""
    return types.Array(getattr(types, kind), 1, "A", readonly=True)


def writing(kind: str, dimensions: int) -> Any:
    """Type of a contiguous array argument that is written. ``kind``: a numba scalar type name."""
    return types.Array(getattr(types, kind), dimensions, "C")


@contextmanager
def told_of_compiling(begun: Callable[[], None]) -> Iterator[None]:
    """Call ``begun`` once, when within this context a function is compiled that no cache holds."""

    class Once(event.Listener):
        told = False

        def on_start(self, event: object) -> None:
            if not self.told:
                self.told = True
                begun()

        def on_end(self, event: object) -> None:
            """Nobody asks."""

    with event.install_listener("numba:compile", Once()):
        yield


@contextmanager
def _own_cache_folder() -> Iterator[None]:
    """Cache in the folder of these very kernels."""
    settings: Any = numba.config
    configured = settings.CACHE_DIR
    settings.CACHE_DIR = str(cache_folder(configured))
    try:
        yield
    finally:
        settings.CACHE_DIR = configured
