"""What runtimes on a pool of workers have in common: memory that workers see, boards in files, and progress."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedboard.common.board import Board
from fedboard.simulations.engine.pool import Job, WorkerPool
from fedboard.simulations.engine.shared import SharedArrays

OnProgress = Callable[[str, int, int], None]
"""(phase, jobs done, jobs in all)."""


class OnPool:
    """Shared memory and a folder for boards, both gone when it is closed; the pool stays with its owner."""

    def __init__(self, pool: WorkerPool, on_progress: OnProgress | None) -> None:
        """Begin with nothing in either.

        Args:
            pool: where jobs run.
            on_progress: told as jobs are done.
        """
        self._pool, self._on_progress = pool, on_progress
        self._shared = SharedArrays(one_process=pool.n_workers == 1)
        self._scratch = tempfile.TemporaryDirectory(prefix="fedboard-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free what is held."""
        self._shared.close()
        self._scratch.cleanup()

    def _publish(self, board: Board) -> Path:
        """The file from which workers read this board."""
        path = Path(self._scratch.name) / f"board-{board.version}-{board.digest[:16]}"
        if not path.exists():
            board.save(path)
        return path

    def _run(self, phase: str, work: Sequence[Job]) -> list[Any]:
        report = self._on_progress
        on_done = None if report is None else (lambda done: report(phase, done, len(work)))
        return self._pool.run(work, on_done)
