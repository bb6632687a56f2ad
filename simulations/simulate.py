"""One simulation from ratings to board, certificate and report; interrupted anywhere, it goes on from there."""

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedboard.common.board import Board, write_atomically
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.publication import BoardStore, require_same_history
from fedboard.server.round import RoundResult, lost_round, run_round
from fedboard.simulations.algorithms import CalibratedTask, build_task
from fedboard.simulations.comparison import compare_with_baselines
from fedboard.simulations.config import SimulationConfig, with_kernels
from fedboard.simulations.distributions import distributions
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.judging import judge_board
from fedboard.simulations.kernel_choice import backend_of
from fedboard.simulations.participants import assumptions_of, participation_of, personal_scales
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.report import write_report
from fedboard.simulations.run_directory import RunDirectory
from fedboard.simulations.run_ledger import give_back, open_ledger, plan_of


class Listener(Protocol):
    """Who wants to know how a simulation is getting on."""

    def planned(self, problem: Problem, n_rounds: int) -> None:
        """Data is loaded, the run is affordable; ``n_rounds`` with preparation."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """``done`` of ``total`` parts of this phase are done."""

    def round_finished(self, line: Mapping[str, Any]) -> None:
        """A board is published; ``line`` is the record in metrics.jsonl."""


class Silent:
    """A listener that does not listen."""

    def planned(self, problem: Problem, n_rounds: int) -> None:
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
    problem: Problem | None = None,
    report: bool = True,
) -> RunResult:
    """Run one private simulation.

    Everything is written to ``out``: configuration, ledger, a board per round with its certificate, metrics,
    report. A run that was interrupted, killed or failed goes on from its last published board with ``resume``.

    Args:
        config: what to run; see ``parse_config``.
        out: the run's directory.
        resume: continue the run that is there.
        listener: is told about progress.
        problem: what ``load_problem(config)`` gave, where many runs share it.
        report: whether to draw report.html.

    Raises:
        InputError: data or configuration cannot be used; nothing is left behind.
        BudgetExceededError: the plan does not fit the budget; nothing was released.
        WorkerDiedError: a worker process was killed; resume when the cause is mended.
    """
    run = RunDirectory(out)
    started = time.monotonic()
    if resume:
        run.resume(config)
    else:
        run.require_free()
    problem = problem or load_problem(config)
    if resume:
        config = with_kernels(config, run.stored_kernels())
    backend = backend_of(config, problem)
    calibrated = build_task(
        config, rating_range=problem.rating_range, backend=backend, features=problem.feature_values
    )
    if not resume:
        run.start(with_kernels(config, backend))
    with ExitStack() as stack:
        try:
            session = _Session(config, run, problem, calibrated, backend, listener or Silent(), stack)
        except FedboardError:
            if not resume:  # nothing is booked before the first round
                give_back(run, config.privacy)
                run.discard()
            raise
        session.run_rounds()
        final = session.finish(time.monotonic() - started)
    certificate = Certificate.from_json(run.certificate.read_text(encoding="utf-8"))
    drawn = write_report(out) if report else None
    return RunResult(path=out, board=session.board, certificate=certificate, final=final, report=drawn)


class _Session:
    """The open resources of a run and its place in the round loop."""

    def __init__(
        self,
        config: SimulationConfig,
        run: RunDirectory,
        problem: Problem,
        calibrated: CalibratedTask,
        backend: str,
        listener: Listener,
        stack: ExitStack,
    ) -> None:
        self.config, self.run, self.problem, self.listener = config, run, problem, listener
        self.task, self.backend = calibrated.task, backend
        self.protocol = Trusted(form=config.run.wire, backend=backend)
        self.noise = _noise(config)
        self.participation = participation_of(config.privacy.participation)
        self.ledger = open_ledger(run, config, plan_of(self.task, self.participation), stack)
        self.pool = stack.enter_context(WorkerPool(config.run.workers))
        self.engine = stack.enter_context(
            Engine(
                self.task,
                problem.train,
                protocol=self.protocol,
                pool=self.pool,
                on_progress=listener.progress,
                scales=personal_scales(
                    config.privacy, self.task, n_users=problem.train.n_users, seed=config.seed
                ),
            )
        )
        self.store = BoardStore(run.boards)
        self.board = self._last_board()
        self.run.keep_lines(
            [x for x in run.lines() if x["event"] == "round" and x["round"] < self.board.version]
        )
        listener.planned(problem, len(self.task.plan()))

    def _last_board(self) -> Board:
        if self.store.versions():
            board = self.store.latest()
            if board.config != json.loads(json.dumps(dict(self.task.config))):
                raise InputError(
                    f"{self.run.path}: its boards were made with other settings; start a new run"
                )
            require_same_history(board, self.ledger)
            return board
        return self._publish(self.task.first_board(self.problem.catalogue))

    def _publish(self, board: Board) -> Board:
        return self.store.publish(
            board,
            self.ledger,
            trust=self.protocol.trust,
            dataset=self.problem.statement,
            assumptions=self._assumptions(),
        )

    def _assumptions(self) -> list[str]:
        tuned = self.config.tuned
        found = [] if tuned is None else [tuned.assumption]
        return [*found, *assumptions_of(self.config.privacy, self.participation)]

    def run_rounds(self) -> None:
        """Rounds until the task asks for nothing more; each ends with a published board and a record."""
        for line in self.run.lines():
            self.listener.round_finished(line)
        self._record_missing_line()
        while self.task.requests(self.board):
            began = time.monotonic()
            result = self._round()
            self.board = self._publish(result.board)
            self._record(result, time.monotonic() - began)
        self.ledger.finish()

    def _round(self) -> RoundResult:
        requests = self.task.requests(self.board)
        booked = {str(event["name"]) for event in self.ledger.events()}
        lost = self.noise.private and any(request.name in booked for request in requests)
        if not lost:
            return run_round(
                self.task,
                self.board,
                runtime=self.engine,
                ledger=self.ledger,
                noise=self.noise,
                participation=self.participation,
                reissue=not self.noise.private,
            )
        if self.board.version == 0:
            self.ledger.finish()
            raise PrivacyError(
                f"{self.run.path}: the preparation round was paid for but never published, and secure noise "
                "cannot be drawn again; its budget is lost. Start a new run with another --out"
            )
        return RoundResult(board=lost_round(self.board), requests=(), rejected_rows=0, traffic=None)

    def _record_missing_line(self) -> None:
        """A crash between publishing and recording: the board is there, its record is made now."""
        recorded = {line["round"] for line in self.run.lines()}
        if self.board.version > 0 and self.board.version - 1 not in recorded:
            self._record(RoundResult(board=self.board, requests=(), rejected_rows=0, traffic=None), 0.0)

    def _record(self, result: RoundResult, seconds: float) -> None:
        spent = self.ledger.spent()
        traffic = result.traffic
        line: dict[str, Any] = {
            "event": "round",
            "round": self.board.version - 1,
            "stage": "preparation" if self.board.version == 1 else "items",
            "seconds": seconds,
            "epsilon_spent": spent.epsilon,
            "delta": spent.delta,
            "releases": [request.name for request in result.requests],
            "rejected_rows": result.rejected_rows,
            "metrics": self._round_metrics(),
        }
        if traffic is not None:
            line["bytes_up_per_client"] = {
                "mean": traffic.up_mean,
                "p50": traffic.up_median,
                "p95": traffic.up_95,
                "max": traffic.up_max,
            }
            line["bytes_down_per_client"] = traffic.down
        self.run.append(line)
        self.listener.round_finished(line)

    def _round_metrics(self) -> dict[str, float]:
        if not self.config.run.evaluate_rounds or self.board.version < 2:
            return {}
        judged = judge_board(
            self.task, self.board, self.problem, part="validation", pool=self.pool, backend=self.backend
        )
        return dict(judged.metrics)

    def finish(self, seconds: float) -> dict[str, Any]:
        """Final metrics, comparison, certificate."""
        self.listener.progress("judging", 0, 1)
        judged = judge_board(
            self.task, self.board, self.problem, part="test", pool=self.pool, backend=self.backend
        )
        line: dict[str, Any] = {
            "event": "final",
            "metrics": dict(judged.metrics),
            "sliced": dict(judged.sliced),
        }
        if self.config.run.baselines:
            line |= compare_with_baselines(
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
        self.run.write_json(self.run.distributions, distributions(self.task, self.board, self.problem.train))
        self.run.append(line)
        certificate = Certificate.from_dict(dict(self.board.certificate or {}))
        write_atomically(self.run.certificate, certificate.to_json().encode())
        self.listener.progress("judging", 1, 1)
        return line


def _noise(config: SimulationConfig) -> NoiseSource:
    return SecureNoise() if config.privacy.noise == "secure" else SeededNoise(config.seed)


__all__ = ["Listener", "RunResult", "Silent", "simulate"]
