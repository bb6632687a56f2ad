"""Processes that try messages, each with its bound on memory, and the count of what came of them."""

import contextlib
import ctypes
import faulthandler
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from multiprocessing.connection import Connection, wait
from pathlib import Path

from process_tree import own_peak_mib

from fleets.fuzz.reports import Tally
from fleets.fuzz.trials import Hunt, Outcome, Parser, quiet

MEMORY = 1 << 30
"""Bytes of address space that a process may take beside what is loaded."""
CHUNK = 2_000
_ARENAS = -8
"""``M_ARENA_MAX`` of glibc's malloc."""
_HELD = 1 << 21
_LOOK = 2.0
"""Seconds between two looks at a process that count, at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """So many messages for one parser."""

    parser: int
    messages: int
    seed: int


class Worker:
    """A process that tries messages. The one that it is about to try lies in shared memory, should it die of it."""

    def __init__(self, parsers: Sequence[Parser], seconds: float) -> None:
        """Start it; a message may take so many seconds."""
        context = multiprocessing.get_context("fork")
        self.held = mmap(-1, _HELD)
        self._traces = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the worker)
        self.pipe, theirs = context.Pipe()
        told = (parsers, seconds, theirs, self.held, self._traces.fileno())
        self.process = context.Process(target=_work, args=told, daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job | None = None
        self._sign, self._looked, self._silent = b"", time.monotonic(), 0.0

    def give(self, job: Job) -> None:
        """The next job."""
        self.job, self._looked, self._silent = job, time.monotonic(), 0.0
        self.pipe.send(job)

    def in_hand(self) -> tuple[int, bytes]:
        """How many messages of the job are done, and the one that is being tried."""
        done, length = (int.from_bytes(self.held[start : start + 8], "little") for start in (0, 8))
        return done, self.held[16 : 16 + length]

    def is_silent(self, longest: float) -> bool:
        """Whether the same message was there in each look, for so many seconds of looking.

        Time in which nobody looked does not count: all processes may have been stopped and continued.
        """
        now, sign = time.monotonic(), self.held[:16]
        self._silent = self._silent + min(now - self._looked, _LOOK) if sign == self._sign else 0.0
        self._sign, self._looked = sign, now
        return self._silent > longest

    def traces(self) -> str:
        """Where each of its threads is; empty where it does not say."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGUSR1)
            time.sleep(1.0)
        return os.pread(self._traces.fileno(), 8_000, 0).decode(errors="replace")

    def end(self) -> None:
        """Now."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(parsers: Sequence[Parser], seconds: float, pipe: Connection, held: mmap, traces: int) -> None:
    faulthandler.register(signal.SIGUSR1, file=traces, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    quiet()
    sys.stderr = sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (as long as the process)
    one_arena()
    bound_memory()
    hunts: dict[int, Hunt] = {}
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        tally, began = Tally(), time.process_time()
        hunt = hunts.get(job.parser)
        if hunt is None:
            hunt = Hunt(parser=parsers[job.parser], seconds=seconds, rng=random.Random(job.seed))
            hunts[job.parser] = hunt
            hunt.begin()
        hunt.rng.seed(job.seed)
        for done, content in zip(range(job.messages), hunt.mutants(), strict=False):
            shown = content[: _HELD - 16]
            held[:16] = done.to_bytes(8, "little") + len(shown).to_bytes(8, "little")
            held[16 : 16 + len(shown)] = shown
            tally.take(content, hunt.take(content))
        tally.branches, tally.cpu_seconds = hunt.branches.found, time.process_time() - began
        tally.memory = int(own_peak_mib() * 2**20)
        pipe.send(tally)


def one_arena() -> None:
    """Let all threads of this process share their memory: each would otherwise keep 64 MiB of addresses of its own,
    of which a bound on addresses leaves no room for servers.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENAS, 1)


def bound_memory(more: int = MEMORY) -> None:
    """So many bytes beside what this process has mapped."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + more, most))


def jobs_of(
    parsers: Sequence[Parser], messages: int, seed: int, done: Mapping[str, int] | None = None
) -> list[Job]:
    """Shared among parsers by their shares, in pieces, all parsers in turn; without those that are done."""
    whole = sum(one.share for one in parsers)
    done = done or {}
    left = {
        n: max(0, max(1, round(messages * one.share / whole)) - done.get(one.name, 0))
        for n, one in enumerate(parsers)
    }
    found: list[Job] = []
    first = seed * 1_000_003 + sum(done.values())
    while any(left.values()):
        for number in left:
            if taken := min(CHUNK, left[number]):
                left[number] -= taken
                found.append(Job(number, taken, first + len(found)))
    return found


class Bench:
    """Several workers, and what they found."""

    def __init__(self, parsers: Sequence[Parser], *, processes: int, seconds: float, silence: float) -> None:
        """Nothing is begun.

        Args:
            parsers: to try.
            processes: at a time.
            seconds: of processor time that a message may take.
            silence: seconds without a sign of life after which one is ended, and its message is a hang.
        """
        self.parsers, self._processes = parsers, processes
        self._seconds, self._silence = seconds, silence
        self.tallies = {one.name: Tally() for one in parsers}

    @property
    def messages(self) -> int:
        """Tried so far."""
        return sum(tally.messages for tally in self.tallies.values())

    def run(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Do all jobs; comes back after each."""
        waiting = list(reversed(jobs))
        workers = [Worker(self.parsers, self._seconds) for _ in range(min(self._processes, len(jobs)))]
        try:
            for worker in workers:
                worker.give(waiting.pop())
            while any(worker.job for worker in workers):
                busy = {worker.pipe: worker for worker in workers if worker.job}
                for pipe in wait(list(busy), timeout=_LOOK / 2):
                    self._hear(busy[pipe], waiting)  # type: ignore[index]  # what was waited for
                for worker in busy.values():
                    if worker.job and worker.is_silent(self._silence):
                        self._lose(worker, "hang", waiting)
                for place, worker in enumerate(workers):
                    if not worker.job and waiting:
                        if not worker.process.is_alive():
                            workers[place] = worker = Worker(self.parsers, self._seconds)
                        worker.give(waiting.pop())
                yield
        finally:
            for worker in workers:
                worker.end()

    def _hear(self, worker: Worker, waiting: list[Job]) -> None:
        assert worker.job is not None
        try:
            self.tallies[self.parsers[worker.job.parser].name].add(worker.pipe.recv())
            worker.job = None
        except (EOFError, OSError):
            self._lose(worker, "crash", waiting)

    def _lose(self, worker: Worker, kind: str, waiting: list[Job]) -> None:
        """A process died, or had to be ended: its message is found, the rest of its job goes on in another."""
        assert worker.job is not None
        done, content = worker.in_hand()
        traces = worker.traces()
        job, worker.job = worker.job, None
        worker.end()
        tally = Tally()
        tally.take(
            content, Outcome(kind, f"{kind} of the process, exit code {worker.process.exitcode}", traces)
        )
        tally.messages, tally.kinds["value"] = done + 1, done  # what they came to went with the process
        self.tallies[self.parsers[job.parser].name].add(tally)
        if job.messages > done + 1:
            waiting.append(Job(job.parser, job.messages - done - 1, job.seed + 1))
