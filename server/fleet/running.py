"""Running a job over nodes, from where it was interrupted or from its first board; and the log of its rounds."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.arrays import NOT_ARRAYS, FloatArray
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.messages.signing import QuestionKey
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ClientTask
from fedboard.server.fleet.job import (
    Job,
    protocol_of,
    require_carried,
    require_same_protocol,
    rounds_of,
)
from fedboard.server.fleet.rounds.asking import Nodes
from fedboard.server.fleet.rounds.over_nodes import FleetRuntime
from fedboard.server.fleet.rounds.session_rounds import SessionRuntime
from fedboard.server.fleet.state_folder import require_open
from fedboard.server.operating.run_files import LOST, PLANNED, UNLOGGED
from fedboard.server.publication import BoardStore
from fedboard.server.run_spec import Promise
from fedboard.server.runtime import Runtime
from fedboard.server.training import FinishedRound, Training, open_run_ledger, plan_of


class RoundLog:
    """Lines in a file; a last line that a crash cut short is left out, and written over."""

    def __init__(self, path: Path) -> None:
        """Use a file that may exist."""
        self.path = path

    def append(self, finished: FinishedRound, told: Mapping[str, Any]) -> None:
        """Add the line of a round, with what else is told about it."""
        kept = self.lines()
        traffic = finished.traffic
        line: dict[str, Any] = {
            "round": finished.board.version - 1,
            "board_digest": finished.board.digest,
            "releases": list(finished.releases),
            LOST: finished.lost,
            "rejected_rows": finished.rejected_rows,
            "seconds": finished.seconds,
            "epsilon_spent": finished.spent.epsilon,
            "delta": finished.spent.delta,
            "bytes_up_per_user": None if traffic is None else traffic.up,
            "bytes_down_per_client": None if traffic is None else traffic.down,
            **told,
        }
        self._write([*kept, line])

    def catch_up(self, board: Board, before: Board, *, spent: Guarantee, planned: int) -> None:
        """Add the line of a round whose process ended after its board was published and before it was logged. Who
        answered is not known any more.

        Args:
            board: the last one that is published.
            before: the one before it.
            spent: by the run so far.
            planned: rounds of the whole run.
        """
        kept, number = self.lines(), board.version - 1
        if kept and kept[-1]["round"] >= number:
            return
        known = {release["name"] for release in _releases(before)}
        releases = [release["name"] for release in _releases(board) if release["name"] not in known]
        line = {
            "round": number,
            "board_digest": board.digest,
            "releases": releases,
            LOST: not releases,
            "seconds": 0.0,
            "epsilon_spent": spent.epsilon,
            "delta": spent.delta,
            PLANNED: planned,
            UNLOGGED: True,
        }
        self._write([*kept, line])

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(one, sort_keys=True, allow_nan=False) + "\n" for one in lines)
        self.path.with_suffix(".part").write_text(text, encoding="utf-8")
        self.path.with_suffix(".part").replace(self.path)

    def lines(self) -> list[dict[str, Any]]:
        """The lines so far."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return found


def _releases(board: Board) -> Sequence[Mapping[str, Any]]:
    return Certificate.from_dict(dict(board.certificate or {})).releases


OnRound = Callable[[FinishedRound], None]
OfRuntime = TypeVar("OfRuntime", bound=Runtime)


def run_job(
    nodes: Nodes,
    job: Job,
    *,
    on_round: OnRound | None = None,
    shown: Callable[[Board], None] = lambda _: None,
) -> Board:
    """Train over nodes until the task asks for nothing more.

    Everything is on disk after each round, so a job that is run again goes on from its last published board:
    ``boards/``, ``ledger.sqlite``, ``rounds.jsonl``, and ``certificate.json`` of the last board.

    Args:
        nodes: who is asked; closed by whoever has opened them.
        job: what to do.
        on_round: is told of each finished round.
        shown: waits until readers can have a board, before nodes are asked about it.

    Returns:
        The last board, published.

    Raises:
        InputError: the job's files cannot be used, or its folder holds another run.
        PrivacyError: the ledger does not belong to the boards, the preparation round was paid for and lost, the
            training is closed, or a device was told of a round that the ledger does not have.
        TooFewAnswersError: too few nodes answered the preparation round; run the job again.
    """
    folder = Path(job.folder)
    require_open(folder)
    (folder / "boards").mkdir(parents=True, exist_ok=True)
    first = Board.load(Path(job.first_board))
    if first.version != 0:  # it may hold data that nobody has paid for
        raise InputError(
            f"{job.first_board}: a run begins with a board of version 0, which holds no data; this one is of "
            f"version {first.version}"
        )
    task = rebuild_any(first, backend=job.backend, features=features_of(job))
    log = _log(job)
    with ExitStack() as stack:
        training, runtime = _training(nodes, job, task, stack, shown)
        board, planned = training.start(first), len(task.plan())
        if board.version > 0:
            before = training.store.load(board.version - 1)
            log.catch_up(board, before, spent=training.ledger.spent(), planned=planned)
        if asked := task.requests(board):
            paid = {str(event["name"]) for event in training.ledger.events()}
            under_way = any(request.name in paid for request in asked)
            runtime.require_newest(board.version - (not under_way), training.ledger.head)
        for finished in training.rounds(board):
            board = finished.board
            write_certificate(folder, board)
            log.append(finished, {**runtime.told(), PLANNED: planned})
            if on_round is not None:
                on_round(finished)
        write_certificate(folder, board)
    return board


def _training(
    nodes: Nodes, job: Job, task: ClientTask, stack: ExitStack, shown: Callable[[Board], None]
) -> tuple[Training, FleetRuntime | SessionRuntime]:
    protocol = protocol_of(job)
    require_carried(protocol, task, job)

    def over_nodes(run: str) -> FleetRuntime | SessionRuntime:
        require_same_protocol(Path(job.folder), job.protocol.name)
        of_run: dict[str, Any] = {
            "nodes": nodes,
            "job": job,
            "key": QuestionKey.read(Path(job.question_key)),
            "run": run,
            "shown": shown,
        }
        if isinstance(protocol, Trusted):
            return FleetRuntime(**of_run, protocol=protocol)
        return SessionRuntime(**of_run, protocol=protocol, of_round=rounds_of(protocol, job, stack))

    return training_in(
        Path(job.folder),
        task,
        job.privacy,
        protocol,
        over_nodes,
        stack,
        dataset=job.dataset,
        assumptions=job.assumptions,
    )


def training_in(
    folder: Path,
    task: ClientTask,
    promise: Promise,
    protocol: AggregationProtocol,
    runtime_of: Callable[[str], OfRuntime],
    stack: ExitStack,
    *,
    dataset: str,
    assumptions: Sequence[str],
) -> tuple[Training, OfRuntime]:
    """A training in its folder, to begin or to go on with.

    Args:
        folder: exists; with ``boards/`` and ``ledger.sqlite``, where it was begun.
        task: calibrated.
        promise: of the training, with who takes part in a round.
        protocol: adds up what nodes give.
        runtime_of: makes what asks the nodes, from the name by which devices know the run; the ledger is open then.
        stack: closes the ledger.
        dataset: public description, for certificates.
        assumptions: what the run takes for granted beyond every run's; public.

    Returns:
        It, and its runtime.

    Raises:
        BudgetExceededError: the plan does not fit the budget.
        PrivacyError: the ledger is not that of the boards, or was made for another promise or plan.
    """
    store, participation = BoardStore(folder / "boards"), promise.participation.chosen
    ledger = open_run_ledger(
        folder / "ledger.sqlite",
        promise=promise,
        plan=plan_of(task, participation),
        store=store,
        stack=stack,
    )
    runtime = runtime_of(run_name(ledger))
    training = Training(
        task=task,
        store=store,
        ledger=ledger,
        runtime=runtime,
        noise=protocol.noise(promise.noise_source),
        trust=protocol.trust,
        dataset=dataset,
        assumptions=assumptions,
        participation=participation,
    )
    return training, runtime


def _log(job: Job) -> RoundLog:
    return RoundLog(Path(job.folder) / "rounds.jsonl")


def run_name(ledger: Ledger) -> str:
    """The name by which devices know a run: no two ledgers share it."""
    return f"{ledger.run}-{ledger.id}"


def features_of(job: Job) -> FloatArray | None:
    """Public features of the items; None where the task uses none.

    Raises:
        InputError: they cannot be read.
    """
    if job.features is None:
        return None
    try:
        return np.asarray(np.load(job.features, allow_pickle=False), dtype=np.float64)
    except NOT_ARRAYS as error:
        raise InputError(f"{job.features}: no item features can be read there ({error})") from error


def write_certificate(folder: Path, board: Board) -> None:
    """Lay the certificate of a board beside it, as ``certificate.json``."""
    certificate = Certificate.from_dict(dict(board.certificate or {}))
    write_atomically(folder / "certificate.json", certificate.to_json().encode())
