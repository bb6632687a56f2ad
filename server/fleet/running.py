"""Running a job over nodes, from where it was interrupted or from its first board."""

from collections.abc import Callable, Sequence
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
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.properties import authority_of, has_second_server
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ClientTask
from fedboard.server.fleet.job import Job, ProtocolOf, among_listed, protocol_of, require_carried
from fedboard.server.fleet.rounds.asking import Nodes
from fedboard.server.fleet.rounds.session_rounds import SessionRuntime
from fedboard.server.fleet.rounds.trusted_rounds import FleetRuntime
from fedboard.server.fleet.state_folder import RoundLog, require_open
from fedboard.server.operating.run_files import PLANNED
from fedboard.server.publication import BoardStore
from fedboard.server.run_spec import Promise
from fedboard.server.runtime import Runtime
from fedboard.server.training import FinishedRound, Training, open_run_ledger, plan_of

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
    log, protocol = RoundLog(folder / "rounds.jsonl"), protocol_of(job)
    require_carried(protocol, task, job)
    with ExitStack() as stack:

        def over_nodes(run: str) -> FleetRuntime | SessionRuntime:
            require_same_protocol(folder, job.protocol.name)
            key = QuestionKey.read(Path(job.question_key))
            of_run: dict[str, Any] = {"nodes": nodes, "job": job, "key": key, "run": run, "shown": shown}
            if isinstance(protocol, Trusted):
                return FleetRuntime(**of_run, protocol=protocol)
            return SessionRuntime(**of_run, protocol=protocol, of_round=rounds_of(protocol, job, stack))

        training, runtime = training_in(
            folder,
            task,
            job.privacy,
            protocol,
            over_nodes,
            stack,
            dataset=job.dataset,
            assumptions=job.assumptions,
        )
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


def require_same_protocol(folder: Path, name: str) -> None:
    """Keep a run to the protocol that it was begun under: its certificates state one trust model for all rounds.

    Args:
        folder: of the run; exists.
        name: of the job's protocol.

    Raises:
        InputError: the run was begun under another one.
    """
    place = folder / "protocol"
    if not place.exists():
        write_atomically(place, name.encode())
    begun = place.read_text(encoding="utf-8")
    if begun != name:
        raise InputError(
            f"{folder}: this training was begun under protocol {begun!r}; start a new one for {name!r}"
        )


def rounds_of(protocol: AggregationProtocol, job: Job, stack: ExitStack) -> ProtocolOf:
    """What each round opens: the protocol itself, or, where there is a second server, with a way to it.

    Args:
        protocol: of the job.
        job: names the second server; a simulation has one in its own process.
        stack: closes the connection.

    Raises:
        InputError: nobody is named, or its files cannot be read.
    """
    if authority_of(protocol) is not None:
        return lambda _: among_listed(protocol, job)
    if not has_second_server(protocol):
        return lambda _: protocol
    if (helper := job.protocol.helper) is None:
        if not job.is_simulated:
            raise InputError(
                f"protocol {protocol.name!r} needs a second server, which somebody else runs: name helper"
            )
        local = protocol.helped_here(job.privacy.noise_source)
        return lambda _: local
    from fedboard.server.helper.link import HelperLink

    link = HelperLink(helper.address, authority=helper.authority, token=helper.token)
    stack.callback(link.close)
    pinned = protocol.pinned(bytes.fromhex(helper.identity))
    return lambda board: pinned.helped_by(link.about(board))
