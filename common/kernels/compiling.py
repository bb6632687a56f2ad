"""The one module that decorates with numba: kernels compile once, then come from a cache on disk.

Import it (and everything under ``plain`` and ``blocked``) only through ``backends.implementation``: numba is
optional and takes about half a second to import.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic as _intrinsic

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


def writing(kind: str, dimensions: int) -> Any:
    """Type of a contiguous array argument that is written. ``kind``: a numba scalar type name."""
    return types.Array(getattr(types, kind), dimensions, "C")


@contextmanager
def _own_cache_folder() -> Iterator[None]:
    """Cache in a folder named after the text of all kernels.

    numba notices a change in the file of the function it compiles, not in the files of the functions which that
    one calls; without this an upgrade could run yesterday's machine code.
    """
    settings: Any = numba.config
    configured = settings.CACHE_DIR
    base = Path(configured) if configured else _FOLDER / "__pycache__"
    settings.CACHE_DIR = str(base / f"kernels-{_DIGEST}")
    try:
        yield
    finally:
        settings.CACHE_DIR = configured


def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(_FOLDER.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_FOLDER: Final = Path(__file__).parent
_DIGEST: Final = _digest_of_sources()
