"""The server's side where a Flower user expects it: a ``Strategy`` for a ServerApp of one's own."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

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
from fedboard.server.training import FinishedRound

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
    _protocol: Trusted = field(init=False)
    _run: str | None = field(default=None, init=False)
    """Name of the run, as nodes know it, once its ledger is open."""
    _rounds: Iterator[FinishedRound] = field(init=False)
    _seconds: float = field(default=3600.0, init=False)
    _asked: tuple[Question, ReplyKey] | None = field(default=None, init=False)
    """The last question. A round is asked once, and whoever is late is lost."""
    _replies: list[Message] = field(default_factory=list, init=False)
    _answered: int = field(default=0, init=False)
    """Nodes whose answer was taken in the last round."""

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
        self._protocol = Trusted(backend=self.kernels)
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
        if self._run is None:
            raise InputError("the ledger is not open: begin with strategy.start(grid)")
        question, key = fresh_question(
            self.board, run=self._run, protocol=self._protocol, private_noise=self.noise == "secure"
        )
        self._asked = question, key
        content = record_of(self._key.sign(question.content, seconds=self._seconds))
        content[SERVER] = ConfigRecord({"key": self._key.public.hex})
        group = str(self.board.version)
        return [
            Message(content, node, "train", ttl=self._seconds, group_id=group) for node in self._present(grid)
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the answers, sum, book, draw the noise, publish the next board."""
        self._replies = list(replies)
        finished = next(self._rounds)
        self.board = finished.board
        write_certificate(self.folder, self.board)
        told = MetricRecord(
            {
                "epsilon": finished.spent.epsilon,
                "delta": finished.spent.delta,
                "nodes-answered": self._answered,
                "lost": int(finished.lost),
            }
        )
        return arrays_of(self.board), told

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Check the replies to the last question and sum exactly; as of ``fedboard.server.runtime.Runtime``.

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
            backend=self._protocol.backend,
        )
        refused = Counter[Refusal]()
        for reply in self._replies:
            node = str(reply.metadata.src_node_id)
            try:
                admission.take(node, _content_of(reply), max_users=self.users_per_node)
            except RefusedError as error:
                refused[error.code] += 1
        self._replies, self._answered = [], len(admission.users)
        if self._answered < self._quorum:
            raise TooFewAnswersError(
                f"{self._answered} nodes answered round {board.version} and the quorum is {self._quorum}; nothing "
                f"was released (not taken: {told_refusals(refused)})"
            )
        down = len(question.content) + ENVELOPE_BYTES
        return Gathered(sums=admission.sums(), traffic=admission.traffic(down))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)

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
        training, _ = training_in(
            self.folder,
            self._task,
            self._promise,
            self._protocol,
            self._named,
            stack,
            dataset=self.dataset,
            assumptions=(_ASSUMPTION,),
        )
        self.board = training.start(self._first)
        self._rounds = training.rounds(self.board)

    def _named(self, run: str) -> Self:
        self._run = run
        return self

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


def _content_of(reply: Message) -> bytes:
    """The frame of a reply.

    Raises:
        RefusedError: there is none.
    """
    content = None if reply.has_error() else frame_of(reply.content)
    if content is None:
        raise RefusedError(Refusal.UNREACHABLE if reply.has_error() else Refusal.MALFORMED)
    return content
