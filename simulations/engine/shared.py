"""Arrays that several processes see at once."""

from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.cohort import Cohort


@dataclass(frozen=True, slots=True)
class SharedArray:
    """Handle of an array in shared memory. Pickles to its name, so it is cheap to send to a worker."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    _attached: list[SharedMemory] = field(default_factory=list, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return (SharedArray, (self.name, self.shape, self.dtype))

    @property
    def array(self) -> NDArray[Any]:
        """The array itself, mapped on first use."""
        if not self._attached:
            self._attached.append(_attach(self.name))
        return np.ndarray(self.shape, dtype=self.dtype, buffer=self._attached[0].buf)


_LOOKED_AFTER = 256
"""Each time so many more are mapped, those that are freed are let go: a worker that serves thousands of engines
must not run out of file descriptors."""
_mapped: dict[str, SharedMemory] = {}
"""What this process has mapped: a worker gets a fresh handle with each job, and maps each array once."""


def _attach(name: str) -> SharedMemory:
    if name not in _mapped:
        if len(_mapped) % _LOOKED_AFTER == _LOOKED_AFTER - 1:
            _let_go()
        _mapped[name] = SharedMemory(name=name)
    return _mapped[name]


def _let_go() -> None:
    """Unmap what its owner has freed, which tells nobody; no job is left that could look at it."""
    for name in [name for name in _mapped if not _exists(name)]:
        _mapped.pop(name).close()


def _exists(name: str) -> bool:
    try:
        SharedMemory(name=name).close()
    except FileNotFoundError:
        return False
    return True


class SharedArrays:
    """Owner of shared arrays: creates them, and frees all of them when it is closed."""

    def __init__(self) -> None:
        """Start with none."""
        self._memories: list[SharedMemory] = []

    def copy_of(self, values: NDArray[Any]) -> SharedArray:
        """A new array with these values."""
        memory = SharedMemory(create=True, size=max(1, values.nbytes))
        self._memories.append(memory)
        shared = SharedArray(memory.name, values.shape, values.dtype.str, [memory])
        shared.array[...] = values
        return shared

    def close(self) -> None:
        """Free every array. Handles of them are of no use afterwards."""
        for memory in self._memories:
            _mapped.pop(memory.name, None)
            with suppress(BufferError):  # a view is still alive: the name goes, the pages follow the view
                memory.close()
            memory.unlink()
        self._memories.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCohort:
    """A cohort whose arrays lie in shared memory."""

    indptr: SharedArray
    items: SharedArray
    ratings: SharedArray
    user_keys: SharedArray
    n_items: int
    features: SharedArray | None = None
    """Of examples; None for ratings."""

    @staticmethod
    def of(cohort: Cohort, shared: SharedArrays) -> "SharedCohort":
        """Copy a cohort into shared memory."""
        return SharedCohort(
            indptr=shared.copy_of(cohort.indptr),
            items=shared.copy_of(cohort.items),
            ratings=shared.copy_of(cohort.ratings),
            user_keys=shared.copy_of(cohort.keys),
            n_items=cohort.n_items,
            features=None if cohort.features is None else shared.copy_of(cohort.features),
        )

    def cohort(self) -> Cohort:
        """The cohort, without copying."""
        return Cohort(
            indptr=self.indptr.array,
            items=self.items.array,
            ratings=self.ratings.array,
            n_items=self.n_items,
            user_keys=self.user_keys.array,
            features=None if self.features is None else self.features.array,
        )
