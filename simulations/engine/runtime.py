"""A runtime whose clients are worker processes: each takes blocks of users, then blocks of items."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, numbers_of
from fedboard.common.per_user.participation import Attendance, require_unsampled
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import index_by_item
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.task import ClientTask, ItemBlockSolver, ReleasedSums
from fedboard.server.runtime import Gathered, NoisedSums, Traffic, item_blocks, noised_block
from fedboard.simulations.engine import jobs
from fedboard.simulations.engine.pool import OnPool, OnProgress, WorkerPool
from fedboard.simulations.engine.shared import SharedArray

_USERS_PER_JOB = 2048
_NUMBERS_PER_JOB = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """What every user gives to a round. Private."""

    sums: jobs.SharedSums
    """Over all of them."""
    board_bytes: int
    """What each client got."""
    seconds: float
    """CPU time of all clients together."""


class Engine(OnPool):
    """All users of a data set as clients of one task, under the trusted protocol.

    Every result is the same for any number of workers.

    Memory of a factored round: in shared memory, once, 24 bytes per rating (the ratings, their item-major index,
    weights and responses) and 2 rank bytes per user; and in each worker a block of users (about 60 bytes per
    rating of 2,048 users) or of items (a few arrays of a million numbers), whichever is larger. The item sums
    are formed, noised and solved block by block: the matrices of all items never exist, nor users x items.
    Memory of a dense round: each worker has one cohort, whose message is the sums of all items, about
    4 rank^2 bytes per item, and the messages exist all at once.
    """

    def __init__(
        self,
        task: ClientTask,
        cohort: Cohort,
        *,
        protocol: Trusted,
        pool: WorkerPool,
        on_progress: OnProgress | None = None,
        scales: FloatArray | None = None,
    ) -> None:
        """Copy the ratings to where the workers see them, user-major and item-major.

        Args:
            task: what is learnt.
            cohort: all users. Private.
            protocol: how contributions become sums.
            pool: where jobs run.
            on_progress: told as jobs are done.
            scales: personal levels, float64, shape (n_users,), see ``common.privacy.personal``; None where
                the run's guarantee is everybody's.
        """
        super().__init__(pool, on_progress)
        self._task, self._protocol = task, protocol
        self._population = jobs.SharedCohort.of(cohort, self._shared)
        self._scales = None if scales is None else self._shared.copy_of(scales)
        self._rows: jobs.SharedRows | None = None
        self._attending: SharedArray | None = None
        if protocol.form == "factored":
            index = index_by_item(*self._population.given, cohort.n_items)
            self._index = jobs.SharedIndex(
                indptr=self._shared.copy_of(index.indptr),
                users=self._shared.copy_of(index.users),
                entries=self._shared.copy_of(index.entries),
            )

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The contribution of every user who takes part, checked before it is handed over, and summed exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it.
        """
        work = self._work(board, requests, self._present(requests, attendance))
        if self._protocol.form == "dense":
            return self._gather_dense(work)
        return self._gather_factored(work)

    def rows(self, board: Board, requests: Sequence[Request]) -> "HeldRows":
        """The checked rows of all users, in shared memory until the next round's are asked for.

        Raises:
            PrivacyError: the requests state that not everybody takes part.
        """
        work = self._work(board, requests, self._present(requests, None))
        sums, done = self._factored(work)
        seconds = sum(part.seconds for part in done)
        return HeldRows(sums=sums, board_bytes=Path(work.board_path).stat().st_size, seconds=seconds)

    def _work(
        self, board: Board, requests: Sequence[Request], present: SharedArray | None
    ) -> jobs.ClientWork:
        return jobs.ClientWork(
            task=self._task,
            protocol=self._protocol,
            board_path=str(self._publish(board)),
            population=self._population,
            requests=tuple(requests),
            scales=self._scales,
            present=present,
        )

    def _present(self, requests: Sequence[Request], attendance: Attendance | None) -> SharedArray | None:
        """Who takes part, drawn once and laid where the workers see it; None for everybody."""
        if attendance is None:
            require_unsampled(requests)
            return None
        drawn = attendance.draw(self._n_users)
        if drawn is None:
            return None
        if self._attending is None:
            self._attending = self._shared.empty(drawn.shape, drawn.dtype)
        self._attending.array[:] = drawn
        return self._attending

    def _gather_dense(self, work: jobs.ClientWork) -> Gathered:
        if self._population.features is not None:  # rows are all there is: what is held of them stays bounded
            blocks = self._user_blocks(max(1, _NUMBERS_PER_JOB // numbers_of(work.requests)))
        else:  # a dense message is as large for few users as for many
            size = -(-self._n_users // self._pool.n_workers)
            blocks = self._user_blocks(max(size, _USERS_PER_JOB))
        messages = self._run("clients", [partial(jobs.dense_message, work, *rows) for rows in blocks])
        return Gathered(sums=self._protocol.combine(messages, work.requests))

    def _gather_factored(self, work: jobs.ClientWork) -> Gathered:
        sums, done = self._factored(work)
        sizes = np.concatenate([part.sizes for part in done])
        return Gathered(sums=sums, traffic=Traffic.of(sizes, Path(work.board_path).stat().st_size))

    def _factored(self, work: jobs.ClientWork) -> tuple[jobs.SharedSums, list[jobs.RowsDone]]:
        rows = self._buffers(work.requests)
        done: list[jobs.RowsDone] = self._run(
            "clients", [partial(jobs.factored_rows, work, rows, *b) for b in self._user_blocks()]
        )
        sums = jobs.SharedSums(
            population=self._population,
            index=self._index,
            rows=rows,
            rejected_rows=sum(part.rejected for part in done),
            backend=self._protocol.backend,
        )
        return sums, done

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; per-item work is spread over the workers."""
        here = NoisedSums(sums=sums, requests=requests, booked=booked)
        return SpreadSums(here, self._run, 4 * self._pool.n_workers)

    @property
    def _n_users(self) -> int:
        return self._population.indptr.shape[0] - 1

    def _user_blocks(self, size: int = _USERS_PER_JOB) -> list[tuple[int, int]]:
        starts = range(0, self._n_users, size)
        return [(start, min(start + size, self._n_users)) for start in starts]

    def _buffers(self, requests: Sequence[Request]) -> jobs.SharedRows:
        """Room for the rows of a round, kept from round to round where the shape fits."""
        needed = jobs.shapes_of_rows(requests, self._population)
        if self._rows is None or self._rows.shapes() != needed:
            arrays = {name: self._new(shape) for name, shape in needed.items()}
            self._rows = jobs.SharedRows(arrays=arrays)
        return self._rows

    def _new(self, shape_and_type: tuple[tuple[int, ...], str]) -> SharedArray:
        return self._shared.empty(*shape_and_type)


class SpreadSums:
    """Noised sums whose per-item work is spread over the workers."""

    def __init__(self, here: NoisedSums, run: Callable[..., list[Any]], n_blocks: int) -> None:
        self._here, self._run, self._n_blocks = here, run, n_blocks

    @property
    def noise_ratio(self) -> float:
        """Deviation of the noise over the booked one."""
        return self._here.noise_ratio

    def array(self, name: str) -> FloatArray:
        """One release as a whole."""
        return self._here.array(name)

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """Each worker sums, noises and solves blocks of items; no two blocks share a row."""
        requests = [r for r in self._here.requests if r.name in names]
        work = []
        for start, stop in item_blocks(requests, at_least=self._n_blocks):
            parts = {r.name: self._here.booked[r.name].part(start, stop) for r in requests}
            sums = jobs.rows_of(self._here.sums, requests, start, stop)
            work.append(partial(noised_block, sums, requests, parts, solver, start, stop))
        blocks = self._run("items", work)
        return np.concatenate(blocks) if blocks else np.empty((0, width), dtype=np.float32)
