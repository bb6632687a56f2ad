"""The gate of a device: what a question must meet before anything is computed, and what is booked before it leaves.

Every check looks at the question, at the policy and at what was given before, never at the ratings: a refusal
that depended on them would itself tell something about them, without any noise. So a catalogue that names only
this person's items cannot be refused by looking at them; it is refused because it is too small, because it is not
the one that the policy names, or because the board is not one that was published to everybody.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.seen import CosignedBoards, run_stem
from fedboard.client.participation.contributing import Scale
from fedboard.client.participation.ledger import AnsweredBoard, DeviceLedger, require_run_name
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import (
    MOST_RELEASES,
    catalogue_digest,
    has_sound_arrays,
    is_question,
    limits_of,
    relied_on,
    require_certified,
    require_task_allowed,
    statement_of,
    terms_of,
)
from fedboard.client.participation.records import AskedQuestions, BookedRounds, KeptAnswers, RefusalCounts
from fedboard.client.participation.rounds import Asker, Gate
from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import BudgetExceededError, FedboardError, InputError, PrivacyError
from fedboard.common.messages.question import BookedRound, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.step import StepMessage
from fedboard.common.privacy.events import RELATIVE_TOLERANCE
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.sessions import Voucher
from fedboard.common.queries.names import of_question

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGate(Gate):
    """Decides on each question by the user's policy; the ledger is its only memory of what it answered.

    Guarantee: each release of a run is answered at most once, all answers to a run come from one chain of boards
    with one configuration, one catalogue and one personal scale, and nothing passes that would break the user's
    limit. An answer is sent again only while it is kept, and where the policy of the moment allows its question.
    What is refused is counted as it is sent (``note``) and changes nothing else.
    Not guaranteed: that a server states its noise truthfully, see ``DeviceLedger``.
    """

    policy: Policy
    """The user's."""
    ledger: DeviceLedger
    """What was given so far; open for writing: its lock keeps a second process from answering too."""
    answers: KeptAnswers
    """Those that may be sent again."""
    asker: Asker
    """Whose questions are answered."""
    refusals: RefusalCounts
    """Are counted there."""
    booked: BookedRounds
    """Rounds that were booked, by the server's own word."""
    cache: BoardCache | None = None
    """Of published boards."""
    cosigned: CosignedBoards | None = None
    """Those boards that enough witnesses have cosigned; None where the policy names no witnesses."""
    voucher: Voucher | None = None
    """The device's identity, where the policy names who vouches for devices."""
    asked: AskedQuestions | None = None
    """Questions are noted there, in words, whether they are answered or not."""

    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        """The bytes that answered this very question before, to be sent again as they are; None for a new one.

        Args:
            question: from a server that need not be honest.
            requests: what the task of its board asks.

        Raises:
            RefusedError: the policy does not allow the question, or no longer; the code says why.
        """
        if not self.answers.has(question):
            return None
        self.repeat(question, requests)
        booked = question.board.digest in {about.board for about, _ in self._answered(question.run)}
        return self.answers.recall(question) if booked else None

    def repeat(self, question: Question, requests: Sequence[Request]) -> None:
        """Hold a question that may have been answered before against the policy of today.

        Raises:
            RefusedError: it is not answered again; the code says why.
        """
        with _as_refusals():
            self._require_allowed(question, question.board)
            self._require_promise(question.board, requests, _plan_of(question.board))
            self._require_within_limits(question.run, question=is_question(question.board))

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> float:
        """Hold a question against policy, history and limit; books nothing.

        Args:
            question: from a server that need not be trusted.
            board: the question's.
            requests: what the task of the board asks.

        Returns:
            The part that is given in every round of this run: a multiple of ``1 / SCALE_STEPS`` in (0, 1].

        Raises:
            RefusedError: the code says why.
        """
        with _as_refusals():
            self._require_allowed(question, board)
            self._require_history(question.run, board)
            plan = _plan_of(board)
            self._require_promise(board, requests, plan)
            return self._scale(question.run, (requests, *plan[board.version + 1 :]))

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        """The protocol that a step names, where the policy allows the run and what the protocol relies on.

        Raises:
            RefusedError: the code says why.
        """
        with _as_refusals():
            self._require_run(step.run, step.protocol, private_noise=step.private_noise)
            return relied_on(
                step.protocol, step.parameters, self.policy, backend=backend, voucher=self.voucher
            )

    def welcome(self, step: StepMessage) -> None:
        """Hold the first step of a session against what was answered before; books nothing.

        Raises:
            RefusedError: this round, or a later one, was answered.
        """
        with _as_refusals():
            self._require_not_booked(step.run, step.round)
            answered = [about.round for about, _ in self._answered(step.run)]
            _require(step.round not in answered, Refusal.ANSWERED_BEFORE)
            _require(step.round > max(answered, default=-1), Refusal.WRONG_ROUND)

    def commit(
        self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes | None
    ) -> None:
        """Keep an answer on the device, if it is to be kept, then book it; nothing may be sent before this returns.

        Raises:
            RefusedError: it cannot be booked; nothing was.
        """
        about = AnsweredBoard(
            round=question.round, board=question.board.digest, terms=terms_of(question.board)
        )
        with _as_refusals():
            if answer is not None:
                self.answers.keep(question, answer)
            try:
                self.ledger.admit(question.run, requests, scale=float(np.max(scale)), about=about)
            except (BudgetExceededError, PrivacyError):
                self.answers.drop(question)
                raise
            if self.asked is not None and is_question(question.board):
                asked = statement_of(question.board)
                self.asked.note(question.run, asked, question.board, answered=True)
            self.answers.drop_earlier(question)  # not before: until now the server may ask for them again

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        """Keep durably what the server has booked; an answer to that round is erased, and none is given any more.

        Args:
            booked: what the server says; its key has signed it.
            signed: the message that says it.

        Returns:
            The message that was held before; empty for none.
        """
        before = self.booked.hold(booked, signed)
        self.answers.drop(booked)
        return before

    def note(self, code: Refusal) -> None:
        """Count a refusal, as it is sent."""
        self.refusals.add(code)

    def failed(self, error: Exception) -> None:
        """Count it and keep the reason here; rows that cannot be computed are answered as empty ones."""
        self.refusals.add(Refusal.INTERNAL)
        _log.error("rows could not be computed and are answered as empty ones", exc_info=error)

    def _require_run(self, run: str, protocol: str, *, private_noise: bool) -> None:
        policy = self.policy
        _require(private_noise or policy.seeded_noise, Refusal.NOT_PRIVATE)
        _require_name(run)
        runs, protocols = policy.runs, policy.protocols
        _require(runs is None or any(fnmatchcase(run, r) for r in runs), Refusal.NOT_ALLOWED)
        _require(protocols is None or protocol in protocols, Refusal.NOT_ALLOWED)

    def _require_allowed(self, question: Question, board: Board) -> None:
        policy, catalogue = self.policy, board.catalogue
        self._require_run(question.run, question.protocol, private_noise=question.private_noise)
        if self.asked is not None and is_question(board):
            self.asked.note(question.run, statement_of(board), board)
        require_task_allowed(board, policy)
        _require(catalogue.n_items >= policy.smallest_catalogue, Refusal.SINGLES_OUT)
        _require(len(set(catalogue.item_ids)) == catalogue.n_items, Refusal.SINGLES_OUT)
        agreed = policy.catalogues
        _require(agreed is None or catalogue_digest(catalogue) in agreed, Refusal.SINGLES_OUT)
        self._require_not_booked(question.run, board.version)
        self._require_not_continued(board)
        if policy.published_only or self.cosigned is not None:
            published = self.cache is not None and self.cache.holds(board.digest)
            unseen = Refusal.NOT_PUBLISHED if self.cosigned is None else Refusal.NOT_WITNESSED
            _require(published, unseen)
        if self.cosigned is not None:
            self._require_witnessed(question.run, board, self.cosigned)

    def _require_witnessed(self, run: str, board: Board, cosigned: CosignedBoards) -> None:
        """Enough witnesses have cosigned the board; and a name has one ledger, so that no second run asks."""
        _require(cosigned.shows(board, run=run), Refusal.NOT_WITNESSED)
        stem = run_stem(run)
        answered = {given.run for given in self.ledger.given() if run_stem(given.run) == stem}
        _require(answered <= {run}, Refusal.NOT_WITNESSED)

    def _require_not_continued(self, board: Board) -> None:
        """A board whose successor was published is asked about by nobody but a server that lost what it had
        released: its answers would be released a second time, and be booked once.
        """
        held = [] if self.cache is None else self.cache.boards()
        for path in (cached.path for cached in held if cached.version == board.version + 1):
            try:
                later = Board.load(path)
            except InputError:  # damaged, or being deleted by another process
                continue
            _require(later.previous_digest != board.digest, Refusal.WRONG_ROUND)

    def _require_not_booked(self, run: str, number: int) -> None:
        """A round that its server has booked is asked about by nobody but a server that was put back: noise was, or
        may have been, drawn on its answers.
        """
        _require(number > self.booked.newest(run), Refusal.WRONG_ROUND)

    def _require_history(self, run: str, board: Board) -> None:
        """The board must continue the last one that was answered; rounds may be missed in between."""
        answered = {about.round: about for about, _ in self._answered(run)}
        if not answered:
            return
        if board.version in answered:
            same = answered[board.version].board == board.digest
            raise RefusedError(Refusal.ANSWERED_BEFORE if same else Refusal.OTHER_HISTORY)
        last = answered[max(answered)]
        _require(board.version > last.round, Refusal.WRONG_ROUND)
        _require(terms_of(board) == last.terms, Refusal.OTHER_HISTORY)
        if board.version == last.round + 1:
            _require(board.previous_digest == last.board, Refusal.OTHER_HISTORY)

    def _require_promise(
        self, board: Board, requests: Sequence[Request], plan: Sequence[Sequence[Request]]
    ) -> None:
        for request in (*requests, *(request for asked in plan for request in asked)):
            _require(request.release.adjacency == self.policy.adjacency, Refusal.OTHER_ADJACENCY)
            _require(request.release.noise_multiplier >= self.policy.least_noise, Refusal.NOT_PRIVATE)
        require_certified(board, plan, self.policy)

    def _scale(self, run: str, rounds: Sequence[Sequence[Request]]) -> float:
        """Fixed by the first answer for the whole run, so that every round of it is the same part of her."""
        policy, ledger = self.policy, self.ledger
        limits = limits_of(policy, run=run, question=of_question(rounds[0][0].name))
        scales = {scale for _, scale in self._answered(run)}
        if scales:
            scale = min(scales)
            for epsilon, of_run, questions in limits:
                cost = ledger.cost_with(rounds[0], scale=scale, run=of_run, questions=questions)
                _require(cost <= epsilon, Refusal.OVER_LIMIT)
            return scale
        scale = min(
            ledger.largest_scale(rounds, epsilon=epsilon, run=of_run, questions=questions)
            for epsilon, of_run, questions in limits
        )
        enough = scale == 1.0 or (policy.scale_down and scale >= policy.smallest_scale)
        _require(enough, Refusal.OVER_LIMIT)
        return scale

    def _require_within_limits(self, run: str, *, question: bool) -> None:
        """What was given keeps to the limits of today, which may be lower than when it was given."""
        slack = 1 + RELATIVE_TOLERANCE
        for epsilon, of_run, questions in limits_of(self.policy, run=run, question=question):
            given = self.ledger.cost_with((), run=of_run, questions=questions)
            _require(given <= epsilon * slack, Refusal.OVER_LIMIT)

    def _answered(self, run: str) -> list[tuple[AnsweredBoard, float]]:
        """Boards of a run that were answered, with the part given."""
        given = (entry for entry in self.ledger.given() if entry.run == run)
        return [(entry.about, entry.scale) for entry in given if entry.about is not None]


@contextmanager
def _as_refusals() -> Iterator[None]:
    """What the ledger and the files of this device refuse has a code too."""
    try:
        yield
    except RefusedError:
        raise
    except BudgetExceededError:
        raise RefusedError(Refusal.OVER_LIMIT) from None
    except PrivacyError:
        raise RefusedError(Refusal.BAD_BOARD) from None
    except FedboardError:
        raise RefusedError(Refusal.INTERNAL) from None


def _plan_of(board: Board) -> Sequence[Sequence[Request]]:
    """All rounds of a run by its board's own configuration, which may be anybody's; the board fits it."""
    stated = board.config.get("noise_multipliers")  # one for each release, so that no plan is longer
    _require(isinstance(stated, Mapping) and len(stated) <= MOST_RELEASES, Refusal.BAD_BOARD)
    try:
        task = rebuild_any(board)
        plan = task.plan()
    except (FedboardError, ArithmeticError, LookupError, TypeError, ValueError):
        raise RefusedError(Refusal.BAD_BOARD) from None
    _require(set(board.config) <= set(task.config), Refusal.BAD_BOARD)  # a key that is not understood
    _require(has_sound_arrays(board, task), Refusal.BAD_BOARD)
    return plan


def _require_name(run: str) -> None:
    try:
        require_run_name(run)
    except PrivacyError:
        raise RefusedError(Refusal.WRONG_RUN) from None


def _require(holds: bool, code: Refusal) -> None:
    if not holds:
        raise RefusedError(code)
