"""Where compiled kernels are kept, what they take to compile, and whether that was done here.

Needs no compiler, and imports none.
"""

import hashlib
import os
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

_KERNELS: Final = Path(__file__).parents[1]

_SECONDS: Final = {
    "entry_sums": 0.5,
    "item_statistics": 2.6,
    "left_out": 1.3,
    "noisy_sums": 1.0,
    "own_models": 4.5,
    "residuals": 0.3,
    "psd": 4.5,
    "ridge": 4.2,
    "row_bounds": 0.7,
    "top_k": 0.5,
    "unit_rows": 0.2,
}
"""What a run over ratings calls, and how long it compiles on one core (AMD EPYC, 2.6 GHz)."""
_FOR_FEATURES: Final = ("own_models",)


def cache_folder(configured: str = "") -> Path:
    """The folder of machine code, named after the text of all kernels.

    numba notices a change in the file of the function it compiles, not in the files of the functions which that
    one calls; without this an upgrade could run yesterday's machine code.

    Args:
        configured: the folder that numba was told to use, if any.
    """
    return Path(configured or _KERNELS / "__pycache__") / f"kernels-{_digest_of_sources()}"


def compile_seconds(backend: str, *, features: bool) -> dict[str, float]:
    """What has to be compiled for a run with these kernels: name -> seconds on one core; nothing for NumPy's.

    Args:
        backend: of the run.
        features: whether users' own models look at item features.
    """
    seconds = _SECONDS if backend == "compiled" else {}
    return {kernel: takes for kernel, takes in seconds.items() if features or kernel not in _FOR_FEATURES}


def is_noted(backend: str, kernel: str) -> bool:
    """Whether ``note`` was called for this kernel, in this environment."""
    return _note(backend, kernel).exists()


def note(backend: str, kernel: str) -> None:
    """Write down that this kernel is compiled; where nothing can be written, nothing is."""
    try:
        _note(backend, kernel).touch()
    except OSError:
        return


def is_kept() -> bool:
    """Whether machine code that one process makes can be found by others: there is a folder that takes it."""
    return os.access(_folder(), os.W_OK)


def _note(backend: str, kernel: str) -> Path:
    code = f"{sys.implementation.cache_tag}-numba-{metadata.version('numba')}"
    return _folder() / f"{backend}-{kernel}-{code}.done"


def _folder() -> Path:
    return cache_folder(os.environ.get("NUMBA_CACHE_DIR", ""))


@cache
def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(_KERNELS.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
