"""One user more or less in the file: what they change before the first release, and whether it shows them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from scipy.special import bdtrc, ndtr

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.privacy.accounting.exact import compose_events
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.simulations.audit.canaries import booked_deviations, isometric_square, unit_noise
from fedboard.simulations.audit.entrance import Crowd, Entered, Entrance
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.statistics import FAMILY_ERROR
from fedboard.simulations.audit.subject import AuditFinding, Part, Plan, Subject
from fedboard.simulations.engine import WorkerPool

_HONEST_USERS = 400
_SIZES = (1, 5, 30, 200)
"""Ratings of the user who is guessed, in turn."""
_AT_ONCE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGame:
    """The game of one user, played many times."""

    n_games: int
    right: int
    """How often the adversary, who knows everybody else's ratings, said rightly whether the user was there."""
    allowed: float
    """Highest success probability that the guarantee allows, ``Phi(mu / 2)``."""
    shares: Mapping[str, float]
    """By release name: the most that one user of the file moved its sum by, as a share of the booked bound."""
    findings: tuple[AuditFinding, ...]


def file_games(subject: Subject, entrance: Entrance, plan: Plan, *, pool: WorkerPool) -> FileGame:
    """Guess who is there from what leaves in the first round, from the file on.

    In each game a coin decides whether one user stands in a file beside some honest ones; the run reads the file,
    splits it, asks the rows and publishes. The adversary reads the file with and without the user, as they may: the
    coins of the split are public. They compare what left with what either would give. Apart from the game, in exact
    numbers: what the user changes in each sum is within the booked bound, and nobody else's rows change at all. The
    first users also join a file that is larger than every block in which a run goes through it: the honest users
    again and again, under other ids.

    Args:
        subject: the parts.
        entrance: makes rows of files; some of its honest users take part.
        plan: how many games; its seed is of coins, users and noise.
        pool: where jobs run.
    """
    rng = np.random.default_rng([plan.seed, 0xF11E])
    honest = entrance.honest.of(entrance.honest.ids[:_HONEST_USERS])
    without = entrance.rows(honest)
    table = _Table(
        subject=subject, requests=subject.task.requests(subject.task.first_board(subject.catalogue))
    )
    expected, mu = table.sums(without.cohort), 0.0
    once = entrance.honest_rows().cohort
    large = entrance.honest.times(1 + plan.block // max(min(once.n_ratings, 32 * once.n_users), 1))
    behind = entrance.rows(large) if plan.block else without
    for number, user in enumerate(islice(_users(entrance, rng), plan.file_games)):
        if plan.block and number < len(_SIZES):
            table.compare(behind, entrance.rows(large.joined(user)), user.ids)
        with_them = entrance.rows(honest.joined(user))
        table.compare(without, with_them, user.ids)
        present = bool(rng.random() < 0.5)
        there = (with_them if present else without).cohort
        played = next(play(subject, there, pool=pool, seed=plan.seed + number))
        mu = compose_events(played.events.values())
        table.guess(played, expected, table.sums(with_them.cohort), present)
    return table.result(plan.file_games, float(ndtr(mu / 2.0)))


@dataclass(slots=True, kw_only=True)
class _Table:
    """What the games have shown so far."""

    subject: Subject
    requests: tuple[Request, ...]
    right: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    changed: int = 0
    """Games in which somebody else's rows changed."""

    def sums(self, cohort: Cohort) -> dict[str, IntArray]:
        """Exact sums of the first round."""
        board, protocol = self._board, self.subject.protocol
        message = protocol.encode(self.subject.task.contribute(cohort, board, self.requests), self.requests)
        return whole_sums(protocol.combine([message], self.requests), self.requests)

    @property
    def _board(self) -> Board:
        return self.subject.task.first_board(self.subject.catalogue)

    def compare(self, without: Entered, with_them: Entered, user: IntArray) -> None:
        """Hold what a user changes against the bounds, and everybody else's rows against each other."""
        before, after = self.sums(without.cohort), self.sums(with_them.cohort)
        for request in self.requests:
            moved = math.sqrt(isometric_square(request, after[request.name] - before[request.name]))
            share = moved / request.release.l2_bound
            self.shares[request.name] = max(self.shares.get(request.name, 0.0), share)
        others = with_them.in_order(np.setdiff1d(with_them.ids, user))
        same = (
            np.array_equal(others.indptr, without.cohort.indptr)
            and np.array_equal(others.items, without.cohort.items)
            and np.array_equal(others.ratings, without.cohort.ratings)
        )
        self.changed += not same

    def guess(
        self, played: PlayedRound, out: Mapping[str, IntArray], inside: Mapping[str, IntArray], present: bool
    ) -> None:
        """The likelier of two worlds, from all that left: the best test between two Gaussian sums."""
        score = 0.0
        for name, left in played.published.items():
            event = played.events[name]
            deviations = booked_deviations(event)
            apart = (inside[name] - out[name]) / deviations
            score += float(np.sum((unit_noise(event, left.values, out[name]) - apart / 2.0) * apart))
        self.right += (score > 0.0) is present

    def result(self, n_games: int, allowed: float) -> FileGame:
        """The findings."""
        most = max(self.shares.values(), default=0.0)
        chance = float(bdtrc(self.right - 1, n_games, allowed)) if self.right else 1.0
        findings = (
            Part.FILE.finding(
                "one user of the file moves each sum by at most its bound",
                most <= 1.0,
                f"at most {most:.6g} of it, in {n_games} files with and without her",
            ),
            Part.FILE.finding(
                "nobody else's rows change with her",
                not self.changed,
                f"not the same in {self.changed} of {n_games}"
                if self.changed
                else f"the same to the last bit in {n_games}",
            ),
            Part.FILE.finding(
                "whether she is there is guessed no oftener than allowed",
                chance >= FAMILY_ERROR,
                f"{self.right} of {n_games} right, {allowed:.1%} allowed",
            ),
        )
        return FileGame(
            n_games=n_games, right=self.right, allowed=allowed, shares=dict(self.shares), findings=findings
        )


def _users(entrance: Entrance, rng: np.random.Generator) -> Iterator[Crowd]:
    """One user after the other, of all sizes."""
    kept: dict[int, list[Crowd]] = {size: [] for size in _SIZES}
    while True:
        for size in _SIZES:
            if not kept[size]:
                crowd = entrance.strangers(_AT_ONCE, items_each=size, rng=rng)
                kept[size] = [crowd.of(np.array([one])) for one in rng.permutation(crowd.ids)]
            yield kept[size].pop()
