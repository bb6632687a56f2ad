"""What the final board alone gives away: who took part, and whether somebody rated an item.

No certificate: this adversary is weak, so a small advantage proves nothing. It shows, beside the bound that holds
against every adversary, what the guarantee means for people.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.privacy.accounting.exact import compose_events
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.task import Task
from fedboard.simulations.audit.entrance import Crowd, Entered, Entrance
from fedboard.simulations.audit.pipeline import play
from fedboard.simulations.audit.statistics import FAMILY_ERROR, split_bound
from fedboard.simulations.audit.subject import AuditFinding, Part, Subject
from fedboard.simulations.engine import WorkerPool

FALSE_POSITIVES = 0.01
MEMBERSHIP, ATTRIBUTE = "membership", "attribute"
QUESTIONS = {MEMBERSHIP: "did she take part?", ATTRIBUTE: "did she rate this item as she did?"}
_TARGETS = 2_000
_ROC_POINTS = 101


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardGame:
    """One game: scores told apart by a threshold, beside what the guarantee allows at most."""

    name: str
    n_targets: int
    mu: float
    """Claimed, between the two worlds of the game."""
    auc: float
    true_positives: float
    """At 1 % false positives."""
    roc: FloatArray
    """float64, shape (2, n_points): rates of false and true positives."""
    finding: AuditFinding

    @property
    def auc_at_most(self) -> float:
        """What the guarantee allows: ``Phi(mu / sqrt 2)``."""
        return float(ndtr(self.mu / math.sqrt(2.0)))

    @property
    def true_positives_at_most(self) -> float:
        """What the guarantee allows at 1 % false positives."""
        return float(highest_rate(np.array([FALSE_POSITIVES]), self.mu)[0])


def highest_rate(false_positives: FloatArray, mu: float) -> FloatArray:
    """``Phi(PhiInv(FPR) + mu)``: no test of a mu-GDP mechanism has more true positives.

    Reference: Dong, Roth and Su (2022), arXiv:1905.02383, sec. 2.
    """
    return np.asarray(ndtr(ndtri(false_positives) + mu), dtype=np.float64)


def board_games(
    subject: Subject, entrance: Entrance, *, pool: WorkerPool, seed: int
) -> tuple[BoardGame, ...]:
    """Play both games on one run; a second run without any target is the adversary's reference.

    *Membership*: is j's row in? Score: how much better the board fits their ratings, after their own device's
    solve, than the reference does. *Attribute*: given the rest of their ratings, did they rate item i as they did?
    Score: how much better the board predicts that rating from the rest. Half of the targets play each game; coins
    decide.

    Args:
        subject: the parts.
        entrance: makes rows of files; at most 2,000 of its honest users are targets, each of whom, or of whose
            ratings, is in the file or not.
        pool: where jobs run.
        seed: of targets and coins, and of the noise where it is seeded.
    """
    rng = np.random.default_rng([seed, 0xB0A2D])
    everybody = entrance.honest_rows()
    cohort, targets = everybody.cohort, _Targets.choose(everybody.cohort, rng)
    coins = {
        MEMBERSHIP: rng.random(targets.members.size) < 0.5,
        ATTRIBUTE: rng.random(targets.probes.size) < 0.5,
    }
    nobody = {name: np.zeros_like(coin) for name, coin in coins.items()}
    worlds = (targets.world(entrance.honest, everybody, chosen) for chosen in (coins, nobody))
    with_some, with_none = (entrance.rows(world).cohort for world in worlds)
    board, mu = _last_board(subject, with_some, pool, seed)
    reference, _ = _last_board(subject, with_none, pool, seed + 1)
    fits, usual = (targets.fits(subject.task, cohort, known) for known in (board, reference))
    exchange = 1.0 if subject.budget.adjacency == Adjacency.REPLACE else 2.0
    distances = {MEMBERSHIP: mu, ATTRIBUTE: exchange * mu}  # a changed row is taken out and put in
    return tuple(
        _game(name, fits[name] - usual[name], coin, distances[name], rng) for name, coin in coins.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Targets:
    """Whose presence, and which ratings, are guessed."""

    members: IntArray
    """Row numbers of the membership game."""
    owners: IntArray
    """Row numbers of the attribute game."""
    probes: IntArray
    """For each owner the entry that is guessed."""

    @staticmethod
    def choose(cohort: Cohort, rng: np.random.Generator) -> "_Targets":
        chosen = rng.permutation(np.flatnonzero(cohort.counts >= 2))[:_TARGETS]
        owners = np.sort(chosen[1::2])
        offsets = np.floor(rng.random(owners.size) * cohort.counts[owners]).astype(np.int64)
        return _Targets(members=np.sort(chosen[0::2]), owners=owners, probes=cohort.indptr[owners] + offsets)

    def world(self, crowd: Crowd, entered: Entered, coins: dict[str, BoolArray]) -> Crowd:
        """The file in which only those users and ratings with a true coin are there."""
        gone = np.isin(crowd.users, entered.ids[self.members[~coins[MEMBERSHIP]]])
        lost = ~coins[ATTRIBUTE]
        n_items = entered.cohort.n_items
        pairs = entered.ids[self.owners[lost]] * n_items + entered.cohort.items[self.probes[lost]]
        gone |= np.isin(crowd.users * n_items + crowd.items, pairs)
        return Crowd(users=crowd.users[~gone], items=crowd.items[~gone], values=crowd.values[~gone])

    def fits(self, task: Task, cohort: Cohort, board: Board) -> dict[str, FloatArray]:
        """How well a board explains each target: minus squared errors, float64, one per target."""
        own = cohort.where(_entries_of(cohort, self.members))
        users = own.user_of_entry()
        errors = own.ratings - task.predict(task.fit_local(own, board), board, users, own.items)
        sums = np.bincount(users, weights=errors**2, minlength=own.n_users)
        means = sums[self.members] / np.maximum(own.counts[self.members], 1)
        known = _entries_of(cohort, self.owners)
        known[self.probes] = False
        local = task.fit_local(cohort.where(known), board)
        owners, items = self.owners.astype(np.int32), cohort.items[self.probes]
        guessed = cohort.ratings[self.probes] - task.predict(local, board, owners, items)
        return {MEMBERSHIP: -means, ATTRIBUTE: -(guessed**2)}


def _entries_of(cohort: Cohort, users: IntArray) -> BoolArray:
    """Mark the entries of some rows."""
    rows = np.zeros(cohort.n_users, dtype=np.bool_)
    rows[users] = True
    return np.repeat(rows, cohort.counts)


def _last_board(subject: Subject, cohort: Cohort, pool: WorkerPool, seed: int) -> tuple[Board, float]:
    """The final board of a real run, and the mu of everything it booked."""
    *_, last = play(subject, cohort, pool=pool, seed=seed)
    return last.after, compose_events(last.events.values())


def _game(
    name: str, scores: FloatArray, present: BoolArray, mu: float, rng: np.random.Generator
) -> BoardGame:
    inside, outside = np.sort(scores[present]), np.sort(scores[~present])
    false_rates = np.geomspace(1.0 / max(outside.size, 2), 1.0, _ROC_POINTS)
    thresholds = np.quantile(outside, 1.0 - false_rates)
    true_rates = 1.0 - np.searchsorted(inside, thresholds, side="left") / inside.size
    cut = np.quantile(outside, 1.0 - FALSE_POSITIVES, method="higher")
    shown = split_bound(scores, present, confidence=1.0 - FAMILY_ERROR, rng=rng)
    return BoardGame(
        name=name,
        n_targets=scores.size,
        mu=mu,
        auc=float(np.mean(sum(np.searchsorted(outside, inside, side=side) for side in ("left", "right"))))
        / (2 * outside.size),
        true_positives=float(np.mean(inside > cut)),
        roc=np.stack([false_rates, true_rates]),
        finding=Part.BOARD.finding(
            check=f"{name} game within the bound",
            passed=shown <= mu,
            detail=f"mu of at least {shown:.3g} shown from the final board, {mu:.3g} allowed",
        ),
    )
