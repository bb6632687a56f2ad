"""The server's side where a Flower user expects it: a ``Strategy`` for a ServerApp of one's own."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedboard.common.algorithms.registry import usual, variant_of
from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.flower_parts import SERVER, frame_of, record_of
from fedboard.common.messages.question import Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey
from fedboard.common.messages.signing import ENVELOPE_BYTES, QuestionKey
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.server.calibrating import Training as Trained
from fedboard.server.calibrating import calibrated_task
from fedboard.server.fleet.rounds.over_nodes import told_refusals
from fedboard.server.fleet.rounds.trusted_rounds import Admission, fresh_question, require_drawn_by_answers
from fedboard.server.fleet.running import training_in, write_certificate
from fedboard.server.run_spec import Promise
from fedboard.server.runtime import Gathered, NoisedSums
from fedboard.server.training import FinishedRound, Training


@dataclass(slots=True, kw_only=True)
class ReplyRuntime:
    """Sums the replies to the question that was asked last. A round is asked once, and whoever is late is lost."""

    run: str
    """Name of the run, as nodes know it."""
    protocol: Trusted
    key: QuestionKey
    """Signs what is asked."""
    quorum: int
    """Fewest nodes whose answers make a round."""
    users_per_node: int
    """Most users behind one answer."""
    private_noise: bool
    refused: Counter[Refusal] = field(default_factory=Counter)
    """How often an answer was not taken, by code, in the last round."""
    n_answers: int = 0
    """Nodes whose answer was taken in the last round."""
    _asked: tuple[Question, ReplyKey] | None = None
    _replies: list[Message] = field(default_factory=list)

    def ask(self, board: Board, *, seconds: float) -> bytes:
        """The question about a board, signed, to be answered for so many seconds."""
        question, key = fresh_question(
            board, run=self.run, protocol=self.protocol, private_noise=self.private_noise
        )
        self._asked, self._replies = (question, key), []
        return self.key.sign(question.content, seconds=seconds)

    def receive(self, replies: Sequence[Message]) -> None:
        """Take what came back to that question; it is looked at when the round is summed."""
        self._replies = list(replies)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Check the replies and sum exactly.

        Raises:
            InputError: nothing was asked about this board.
            PrivacyError: who takes part cannot be drawn among those who answer.
            TooFewAnswersError: fewer nodes than the quorum answered.
        """
        require_drawn_by_answers(requests, attendance)
        if self._asked is None or self._asked[0].board.digest != board.digest:
            raise InputError("replies are summed after a question about this very board; ask it first")
        (question, key), self._asked = self._asked, None
        admission = Admission(
            question=question,
            requests=tuple(requests),
            key=key,
            attendance=attendance,
            backend=self.protocol.backend,
        )
        self.refused.clear()
        for reply in self._replies:
            self._take(reply, admission)
        self._replies, self.n_answers = [], len(admission.users)
        if self.n_answers < self.quorum:
            raise TooFewAnswersError(
                f"{self.n_answers} nodes answered round {board.version} and the quorum is {self.quorum}; nothing "
                f"was released (not taken: {told_refusals(self.refused)})"
            )
        down = len(question.content) + ENVELOPE_BYTES
        return Gathered(sums=admission.sums(), traffic=admission.traffic(down))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)

    def _take(self, reply: Message, admission: Admission) -> None:
        node = str(reply.metadata.src_node_id)
        try:
            content = None if reply.has_error() else frame_of(reply.content)
            if content is None:
                raise RefusedError(Refusal.UNREACHABLE if reply.has_error() else Refusal.MALFORMED)
            admission.take(node, content, max_users=self.users_per_node)
        except RefusedError as refused:
            self.refused[refused.code] += 1


_LOOK_SECONDS = 0.5
_ASSUMPTION = (
    "Nodes are those of a Flower federation: which of them are admitted, that each hosts other people, and what "
    "code they run, is its operator's word."
)


@dataclass(kw_only=True, eq=False, repr=False)
class BillboardStrategy(Strategy):
    """Learns a board under user-level differential privacy: noise, ledger, boards and certificate as of any run.

    ``result = strategy.start(grid)`` runs all rounds, and goes on with a run that is in ``folder``. Nodes answer
    with ``fedboard.flower.answer``. Everything under ``trusted``: this process sees what each node gives. Protocols
    of several steps, which hide that, need ``fedboard server``.
    """

    catalogue: Catalogue
    """The items. Public: it must not depend on who rated what."""
    rating_range: tuple[float, float]
    """Lowest and highest rating of the scale. Public."""
    folder: Path
    """Of the run: ``boards/``, ``ledger.sqlite``, ``certificate.json``; made if need be."""
    nodes: int
    """How many are waited for and asked."""
    users_per_node: int
    """Most users that a node may host; an answer with more is not taken."""
    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    algorithm: str = ""
    """By name; empty for the usual one of the feedback."""
    feedback: Feedback = Feedback.EXPLICIT
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the algorithm's tuned defaults."""
    noise: str = "secure"
    """``secure``, or ``seeded``, which repeats bit for bit and protects nobody."""
    seed: int = 0
    quorum: int | None = None
    """Fewest nodes whose answers make a round; None: all of ``nodes``."""
    dataset: str = "the ratings on the nodes of a Flower federation"
    """Public description, for the certificate."""
    kernels: str = "numpy"
    wait_seconds: float = 600.0
    """How long nodes are waited for."""
    board: Board = field(init=False)
    """The last one. Public."""
    _task: RatingTask = field(init=False)
    _key: QuestionKey = field(default_factory=QuestionKey, init=False)
    _training: Training | None = field(default=None, init=False)
    _runtime: ReplyRuntime = field(init=False)
    _rounds: Iterator[FinishedRound] = field(init=False)
    _seconds: float = field(default=3600.0, init=False)

    def __post_init__(self) -> None:
        """Check what was given, and calibrate the noise.

        Raises:
            InputError: names what is out of range.
        """
        require_whole("nodes", self.nodes)
        require_whole("users_per_node", self.users_per_node)
        if not 1 <= self._quorum <= self.nodes:
            raise InputError(f"quorum must be in [1, {self.nodes}] (the nodes), got {self.quorum}")
        trained = Trained(
            algorithm=variant_of(self.algorithm or usual(self.feedback)),
            feedback=self.feedback,
            promise=self._promise,
            settings=self.settings,
        )
        self._task = calibrated_task(trained, rating_range=self.rating_range, backend=self.kernels).task
        self.board = self._first = self._task.first_board(self.catalogue)

    @property
    def num_rounds(self) -> int:
        """How many rounds are left to run; noise is calibrated to all of them, so fewer leave a run unfinished."""
        return len(self._task.plan()) - self.board.version

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run all rounds that are left; as of ``flwr.serverapp.strategy.Strategy.start``.

        Args:
            grid: from ``@app.main()``.
            initial_arrays: of no use; a run begins with its first board, or its last one.
            num_rounds: at most so many now; None: all that are left.
            timeout: seconds in which nodes may answer a round; whoever does not is left out of it.
            train_config: not sent: what is asked stands on the board.
            evaluate_config: likewise.
            evaluate_fn: is given the board's public arrays after each round; what it needs beside is in ``board``.

        Returns:
            As Flower gives it; ``arrays`` are those of the last board.

        Raises:
            BudgetExceededError: the run does not fit its budget.
            InputError: ``folder`` holds another run.
            TooFewAnswersError: too few nodes came, or answered the first round; start again.
        """
        with ExitStack() as stack:
            self._open(stack)
            self._seconds = timeout
            left = self.num_rounds
            return super().start(
                grid,
                arrays_of(self.board),
                left if num_rounds is None else min(num_rounds, left),
                timeout=timeout,
                evaluate_fn=evaluate_fn,
            )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The question about the last board, to every node."""
        if self._training is None:
            raise InputError("the ledger is not open: begin with strategy.start(grid)")
        content = record_of(self._runtime.ask(self.board, seconds=self._seconds))
        content[SERVER] = ConfigRecord({"key": self._key.public.hex})
        group = str(self.board.version)
        return [
            Message(content, node, "train", ttl=self._seconds, group_id=group) for node in self._present(grid)
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the answers, sum, book, draw the noise, publish the next board."""
        self._runtime.receive(list(replies))
        finished = next(self._rounds)
        self.board = finished.board
        write_certificate(self.folder, self.board)
        told = MetricRecord(
            {
                "epsilon": finished.spent.epsilon,
                "delta": finished.spent.delta,
                "nodes-answered": self._runtime.n_answers,
                "lost": int(finished.lost),
            }
        )
        return arrays_of(self.board), told

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: errors on people's ratings are not private. Judge on data of your own (``evaluate_fn``)."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nobody was asked."""
        return None

    def summary(self) -> None:
        """Say what is promised, where Flower prints what a strategy is."""
        print(
            f"  {self._task.name}: epsilon {self.epsilon:g}, delta {self.delta:g} for each user "
            f"({self.adjacency}), {self.noise} noise, {self.num_rounds} rounds left; run in {self.folder}",
            flush=True,
        )

    @property
    def _quorum(self) -> int:
        return self.nodes if self.quorum is None else self.quorum

    @property
    def _promise(self) -> Promise:
        return Promise(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            noise=self.noise,
            seed=self.seed,
        )

    def _open(self, stack: ExitStack) -> None:
        """Ledger and boards of the run; the stack closes them."""
        (self.folder / "boards").mkdir(parents=True, exist_ok=True)
        protocol = Trusted(backend=self.kernels)
        self._training, self._runtime = training_in(
            self.folder,
            self._task,
            self._promise,
            protocol,
            lambda run: ReplyRuntime(
                run=run,
                protocol=protocol,
                key=self._key,
                quorum=self._quorum,
                users_per_node=self.users_per_node,
                private_noise=self.noise == "secure",
            ),
            stack,
            dataset=self.dataset,
            assumptions=(_ASSUMPTION,),
        )
        self.board = self._training.start(self._first)
        self._rounds = self._training.rounds(self.board)

    def _present(self, grid: Grid) -> list[int]:
        """The nodes, once as many are there as are expected: Flower starts an app while they are still coming."""
        until = time.monotonic() + self.wait_seconds
        while len(found := sorted(grid.get_node_ids())) < self.nodes:
            if time.monotonic() > until:
                if len(found) >= self._quorum:
                    break
                raise TooFewAnswersError(
                    f"{len(found)} nodes came within {self.wait_seconds:g} s and the quorum is {self._quorum}; "
                    "nobody was asked"
                )
            time.sleep(_LOOK_SECONDS)
        return found


def arrays_of(board: Board) -> ArrayRecord:
    """The arrays of a board as Flower carries them. Public."""
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in board.arrays.items()})
