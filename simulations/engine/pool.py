"""Worker processes that run plain functions, and notice when one of them dies.

Results of many jobs one after the other, so that what merges them never holds all of them.
"""

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from fedboard.common.checks import require_whole
from fedboard.common.errors import FedboardError, WorkerDiedError
from fedboard.simulations.engine.starting import keep_freed_memory, start_process

Job = Callable[[], Any]
"""A picklable callable without arguments: ``functools.partial`` of a module-level function."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException
    trace: str


@dataclass(slots=True)
class _Worker:
    number: int
    process: BaseProcess
    connection: "Connection[Any, Any]"
    job: int | None = None


class WorkerPool:
    """A fixed number of worker processes; one worker means none, jobs then run in this process.

    Jobs are handed out as workers become free. Results come back in the order of the jobs, so nothing
    depends on the number of workers as long as jobs are independent of each other.
    """

    def __init__(self, n_workers: int = 1, *, prepare: Job | None = None, compiled: bool = True) -> None:
        """Start the processes.

        Args:
            n_workers: how many.
            prepare: run in each process before its first job, such as loading code whose classes jobs name.
            compiled: whether jobs are likely to call compiled kernels: what these need is then imported once.

        Raises:
            InputError: fewer than one worker asked for.
        """
        require_whole("workers", n_workers)
        self.n_workers = n_workers
        self._closed = False
        self._workers: list[_Worker] = []
        keep_freed_memory()
        if n_workers > 1:
            self._workers = [_start(number, prepare, compiled) for number in range(n_workers)]

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process ids of the workers; empty where jobs run in this process."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    @property
    def shares_memory(self) -> bool:
        """Whether jobs run in other processes of this machine."""
        return self.n_workers > 1

    def run(self, jobs: Sequence[Job], on_done: Callable[[int], None] | None = None) -> list[Any]:
        """Run all jobs; the first error of a job is raised here.

        Args:
            jobs: picklable callables, independent of each other.
            on_done: called with the number of finished jobs, for progress.

        Raises:
            WorkerDiedError: a worker process ended before its job was done.
        """
        results: list[Any] = [None] * len(jobs)
        for done, (number, answer) in enumerate(self.answers(jobs), start=1):
            results[number] = answer
            if on_done is not None:
                on_done(done)
        return results

    def answers(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Run all jobs and give each one's result as it comes, with its number, so that none has to be kept.

        Whoever stops asking before the end leaves workers at work: the pool is then closed.

        Args:
            jobs: as for ``run``.

        Raises:
            WorkerDiedError: a worker process ended before its job was done.
        """
        if self._closed:
            raise WorkerDiedError("the worker pool is closed; start the run again with --resume")
        if not self._workers:
            yield from ((number, job()) for number, job in enumerate(jobs))
            return
        pending = iter(range(len(jobs)))
        busy = sum(self._hand_out(worker, jobs, pending) for worker in self._workers)
        try:
            while busy:
                for worker in self._ready():
                    received = self._receive(worker)
                    busy += self._hand_out(worker, jobs, pending) - 1
                    yield received
        finally:
            if busy:  # somebody's answer would be taken for that of a later job
                self.close()

    def _hand_out(self, worker: _Worker, jobs: Sequence[Job], pending: Any) -> int:
        worker.job = next(pending, None)
        if worker.job is None:
            return 0
        try:
            worker.connection.send(jobs[worker.job])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._death(worker) from error
        return 1

    def _ready(self) -> list[_Worker]:
        waiting = [worker for worker in self._workers if worker.job is not None]
        ready = wait([w.connection for w in waiting] + [w.process.sentinel for w in waiting])
        return [w for w in waiting if w.connection in ready or w.process.sentinel in ready]

    def _receive(self, worker: _Worker) -> tuple[int, Any]:
        try:
            answer = worker.connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise self._death(worker) from error
        if isinstance(answer, _Failure):
            self.close()
            if not isinstance(answer.error, FedboardError):
                answer.error.add_note(f"in worker {worker.number}:\n{answer.trace}")
            raise answer.error
        if worker.job is None:
            raise WorkerDiedError(f"worker {worker.number} answered without having been asked")
        return worker.job, answer

    def _death(self, worker: _Worker) -> WorkerDiedError:
        worker.process.join(timeout=5)
        code, pid = worker.process.exitcode, worker.process.pid
        self.close()
        how = (
            f"was ended by signal {-code}"
            if code is not None and code < 0
            else f"ended with exit code {code}"
        )
        return WorkerDiedError(
            f"worker {worker.number} (process {pid}) {how}; nothing of this round was released. "
            "Free some memory if it was the system that ended it, then go on with --resume"
        )

    def close(self) -> None:
        """End the workers. A closed pool runs no more jobs."""
        self._closed = True
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(timeout=5)
        self._workers = []


def _start(number: int, prepare: Job | None, compiled: bool) -> _Worker:
    ours, theirs = multiprocessing.Pipe()
    name = f"fedboard-worker-{number}"
    process = start_process(_serve, (theirs, prepare), name=name, compiled=compiled)
    theirs.close()
    return _Worker(number, process, ours)


def _serve(connection: "Connection[Any, Any]", prepare: Job | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    keep_freed_memory()
    if prepare is not None:
        prepare()
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive():
        try:
            answer = connection.recv()()
        except EOFError:
            return
        except BaseException as error:
            answer = _Failure(error, traceback.format_exc())
        try:
            connection.send(answer)
        except (BrokenPipeError, ConnectionResetError):  # whoever asked was killed meanwhile
            return


_JOBS_PER_WORKER = 4
"""In one wave: the fewer, the more often workers wait for the slowest; the more, the more results wait."""


class JobRunner(Protocol):
    """``WorkerPool``, or whoever else runs jobs."""

    n_workers: int

    def run(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run all of them; results in the order of the jobs."""


def in_order(runner: JobRunner, jobs: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """The results of jobs in their order, a few jobs ahead of whoever takes them.

    Args:
        runner: who runs them; with one worker each job is done when its result is taken.
        jobs: picklable, independent of each other; made as they are needed.
    """
    at_once = 1 if runner.n_workers == 1 else _JOBS_PER_WORKER * runner.n_workers
    remaining = iter(jobs)
    while wave := list(islice(remaining, at_once)):
        yield from runner.run(wave)


OnProgress = Callable[[str, int, int], None]
"""(phase, jobs done, jobs in all)."""
