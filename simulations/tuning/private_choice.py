"""The one release that compares trials, each user telling how they did on ratings not seen, and what it says.

Everybody keeps the validation ratings of her own split from every trial. On those she compares the K published
boards: with ``L_k`` the mean squared error of board k, predictions brought into the rating range, in squared
quarters of that range, her row is

    clip(sqrt(n) (L_k - L_0), +-1 / sqrt(K - 1))   for k = 1 .. K - 1,

where n is the number of her validation ratings and board 0 is that of the shipped settings. Its norm is at most 1
whatever the boards and her ratings are: that is the sensitivity under ``add-remove``, and 2 under ``replace``.
Rows are truncated to an integer grid, summed and noised as every other release. The square root lets who rates more
count for more, and a bound for each candidate keeps one hopeless candidate from drowning the others.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.arrays import BitArray, BoolArray, Float32Array, FloatArray, IntArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.files import write_atomically
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.task import ReleasedSums
from fedboard.simulations.data.splits import SplitRule
from fedboard.simulations.tuning.private_plan import (
    CHOICE_SHARE,
    FINAL_SHARE,
    PrivateTuneRecord,
    told_of,
)

FILE = "chosen.json"
RELEASE = "losses"
"""Its name; in the ledger ``choice/losses``."""
ROW_ONE = 1 << 20
"""1 in a user's row, grid units."""
BEYOND = 2.0
"""A candidate replaces the shipped settings only if its sum is below 0 by more than so many noise deviations."""
_INSIDE = 1.0 - 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A finished trial. Public."""

    task: RatingTask
    board: Board


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceTask:
    """What devices run to compare the boards of finished trials: one round, whose board holds the comparison."""

    tried: tuple[Tried, ...]
    """The shipped settings first; at least 2."""
    rule: SplitRule
    """Which of her ratings a user has kept from training."""
    item_keys: BitArray
    """uint64, shape (n_items,)."""
    rating_range: tuple[float, float]
    adjacency: Adjacency
    noise_multiplier: float

    @property
    def name(self) -> str:
        """What its board is."""
        return "choice"

    @property
    def config(self) -> Mapping[str, Any]:
        """What is compared."""
        rule, fold = self.rule, self.rule.fold
        of_fold = () if fold is None else (fold.number, fold.of)
        return {
            "boards": [tried.board.digest for tried in self.tried],
            "rating_range": list(self.rating_range),
            "split": [rule.coins.seed, rule.validation, rule.test, *of_fold],
            "adjacency": str(self.adjacency),
            "noise_multiplier": self.noise_multiplier,
        }

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """One round."""
        return ((choice_request(len(self.tried), self.adjacency, self.noise_multiplier),),)

    def first_board(self, catalogue: Catalogue) -> Board:
        """A board without data."""
        return Board(
            version=0, task=self.name, config=self.config, arrays={}, catalogue=catalogue.without_features
        )

    def requests(self, board: Board) -> tuple[Request, ...]:
        """The comparison, once."""
        return self.plan()[0] if board.version == 0 else ()

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The board with the noisy sums, float64, shape (K - 1,), and their noise deviation."""
        stddev = real_stddev(self.plan()[0][0]) * released.noise_ratio
        return board.successor(losses=released.array(RELEASE)[0], stddev=np.array([stddev]))

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Each user's row; private."""
        return Contribution(
            n_items=cohort.n_items,
            indptr=cohort.indptr,
            items=cohort.items,
            totals={RELEASE: choice_rows(self.losses(cohort), self._held_out(cohort).counts)},
        )

    def losses(self, cohort: Cohort) -> FloatArray:
        """Mean squared errors on each user's validation ratings; float64, shape (n_users, K). Private.

        0 where she has none. In squared quarters of the rating range, so in [0, 16].

        Args:
            cohort: training and validation ratings of the users. Private.
        """
        train, held_out = cohort.where(self._learnt(cohort)), self._held_out(cohort)
        users, number = held_out.user_of_entry(), np.maximum(held_out.counts, 1)
        found = np.zeros((cohort.n_users, len(self.tried)))
        for place, tried in enumerate(self.tried):
            local = tried.task.fit_local(train, tried.board)
            predicted = tried.task.predict(local, tried.board, users, held_out.items)
            errors = squared_errors(predicted, held_out.ratings, self.rating_range)
            found[:, place] = np.bincount(users, weights=errors, minlength=cohort.n_users) / number
        return found

    def _learnt(self, cohort: Cohort) -> BoolArray:
        words = self.rule.coins.of_ratings(cohort.keys, self.item_keys, cohort.user_of_entry(), cohort.items)
        return self.rule.parts(words)[0]

    def _held_out(self, cohort: Cohort) -> Cohort:
        return cohort.where(~self._learnt(cohort))


def choice_request(n_boards: int, adjacency: Adjacency, noise_multiplier: float) -> Request:
    """What is asked of each user.

    Args:
        n_boards: that are compared; >= 2.
        adjacency: of the promise.
        noise_multiplier: noise deviation over sensitivity; > 0.
    """
    release = GaussianRelease(
        name=RELEASE,
        rows=1,
        width=n_boards - 1,
        layout="vector",
        grid_step=1.0 / ROW_ONE,
        l2_bound=ROW_ONE,
        same_sign=False,
        adjacency=adjacency,
        noise_multiplier=noise_multiplier,
        covers="how much worse than the shipped settings each candidate's board predicts a user's validation "
        "ratings, norm at most 1",
    )
    return Request(source=SumSource.TOTAL, release=release)


def squared_errors(
    predicted: FloatArray, ratings: Float32Array, rating_range: tuple[float, float]
) -> FloatArray:
    """Squared errors in squared quarters of the range, each in [0, 16]; float64, shape (n_ratings,). Private.

    Args:
        predicted: float64, shape (n_ratings,): anything, also what is no number, which errs as much as can be.
        ratings: float32, shape (n_ratings,), in the range. Private.
        rating_range: public.
    """
    low, high = rating_range
    bounded = np.clip(np.asarray(predicted, dtype=np.float64), low, high)
    actual = np.clip(ratings.astype(np.float64), low, high)
    errors = np.where(np.isnan(bounded), high - low, bounded - actual)
    quarters: FloatArray = (errors / (0.25 * (high - low))) ** 2
    return quarters


def choice_rows(losses: FloatArray, n_held_out: IntArray) -> IntArray:
    """Each user's row; int64, shape (n_users, K - 1), norm at most ``ROW_ONE``. Private.

    Args:
        losses: finite, float64, shape (n_users, K), the shipped settings first. Private.
        n_held_out: number of ratings behind them, int64, shape (n_users,). Private.
    """
    worse = np.sqrt(n_held_out.astype(np.float64))[:, None] * (losses[:, 1:] - losses[:, :1])
    most = _INSIDE / math.sqrt(losses.shape[1] - 1)
    return np.trunc(np.clip(worse, -most, most) * ROW_ONE).astype(np.int64)


def chosen(losses: FloatArray, stddev: float) -> int:
    """Number of the candidate to train with; 0, the shipped settings, unless another is better beyond the noise.

    Args:
        losses: released sums, float64, shape (K - 1,): below 0 is better than the shipped settings. Public.
        stddev: of the noise in each. Public.
    """
    best = int(np.argmin(losses))
    return best + 1 if losses[best] < -BEYOND * stddev else 0


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one part costs. Public."""

    part: str
    """Its releases in the ledger are ``part/...``."""
    share: float
    """Of the whole mu^2."""
    epsilon: float
    """By itself, at the delta of the whole."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a private choice. All of it is released or public."""

    number: int
    """Of the candidate that the final run trains with; 0 is the shipped settings."""
    candidates: tuple[dict[str, float | int | bool | str], ...]
    """What each lays over the configuration."""
    losses: tuple[float, ...] | None
    """Released: for candidates 1 to K - 1, below 0 is better than the shipped settings; None where the release was
    paid for and lost."""
    stddev: float
    """Of the noise in each."""
    beyond: float
    """A candidate is taken only if its loss is below -beyond * stddev."""
    costs: tuple[Cost, ...]
    """Their shares add up to 1."""
    epsilon: float
    """Of everything together, at delta."""
    delta: float

    @property
    def sentence(self) -> str:
        """What happened, in words."""
        number, among = self.number, f"among {len(self.candidates)}"
        if self.losses is None:
            return f"the comparison was paid for and lost, so the shipped settings are kept {among}"
        if number == 0:
            return (
                f"the shipped settings are kept: no other {among} is better by more than {self.beyond:g} "
                "deviations of the noise"
            )
        return f"candidate {number} is chosen {among}: {told_of(self.candidates[number])}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """For the certificate of the final board."""
        others = "; ".join(f"({place}) {told_of(one)}" for place, one in enumerate(self.candidates))
        last = len(self.candidates) - 1
        return (
            "Before the first release these settings were fixed as candidates, without looking at the ratings: "
            f"{others}. Each was trained by the releases trial-0 to trial-{last} listed here and they were "
            f"compared by the release choice listed here: {self.sentence}. Every other setting is a public "
            "constant, and all of it together is what is claimed.",
        )


def chosen_of(record: PrivateTuneRecord, compared: Board | None) -> Chosen:
    """The outcome: post-processing of one released board.

    Args:
        record: what was fixed before.
        compared: the board of the comparison; None where it was lost.
    """
    losses = None if compared is None else compared.arrays["losses"]
    stddev = 0.0 if compared is None else float(compared.arrays["stddev"][0])
    shares = {f"trial-{place}": record.trial_share for place in range(len(record.candidates))}
    shares |= {"choice": CHOICE_SHARE, "final": FINAL_SHARE}
    return Chosen(
        number=0 if losses is None else chosen(losses, stddev),
        candidates=record.candidates,
        losses=None if losses is None else tuple(float(loss) for loss in losses),
        stddev=stddev,
        beyond=BEYOND,
        costs=tuple(
            Cost(part=part, share=share, epsilon=record.epsilon_of_share(share))
            for part, share in shares.items()
        ),
        epsilon=record.config.privacy.epsilon,
        delta=record.config.privacy.delta,
    )


def write_chosen(outcome: Chosen, out: Path) -> None:
    """Write ``chosen.json``."""
    write_atomically(out / FILE, msgspec.json.format(msgspec.json.encode(outcome), indent=1))
