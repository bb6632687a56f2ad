"""Everything that leaves through a release, written down on its way: in this process or in a worker's."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.errors import PrivacyError
from fedboard.common.kernels.shared.blas_threads import one_blas_thread_here
from fedboard.common.task import ItemBlockSolver, ReleasedSums, RoundTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One release as it left: what an outsider who saw everything would hold."""

    values: FloatArray
    """float64, shape (rows, width), real units. Public."""
    starts: tuple[int, ...]
    """First row of each part that was published in one go, ascending; parts may come from several processes."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Published blocks: those of this process in memory, those of workers, who get the path alone, in a folder."""

    folder: Path
    _kept: list[tuple[str, int, FloatArray]] | None = field(default_factory=list, repr=False, compare=False)
    """Name, first row and values of each block; None in a worker."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Recorder, (self.folder, None))

    def write(self, name: str, start: int, values: FloatArray) -> None:
        """Keep a block; writing the same rows twice keeps both, so that ``read`` can tell."""
        if self._kept is not None:
            self._kept.append((name, start, values.copy()))
            return
        prefix = f"{_slug(name)}@{start}@"
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=prefix, suffix=".npy", delete=False) as out:
            np.save(out, values)

    def read(self, name: str) -> Published | None:
        """A release put together again; None where nothing of it was published.

        Raises:
            PrivacyError: some rows were published twice, or not all of them.
        """
        parts = [(start, values) for kept, start, values in self._kept or () if kept == name]
        files = self.folder.glob(f"{_slug(name)}@*.npy")
        parts += [(int(path.name.split("@")[1]), np.load(path)) for path in files]
        if not parts:
            return None
        parts.sort(key=lambda part: part[0])
        starts, blocks = tuple(start for start, _ in parts), [values for _, values in parts]
        stops = np.cumsum([len(block) for block in blocks])
        if starts != (0, *stops[:-1].tolist()):
            raise PrivacyError(f"release {name!r}: rows were published twice or left out")
        return Published(values=np.concatenate(blocks), starts=starts)


@dataclass(frozen=True, slots=True)
class RecordingSums:
    """Released sums that are written down as they are read."""

    inner: ReleasedSums
    recorder: Recorder

    @property
    def noise_ratio(self) -> float:
        """Deviation of the noise over the booked one."""
        return self.inner.noise_ratio

    def array(self, name: str) -> FloatArray:
        """One release as a whole."""
        values = self.inner.array(name)
        self.recorder.write(name, 0, values)
        return values

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """Blocks of items, each written down where it is solved."""
        return self.inner.map_items(names, _RecordingSolver(solver, self.recorder), width=width)


@dataclass(frozen=True, slots=True)
class _RecordingSolver:
    solver: ItemBlockSolver
    recorder: Recorder

    def __call__(self, start: int, blocks: Mapping[str, FloatArray]) -> Float32Array:
        for name, values in blocks.items():
            self.recorder.write(name, start, values)
        return self.solver(start, blocks)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What left, to be read once more by a task that has nothing else."""

    published: Mapping[str, Published]
    noise_ratio: float

    def array(self, name: str) -> FloatArray:
        """One release as it left."""
        return self.published[name].values.copy()

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """In the blocks in which it left: kernels may round differently for others."""
        left = [self.published[name] for name in names]
        stops = (*left[0].starts[1:], len(left[0].values))
        blocks = [
            solver(
                start, {name: part.values[start:stop].copy() for name, part in zip(names, left, strict=True)}
            )
            for start, stop in zip(left[0].starts, stops, strict=True)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, width), dtype=np.float32)


@one_blas_thread_here()
def remade(task: RoundTask, before: Board, published: Mapping[str, Published], noise_ratio: float) -> Board:
    """The board that follows from a board and what left, and from nothing else."""
    return task.update(before, Replayed(published, noise_ratio))


def _slug(name: str) -> str:
    return name.encode().hex()  # names may hold slashes
