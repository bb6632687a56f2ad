"""Private quantiles of one number per user, such as the norm that a clipping norm should follow.

Each user says where their number lies, within the bound or beyond it, as one entry of a row of zeros: the row has
L2 norm 1, and sensitivity 1 under ``add-remove`` and sqrt 2 under ``replace`` (both exact). The bound moves a step
a round.

Numbers are compared in floating point on the device; what leaves it is an integer row, so nothing in the proof
depends on how the comparison rounds.

A task's clipping norm that follows a private quantile of the users' norms from round to round.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.algorithms.shared.ratings_config import RatingSettings
from fedboard.common.algorithms.shared.sums import Noised, user_totals
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.checks import Positive, Rounds, Share, require
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.errors import PrivacyError
from fedboard.common.task import ReleasedSums

PRESENCE_BOUND = 1 << 14
"""L2 norm of one user's row, grid units; stands for 1. Fine, so that a personal privacy level can shrink it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveClip:
    """A bound that follows a quantile of the users' norms, a step a round. Every field is public, and in its
    range, which ``ClippedSettings`` checks.

    A user's row is (1, 0) if her norm is within the bound C and (0, 1) if beyond. From the noised sums (w, b):

        C <- C exp(rate (target - w / (w + b))),    clamped to [lower, upper]

    The row has norm 1. One number alone, her bit minus the target, has max(target, 1 - target); it gives the
    difference ``w (1 - target) - b target`` with less noise, by 1 / sqrt 2 at the median and 2 % at 0.85. But
    the step needs the number of users too, which the second place brings, and ``replace`` costs sqrt 2, not 2.

    Reference: Andrew, Thakkar, McMahan and Ramaswamy (2021), Differentially private learning with adaptive
    clipping, arXiv:1905.03871, Alg. 1 (its bit is centred at 1/2, its number of users public).
    """

    target: float
    """Share of the users whose norm should be within the bound; in (0, 1)."""
    rate: float = 1.0
    """Step of log C per unit of that share that is missing; > 0. About the inverse density of log norms there."""
    initial: float
    """The first bound; > 0."""
    lower: float
    """The bound never falls below this; > 0."""
    upper: float
    """The bound never rises above this; at least ``initial``."""

    def request(self, run: Noised, name: str) -> Request:
        """What a round asks of each user; its release is booked like any other.

        Raises:
            PrivacyError: no finite, positive noise.
        """
        covers = "users with a norm within the bound, and beyond"
        return user_totals(run, name, width=2, steps=PRESENCE_BOUND, same_sign=True, covers=covers)

    def rows(self, norms: NDArray[np.floating], bound: float) -> IntArray:
        """Each user's row, for ``Contribution.totals``.

        Args:
            norms: floating, shape (n_users,), >= 0. Private.
            bound: C of this round. Public.

        Returns:
            int64, shape (n_users, 2), each row of norm ``PRESENCE_BOUND``. Private.

        Raises:
            PrivacyError: a norm is not finite; which one is not said.
        """
        if not np.isfinite(norms).all():
            raise PrivacyError("norms must be finite; NaN or infinity was refused")
        rows = np.zeros((norms.size, 2), dtype=np.int64)
        rows[np.arange(norms.size), (norms > bound).astype(np.int64)] = PRESENCE_BOUND
        return rows

    def update(self, bound: float, released: FloatArray) -> float:
        """The next round's bound: post-processing of the noised sums.

        Where noise hides the users altogether the step is random, but never longer than ``rate``.

        Args:
            bound: C of the round that was released. Public.
            released: float64, 2 numbers in any shape, the noised sums (w, b). Public.

        Returns:
            A bound in [lower, upper].
        """
        within, beyond = (float(value) for value in np.reshape(released, 2))
        missing = self.target * beyond - (1.0 - self.target) * within
        step = missing / max(within + beyond, 1.0)
        step = min(max(step, self.target - 1.0), self.target)
        return min(max(bound * math.exp(self.rate * step), self.lower), self.upper)


FARTHEST = 64.0
"""An adaptive clipping norm stays within this factor of where it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSettings(RatingSettings):
    """Settings of an algorithm whose clipping norm may follow a quantile. Public."""

    rounds: Rounds
    """Number of rounds that clip."""
    clip_norm: Positive
    """Where the norm starts, and stays if it does not adapt."""
    clip_quantile: Share | None = None
    """Share of the users who should be within the norm. Set, ``clip_norm`` is that of the first round, and each
    later one follows from a private release of the round before."""
    clip_rate: Positive = 1.0
    """Step of the norm's logarithm per unit of that share that is missing."""

    def __post_init__(self) -> None:
        """Check every range, and how far an adaptive norm may go; a server need not be honest.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        super(ClippedSettings, self).__post_init__()
        inside = self.clip_norm / FARTHEST > 0.0 and self.largest_clip_norm < math.inf
        rule = f"finite and > 0 as far as clip_quantile may move it, {FARTHEST:g} times either way"
        require(self.clip_quantile is None or inside, "clip_norm", rule, self.clip_norm)

    @property
    def largest_clip_norm(self) -> float:
        """An adaptive norm never rises above this."""
        return self.clip_norm * FARTHEST


def adapts_clipping(settings: ClippedSettings, t: int) -> bool:
    """Whether round t (from 1) releases where the users' norms lie; the last does not, since none follows."""
    return settings.clip_quantile is not None and 0 < t < settings.rounds


def adaptive_clip(settings: ClippedSettings, t: int) -> AdaptiveClip | None:
    """What moves the clipping norm after round t, or None where it stays."""
    if settings.clip_quantile is None or not adapts_clipping(settings, t):
        return None
    return AdaptiveClip(
        target=settings.clip_quantile,
        rate=settings.clip_rate,
        initial=settings.clip_norm,
        lower=settings.clip_norm / FARTHEST,
        upper=settings.largest_clip_norm,
    )


def clip_requests(settings: ClippedSettings, t: int) -> tuple[Request, ...]:
    """What round t asks of each user about her norm; nothing where the norm stays."""
    clip = adaptive_clip(settings, t)
    if clip is None:
        return ()
    return (clip.request(settings.shared, _release_name(t)),)


def clip_rows(
    settings: ClippedSettings,
    t: int,
    cohort: Cohort,
    norms: Callable[[], NDArray[np.floating]],
    clip_norm: float,
) -> dict[str, IntArray]:
    """Where each user's norm lies, for the rounds that release it; a user without ratings says nothing."""
    clip = adaptive_clip(settings, t)
    if clip is None:
        return {}
    rows = clip.rows(norms(), clip_norm)
    rows[cohort.counts == 0] = 0
    return {_release_name(t): rows}


def clip_norm_of(board: Board, settings: ClippedSettings) -> float:
    """The clipping norm of the round after this board."""
    moved = board.arrays.get("clip_norm")
    return settings.clip_norm if moved is None else float(moved[0])


def next_clip_norm(board: Board, released: ReleasedSums, settings: ClippedSettings, t: int) -> dict[str, Any]:
    """The board array that round t moves; none where the norm stays."""
    clip = adaptive_clip(settings, t)
    if clip is None:
        return {}
    moved = clip.update(clip_norm_of(board, settings), released.array(_release_name(t)))
    return {"clip_norm": np.array([moved])}


def _release_name(t: int) -> str:
    return f"round-{t}/clip"
