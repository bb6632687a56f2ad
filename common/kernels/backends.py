"""Which implementation of the kernels to run."""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from fedboard.common.errors import InputError

BACKENDS: Final = ("numpy", "compiled")

KERNELS: Final = ("own_models", "psd", "ridge", "item_statistics", "left_out", "noise", "rows")
"""What runs over ratings call of a back end, by module; what takes longest to compile first."""
FOR_FEATURES: Final = ("own_models",)
"""Called only where a catalogue has features."""

# Below this amount of work (ratings x rank^2, about half a flop each) compiled kernels cost more to load, or to
# compile on their first call, than they save.
_COMPILED_FROM: Final = 3e8

_OF_NUMPY: Final = {
    **dict.fromkeys(("ridge", "own_models", "left_out", "psd"), "solves"),
    **dict.fromkeys(("item_statistics", "pair_sums", "rows"), "sums"),
}
"""Kernels that are in one module there: nothing is compiled, so nothing is saved by loading few of them."""

FEW_DRAWS: Final = 1 << 18
"""Numbers that a process draws without the compiler; they take some 20 ms, and numba half a second to import."""
_COMPILED_DRAWS: Final = "fedboard.common.kernels.compiled.noise"
_drawn = 0


@cache
def has_compiler() -> bool:
    """Whether numba, which the backend "compiled" needs, is installed."""
    return find_spec("numba") is not None


def choose_backend(rank: int, n_ratings: int) -> str:
    """The backend that is quickest for a run over about ``n_ratings`` ratings at rank ``rank``.

    Backends agree up to rounding, not bit for bit: choose once per run, from public numbers (a guess of the number
    of ratings, not the number), and write the choice down.

    Args:
        rank: length of the factor vectors, >= 1.
        n_ratings: ratings expected in the whole run, not in one part of it. Public.

    Returns:
        "numpy" where numba is not installed or the run is small, else "compiled".
    """
    work = float(n_ratings) * rank * rank
    return "compiled" if has_compiler() and work >= _COMPILED_FROM else "numpy"


def implementation(backend: str, kernel: str) -> ModuleType:
    """The module that implements ``kernel`` for ``backend``, imported now: numba loads only when it is used.

    Raises:
        InputError: unknown name, or a compiled backend without numba.
    """
    if backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
    if backend != "numpy" and not has_compiler():
        raise InputError(
            f'backend "{backend}" needs numba, which is not installed: '
            'install fedboard[sim] or take backend "numpy"'
        )
    place = _OF_NUMPY.get(kernel, kernel) if backend == "numpy" else kernel
    return import_module(f"fedboard.common.kernels.{backend}.{place}")


def without_compiler(backend: str, numbers: int) -> bool:
    """Whether NumPy makes the next so many normal draws of a compiled backend: the same ones, bit for bit
    (``numpy/noise.py``), at a tenth of the speed, for a process that needs few.

    Args:
        backend: asked for.
        numbers: that are to be drawn now.
    """
    global _drawn
    if backend != "compiled" or _COMPILED_DRAWS in sys.modules or not has_compiler():
        return False
    _drawn += numbers
    return _drawn <= FEW_DRAWS
