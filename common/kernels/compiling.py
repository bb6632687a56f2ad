"""The one module that decorates with numba: kernels compile once, then come from a cache on disk.

Import it (and everything under ``compiled``) only through ``backends.implementation``: numba is
optional and takes about half a second to import.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba import types
from numba.core import event
from numba.core.registry import CPUDispatcher

_KERNELS: Final = Path(__file__).parent
_settings: Any = numba.config
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
            Without them it is compiled into each compiled function that calls it, and Python cannot call it:
            what Python needs to call a function takes as long to compile as many a function.
    """
    options = {"nogil": True, "error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}
    njit: Any = numba.njit

    def made(function: Function, cache: bool) -> Any:
        if signature:
            return njit(types.void(*signature), cache=cache, **options)(function)
        return function if _settings.DISABLE_JIT else _Part.of(function, cache, options)

    def decorate(function: Function) -> Function:
        with _own_cache_folder():
            try:
                return cast(Function, made(function, cache=True))
            except RuntimeError:  # nowhere to write a cache: compile in every process
                return cast(Function, made(function, cache=False))

    return decorate


_Dispatcher: Any = CPUDispatcher


class _Part(_Dispatcher):  # type: ignore[misc]  # numba has no types
    """A function that is compiled into others and cannot be called from Python, which would crash."""

    @classmethod
    def of(cls, function: Callable[..., Any], cache: bool, options: dict[str, Any]) -> "_Part":
        """What ``njit`` makes of a function, less what Python calls it by."""
        part = cls(py_func=function, targetoptions={"nopython": True, "no_cpython_wrapper": True, **options})
        if cache:
            part.enable_caching()
        return part

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError(f"{self.__name__} is a part of compiled functions: Python cannot call it")


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
    configured = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(cache_folder(configured))
    try:
        yield
    finally:
        _settings.CACHE_DIR = configured


def cache_folder(configured: str = "") -> Path:
    """The folder of machine code, named after the text of all kernels.

    numba notices a change in the file of the function it compiles, not in the files of the functions which that
    one calls; without this an upgrade could run yesterday's machine code.

    Args:
        configured: the folder that numba was told to use, if any.
    """
    return Path(configured or _KERNELS / "__pycache__") / f"kernels-{_digest_of_sources()}"


def is_kept() -> bool:
    """Whether machine code that one process makes can be found by others: there is a folder that takes it."""
    return os.access(cache_folder(_settings.CACHE_DIR), os.W_OK)


@cache
def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(_KERNELS.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
