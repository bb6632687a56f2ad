"""One simulation from ratings to board, certificate and report; interrupted anywhere, it goes on from there."""

import shutil
import time
from collections.abc import Mapping
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
    kernels_of,
    load_any,
    loading_of,
    never_called,
)
from fedboard.simulations.runs.directory import Part, RunDirectory, give_back, round_names
from fedboard.simulations.runs.trainer import EngineTrainer, Listener, Simulated, Trainer
from fedboard.simulations.runs.without_privacy import compared, judged
from fedboard.simulations.sessions.choice import chosen_class


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
    run = RunDirectory(out)
    started = time.monotonic()
    if resume:
        run.resume(config)
    else:
        run.require_free()
    problem = problem or load_any(config)
    if resume:
        config = with_kernels(config, run.read_json(run.config)["run"]["kernels"])
    report = report and not isinstance(problem, ExampleProblem)  # its figures are of items
    backend = kernels_of(config, problem)
    listener = listener or Listener()
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
            simulated = Simulated(
                config=config,
                run=run,
                problem=problem,
                task=task,
                backend=backend,
                listener=listener,
                part=part,
            )
            session = _Session(simulated, task, pool, stack)
        except FedboardError:
            if not resume:  # nothing is booked before the first round
                if part is None:  # what is reserved for all parts is not this one's to give
                    give_back(run, config.privacy)
                shutil.rmtree(run.path, ignore_errors=True)
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


def _trainer(simulated: Simulated, pool: WorkerPool, stack: ExitStack) -> Trainer:
    runtime, part = simulated.config.run.runtime, simulated.part
    if part is not None and runtime != "engine":
        raise InputError(
            f"{part.name}: several runs under one promise need run.runtime 'engine', got {runtime!r}"
        )
    if runtime in ("engine", "ray"):
        return EngineTrainer(simulated, pool=pool, stack=stack)
    from fedboard.simulations.flower.training import FleetTrainer

    return FleetTrainer(simulated, runtime, stack)


class _Session:
    """The open resources of a run and its place in the round loop."""

    def __init__(self, simulated: Simulated, task: AnyTask, pool: WorkerPool, stack: ExitStack) -> None:
        self.of, self.task, self.pool, self.run = simulated, task, pool, simulated.run
        self.trainer = _trainer(simulated, pool, stack)
        self.board = self.trainer.start()
        self.run.keep_lines(
            [x for x in self.run.lines() if x["event"] == "round" and x["round"] < self.board.version]
        )
        self.rounds = round_names(task.plan())
        simulated.listener.planned(simulated.problem, self.rounds)

    def run_rounds(self) -> None:
        """Rounds until the task asks for nothing more; each ends with a published board and a record."""
        for line in self.run.lines():
            self.of.listener.round_finished(line)
        self._record_missing_line()
        self.trainer.run(self.board, self._record)

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
        self.board = finished.board
        PartialSums(self.run.partial_sums).delete()  # whoever began the round, and whoever ended it
        traffic = finished.traffic
        judging = self.of.config.run.evaluate_rounds and self.board.version >= 2
        line: dict[str, Any] = {
            "event": "round",
            "round": self.board.version - 1,
            "stage": self.rounds[self.board.version - 1],
            "seconds": finished.seconds,
            "epsilon_spent": finished.spent.epsilon,
            "delta": finished.spent.delta,
            "releases": list(finished.releases),
            "rejected_rows": finished.rejected_rows,
            "metrics": self._judged("validation")["metrics"] if judging else {},
        }
        if traffic is not None:
            line["bytes_up_per_client"] = traffic.up
            line["bytes_down_per_client"] = traffic.down
        self.run.append(line)
        self.of.listener.round_finished(line)

    def _judged(self, part: str) -> dict[str, Any]:
        of = self.of
        return judged(self.task, self.board, of.problem, part=part, pool=self.pool, backend=of.backend)

    def finish(self, seconds: float) -> dict[str, Any]:
        """Final metrics, comparison, certificate."""
        self.of.listener.progress("judging", 0, 1)
        line: dict[str, Any] = {"event": "final", **self._judged("test")}
        if self.of.config.run.baselines:
            line |= compared(self.of, self.board, pool=self.pool)
        rounds = sum(float(done["seconds"]) for done in self.run.lines() if done["event"] == "round")
        line["seconds_total"] = max(seconds, rounds)  # a run that was resumed took longer than its last part
        self.run.append(line)
        certificate = Certificate.from_dict(dict(self.board.certificate or {}))
        write_atomically(self.run.certificate, certificate.to_json().encode())
        self.of.listener.progress("judging", 1, 1)
        return line
