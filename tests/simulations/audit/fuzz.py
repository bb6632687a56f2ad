"""How far one client can move the exact sums, whatever she sends: the real pipeline with the noise left out."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.simulations.audit.canaries import isometric_square
from fedboard.simulations.audit.pipeline import play
from fedboard.simulations.audit.subject import AuditFinding, Part, Subject
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.hostile import HostileUser, hostile_messages, hostile_users

Sums = Mapping[str, IntArray]
_HONEST_USERS = 60
_OTHERS = "nobody's contribution depends on who else is there"
_SPLIT = "sums do not depend on how users are split"


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzLine:
    """One release: the furthest that anybody moved its sum, as a share of the booked bound."""

    name: str
    share: float
    by: str
    """Who did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzResult:
    """Outcome of the sensitivity test."""

    lines: tuple[FuzzLine, ...]
    n_tried: int
    n_refused: int
    """Clients whose device sent nothing, and messages that the aggregator dropped."""
    findings: tuple[AuditFinding, ...]


def sensitivity_fuzz(
    subject: Subject,
    cohort: Cohort,
    boards: Sequence[Board],
    *,
    rating_range: tuple[float, float],
    seed: int,
    n_random: int = 20,
) -> FuzzResult:
    """Add one hostile client after the other to a few honest users, and compare exact sums with and without her.

    In integer arithmetic, for each board and each release:

    * a client with hostile *ratings*, through device code and protocol, as a message of her own among others, in
      shards and in any order; all such clients together in the engine have the sums of a message from each;
    * a hostile *message*, made up without any device code;
    * everybody else's contribution, at a fixed board, is the same to the last bit whether she is there or not.

    Args:
        subject: the parts.
        cohort: honest users; the first sixty take part. Private.
        boards: the stages of a run at which to try; each must ask for something.
        rating_range: public.
        seed: draws the random clients.
        n_random: how many random clients.
    """
    rng = np.random.default_rng([seed, 0xF022])
    honest = cohort.rows(0, min(_HONEST_USERS, cohort.n_users))
    users = hostile_users(cohort.n_items, rating_range, n_random=n_random, rng=rng)
    tally = _Tally(adjacency=subject.budget.adjacency)
    for board in boards:
        stage = _Stage(subject=subject, board=board, requests=subject.task.requests(board), honest=honest)
        _try_messages(stage, hostile_messages(stage.requests, cohort.n_items, rng), tally)
        _try_users(stage, users, tally)
    return tally.result()


def fuzz_stages(
    subject: Subject,
    cohort: Cohort,
    *,
    rating_range: tuple[float, float],
    seed: int,
    n_random: int,
    pool: WorkerPool,
) -> FuzzResult:
    """The sensitivity fuzz in a run on a few honest users: at the first board of each kind, and the last.

    Boards are of one kind if they ask for the same sources.
    """
    few = cohort.rows(0, min(_HONEST_USERS, cohort.n_users))
    first: dict[tuple[SumSource, ...], Board] = {}
    for played in play(subject, few, pool=pool, seed=seed):
        last = played.before
        first.setdefault(tuple(request.source for request in played.requests), last)
    stages = {board.version: board for board in (*first.values(), last)}
    return sensitivity_fuzz(
        subject,
        few,
        list(stages.values()),
        rating_range=rating_range,
        seed=seed,
        n_random=n_random,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """One board, what it asks, and who is there anyway."""

    subject: Subject
    board: Board
    requests: tuple[Request, ...]
    honest: Cohort

    def message(self, cohort: Cohort) -> Contribution:
        """What these users' device sends."""
        contribution = self.contribution(cohort)
        return self.subject.protocol.encode(contribution, self.requests)

    def contribution(self, cohort: Cohort) -> Contribution:
        return self.subject.task.contribute(cohort, self.board, self.requests)

    def sums(self, messages: Iterable[Contribution]) -> tuple[Sums, int]:
        """Exact sums, and how many rows were dropped."""
        combined = self.subject.protocol.combine(messages, self.requests)
        return whole_sums(combined, self.requests), combined.rejected_rows

    def cohort_with(self, *users: Cohort) -> Cohort:
        """The honest users with some more in their middle."""
        place = self.honest.n_users // 2
        before, after = self.honest.rows(0, place), self.honest.rows(place, self.honest.n_users)
        return _joined(before, *users, after)

    def engine_sums(self, cohort: Cohort) -> Sums:
        """Exact sums of a whole cohort as the simulation's engine forms them."""
        with WorkerPool(1) as pool, self.subject.engine(cohort, pool) as engine:
            return whole_sums(engine.gather(self.board, self.requests).sums, self.requests)


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What was tried and how far the sums moved."""

    adjacency: Adjacency
    worst: dict[str, FuzzLine] = field(default_factory=dict)
    broken: dict[str, tuple[float, str]] = field(default_factory=dict)
    """By check: how bad the worst offence was, and what it was."""
    n_tried: int = 0
    n_refused: int = 0
    previous: dict[str, tuple[str, IntArray]] = field(default_factory=dict)

    def moved(self, request: Request, who: str, change: IntArray) -> None:
        """Hold one client's change against the bound, and under ``replace`` her exchange for the one before."""
        self._hold(request, who, change, request.release.l2_bound)
        before = self.previous.get(request.name)
        if self.adjacency == Adjacency.REPLACE and before is not None:
            exchange, bound = change - before[1], request.release.l2_sensitivity
            self._hold(request, f"{who} instead of {before[0]}", exchange, bound)
        self.previous[request.name] = who, change

    def _hold(self, request: Request, who: str, change: IntArray, bound: float) -> None:
        squared = isometric_square(request, change)
        share = math.sqrt(squared) / bound
        if request.name not in self.worst or share > self.worst[request.name].share:
            self.worst[request.name] = FuzzLine(name=request.name, share=share, by=who)
        # Bounds under add-remove are whole numbers: exact. A factor sqrt 2 is not, so allow its last bit.
        if squared > (bound**2 if isinstance(bound, int) else bound**2 * (1 + 1e-12)):
            check = f"{request.name} moves by more than its bound"
            self.complain(check, f"{who}: {share:.6g} times the bound", share)

    def complain(self, check: str, detail: str, badness: float = 0.0) -> None:
        """Remember the worst offence of a kind."""
        if check not in self.broken or badness > self.broken[check][0]:
            self.broken[check] = badness, detail

    def result(self) -> FuzzResult:
        """The findings."""
        found = [Part.SENSITIVITY.finding(check, False, detail) for check, (_, detail) in self.broken.items()]
        if not found:
            largest = max((line.share for line in self.worst.values()), default=0.0)
            detail = (
                f"{self.n_tried} clients, {self.n_refused} refused, largest change {largest:.6f} of its bound"
            )
            check = "one client moves each sum by at most its bound, and nobody else's part"
            found = [Part.SENSITIVITY.finding(check, True, detail)]
        return FuzzResult(
            lines=tuple(self.worst.values()),
            n_tried=self.n_tried,
            n_refused=self.n_refused,
            findings=tuple(found),
        )


def _try_messages(stage: _Stage, messages: Iterator[tuple[str, Contribution]], tally: _Tally) -> None:
    others = [stage.message(stage.honest)]
    without, _ = stage.sums(others)
    for who, contribution in messages:
        tally.n_tried += 1
        try:
            with_her, rejected = stage.sums([*others, contribution])
        except Exception as error:
            if not isinstance(error, FedboardError):
                tally.complain("a message cannot stop a round", f"{who}: {type(error).__name__}: {error}")
            tally.n_refused += 1
            continue
        tally.n_refused += rejected
        for request in stage.requests:
            tally.moved(request, f"message with {who}", with_her[request.name] - without[request.name])


def _try_users(stage: _Stage, users: Sequence[HostileUser], tally: _Tally) -> None:
    nobody, place = _nobody(stage.honest.n_items), stage.honest.n_users // 2
    absent = stage.cohort_with(nobody)
    shards = [stage.message(absent.rows(0, place)), stage.message(absent.rows(place + 1, absent.n_users))]
    without, _ = stage.sums(shards)
    usual = stage.contribution(absent)
    sent: list[Cohort] = []
    for user in users:
        tally.n_tried += 1
        own = user.cohort(stage.honest.n_items)
        message = _if_sent(stage, replace(own, first_row=place))
        if message is None:
            tally.n_refused += 1
            continue
        with_her, _ = stage.sums([message, *reversed(shards)])
        sent.append(own)
        for request in stage.requests:
            tally.moved(request, user.name, with_her[request.name] - without[request.name])
        with _quiet():
            contribution = stage.contribution(stage.cohort_with(own))
        for part in _changed_parts(contribution, usual, place):
            tally.complain(_OTHERS, f"{part}, with {user.name}")
    _try_engine(stage, sent, tally)


def _try_engine(stage: _Stage, sent: Sequence[Cohort], tally: _Tally) -> None:
    """All of them at once in the engine: the sums must be those of a message from each."""
    everybody = stage.cohort_with(*sent)
    with _quiet():
        together = stage.engine_sums(everybody)
        alone = [stage.message(everybody.rows(row, row + 1)) for row in range(everybody.n_users)]
    apart, _ = stage.sums(alone)
    for name in together:
        if not np.array_equal(together[name], apart[name]):
            tally.complain(_SPLIT, f"{name} of a cohort is not the sum over its users")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hostile numbers make arithmetic warn; what matters is what comes of it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _if_sent(stage: _Stage, own: Cohort) -> Contribution | None:
    """A device's message; None where it would not or could not make one: then nothing leaves it."""
    with _quiet():
        try:
            return stage.message(own)
        except Exception:
            return None


def _nobody(n_items: int) -> Cohort:
    """A user without ratings."""
    return Cohort(
        indptr=np.zeros(2, dtype=np.int64),
        items=np.empty(0, dtype=np.int32),
        ratings=np.empty(0, dtype=np.float32),
        n_items=n_items,
    )


def _joined(*parts: Cohort) -> Cohort:
    """One cohort of several."""
    counts = np.concatenate([part.counts for part in parts])
    return Cohort(
        indptr=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]),
        items=np.concatenate([part.items for part in parts]),
        ratings=np.concatenate([part.ratings for part in parts]),
        n_items=parts[0].n_items,
    )


def _changed_parts(present: Contribution, absent: Contribution, place: int) -> list[str]:
    """Which arrays differ in rows other than hers."""
    entries = np.repeat(np.arange(present.n_users), np.diff(present.indptr)) != place
    users = np.arange(present.n_users) != place
    pairs = {
        "weights": (present.weights, absent.weights, entries),
        "responses": (present.responses, absent.responses, entries),
    }
    changed = [
        name for name, (one, other, keep) in pairs.items()
        if one is not None and other is not None and not np.array_equal(one[keep], other)
    ]  # fmt: skip
    per_user = {name: (rows, absent.totals[name]) for name, rows in present.totals.items()}
    if present.vectors is not None and absent.vectors is not None:
        per_user["vectors"] = present.vectors.astype(np.int64), absent.vectors.astype(np.int64)
    return changed + [
        name for name, (one, other) in per_user.items() if not np.array_equal(one[users], other[users])
    ]
