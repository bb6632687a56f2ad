"""One simulation from ratings to board, certificate and report; interrupted anywhere, it goes on from there."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedboard.common.algorithms.registry import AnyTask
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.server.training import FinishedRound
from fedboard.simulations.config import SimulationConfig, with_kernels
from fedboard.simulations.data.examples import ExampleProblem
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.engine.partial_sums import PartialSums
from fedboard.simulations.runs.calibrated import (
    AnyProblem,
    build_any,
    compile_kernels,
    completed,
    kernels_of,
    load_any,
    loading_of,
    never_called,
)
from fedboard.simulations.runs.directory import Part, RunDirectory, give_back, round_names
from fedboard.simulations.runs.trainer import EngineTrainer, Listener, Simulated, Trainer
from fedboard.simulations.runs.without_privacy import compared, judged
from fedboard.simulations.sessions.choice import chosen_class


class Silent:
    """A listener that does not listen."""

    def planned(self, problem: AnyProblem, rounds: Sequence[str]) -> None:
        """Ignore."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """Ignore."""

    def round_finished(self, line: Mapping[str, Any]) -> None:
        """Ignore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A finished run."""

    path: Path
    board: Board
    certificate: Certificate
    final: Mapping[str, Any]
    """The last record of metrics.jsonl. Not private: simulation only."""
    report: Path | None
    """None where none was drawn."""


def simulate(
    config: SimulationConfig,
    out: Path,
    *,
    resume: bool = False,
    listener: Listener | None = None,
    problem: AnyProblem | None = None,
    report: bool = True,
    pool: WorkerPool | None = None,
    part: Part | None = None,
) -> RunResult:
    """Run one private simulation.

    Everything is written to ``out``: configuration, ledger, a board per round with its certificate, metrics,
    reports. A run that was interrupted, killed or failed goes on from its last published board with ``resume``.

    Args:
        config: what to run; see ``parse_config``.
        out: the run's directory.
        resume: continue the run that is there.
        listener: is told about progress.
        problem: what ``load_any(config)`` gave, where many runs share it.
        report: whether to draw report.html.
        pool: who computes, where several runs share it; its size is then ``config.run.workers``.
        part: what pays where this is one of several runs under one promise.

    Raises:
        InputError: data or configuration cannot be used; nothing is left behind.
        BudgetExceededError: the plan does not fit the budget; nothing was released.
        WorkerDiedError: a worker process was killed; resume when the cause is mended.
    """
    require_installed(report=report)
    chosen_class(config.run.protocol)  # a mistaken name is told before anything is read or compiled
    config = completed(config)
    run = RunDirectory(out)
    started = time.monotonic()
    if resume:
        run.resume(config)
    else:
        run.require_free()
    problem = problem or load_any(config)
    if resume:
        config = with_kernels(config, run.stored_kernels())
    report = report and not isinstance(problem, ExampleProblem)  # its figures are of items
    backend = kernels_of(config, problem)
    listener = listener or Silent()
    task = build_any(config, problem, backend=backend)
    if not resume:
        run.start(with_kernels(config, backend))
    compile_kernels(
        backend,
        features=problem.feature_values is not None,
        not_called=never_called(config.algorithm),
        on_progress=listener.progress,
    )
    with ExitStack() as stack:
        try:
            pool = pool or _workers(config, backend, stack)
            session = _Session(config, run, problem, task, backend, listener, pool, stack, part)
        except FedboardError:
            if not resume:  # nothing is booked before the first round
                if part is None:  # what is reserved for all parts is not this one's to give
                    give_back(run, config.privacy)
                run.discard()
            raise
        session.run_rounds()
        final = session.finish(time.monotonic() - started)
    certificate = Certificate.from_json(run.certificate.read_text(encoding="utf-8"))
    drawn = write_report(out) if report else None
    return RunResult(path=out, board=session.board, certificate=certificate, final=final, report=drawn)


def _workers(config: SimulationConfig, backend: str, stack: ExitStack) -> WorkerPool:
    """Who computes: processes of this machine, or the workers of a Ray cluster; the stack ends them.

    Raises:
        InputError: no such cluster answers, or it runs something else.
        PrivacyError: secret noise would go to it in the clear.
    """
    if config.run.runtime == "ray":
        from fedboard.simulations.ray.cluster import Cluster, require_encrypted
        from fedboard.simulations.ray.runtime import RayPool

        run = config.run
        cluster = Cluster(run.address, workers=run.workers)
        require_encrypted(cluster, private=config.promise.noise_source.private)
        return RayPool(stack.enter_context(cluster))
    return stack.enter_context(
        WorkerPool(config.run.workers, prepare=loading_of(config.algorithm), compiled=backend != "numpy")
    )


def write_report(run: Path) -> Path:
    """``fedboard.simulations.reports``; imported now, because that takes long and many runs end before."""
    from fedboard.simulations import reports

    return reports.write_report(run)


def require_installed(*, report: bool) -> None:
    """What is missing for a run, or for its report, is said before anything is written."""
    for name in ("threadpoolctl", *(("jinja2",) if report else ())):
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _Session:
    """The open resources of a run and its place in the round loop."""

    def __init__(
        self,
        config: SimulationConfig,
        run: RunDirectory,
        problem: AnyProblem,
        task: AnyTask,
        backend: str,
        listener: Listener,
        pool: WorkerPool,
        stack: ExitStack,
        part: Part | None = None,
    ) -> None:
        self.config, self.run, self.problem, self.listener = config, run, problem, listener
        self.task, self.backend = task, backend
        self.pool = pool
        self.trainer = self._trainer(stack, part)
        self.board = self.trainer.start()
        self.run.keep_lines(
            [x for x in run.lines() if x["event"] == "round" and x["round"] < self.board.version]
        )
        self.rounds = round_names(self.task.plan())
        listener.planned(problem, self.rounds)

    def _trainer(self, stack: ExitStack, part: Part | None) -> Trainer:
        if part is not None and self.config.run.runtime != "engine":
            raise InputError(
                f"{part.name}: several runs under one promise need run.runtime 'engine', got "
                f"{self.config.run.runtime!r}"
            )
        simulated = Simulated(
            config=self.config,
            run=self.run,
            problem=self.problem,
            task=self.task,
            backend=self.backend,
            listener=self.listener,
            part=part,
        )
        if self.config.run.runtime in ("engine", "ray"):
            return EngineTrainer(simulated, pool=self.pool, stack=stack)
        from fedboard.simulations.flower.training import FleetTrainer

        return FleetTrainer(simulated, self.config.run.runtime, stack)

    def run_rounds(self) -> None:
        """Rounds until the task asks for nothing more; each ends with a published board and a record."""
        for line in self.run.lines():
            self.listener.round_finished(line)
        self._record_missing_line()
        self.trainer.run(self.board, self._take)

    def _take(self, finished: FinishedRound) -> None:
        self.board = finished.board
        self._record(finished)

    def _record_missing_line(self) -> None:
        """A crash between publishing and recording: the board is there, its record is made now."""
        recorded = {line["round"] for line in self.run.lines()}
        if self.board.version > 0 and self.board.version - 1 not in recorded:
            self._record(
                FinishedRound(
                    board=self.board,
                    releases=(),
                    rejected_rows=0,
                    traffic=None,
                    seconds=0.0,
                    spent=Certificate.from_dict(dict(self.board.certificate or {})).claim,
                )
            )

    def _record(self, finished: FinishedRound) -> None:
        PartialSums(self.run.partial_sums).delete()  # whoever began the round, and whoever ended it
        traffic = finished.traffic
        line: dict[str, Any] = {
            "event": "round",
            "round": self.board.version - 1,
            "stage": self.rounds[self.board.version - 1],
            "seconds": finished.seconds,
            "epsilon_spent": finished.spent.epsilon,
            "delta": finished.spent.delta,
            "releases": list(finished.releases),
            "rejected_rows": finished.rejected_rows,
            "metrics": self._round_metrics(),
        }
        if traffic is not None:
            line["bytes_up_per_client"] = traffic.up
            line["bytes_down_per_client"] = traffic.down
        self.run.append(line)
        self.listener.round_finished(line)

    def _round_metrics(self) -> dict[str, float]:
        if not self.config.run.evaluate_rounds or self.board.version < 2:
            return {}
        return dict(self._judged("validation")["metrics"])

    def _judged(self, part: str) -> dict[str, Any]:
        return judged(self.task, self.board, self.problem, part=part, pool=self.pool, backend=self.backend)

    def finish(self, seconds: float) -> dict[str, Any]:
        """Final metrics, comparison, certificate."""
        self.listener.progress("judging", 0, 1)
        line: dict[str, Any] = {"event": "final", **self._judged("test")}
        if self.config.run.baselines:
            line |= compared(
                self.config,
                self.problem,
                self.board,
                run=self.run,
                pool=self.pool,
                backend=self.backend,
                on_progress=self.listener.progress,
            )
        rounds = sum(float(done["seconds"]) for done in self.run.lines() if done["event"] == "round")
        line["seconds_total"] = max(seconds, rounds)  # a run that was resumed took longer than its last part
        self.run.append(line)
        certificate = Certificate.from_dict(dict(self.board.certificate or {}))
        write_atomically(self.run.certificate, certificate.to_json().encode())
        self.listener.progress("judging", 1, 1)
        return line


__all__ = ["Listener", "RunResult", "Silent", "simulate", "write_report"]
