"""A task's clipping norm that follows a private quantile of the users' norms from round to round."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.per_user.quantile import AdaptiveClip
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.shared.ratings_config import RatingsConfig
from fedboard.common.tasks.shared.releases import noise_multiplier

FARTHEST = 64.0
"""An adaptive clipping norm stays within this factor of where it started."""


class ClippingSettings(Protocol):
    """What an adaptive clipping norm needs of a task's configuration. Public."""

    @property
    def shared(self) -> RatingsConfig:
        """What every algorithm on ratings has."""
        ...

    @property
    def clip_norm(self) -> float:
        """Where the norm starts, and stays if it does not adapt."""
        ...

    @property
    def clip_quantile(self) -> float | None:
        """Share of the users that should be within the norm; None for a fixed one."""
        ...

    @property
    def clip_rate(self) -> float:
        """Step of its logarithm per unit of that share that is missing."""
        ...

    @property
    def rounds(self) -> int:
        """Number of rounds that clip."""
        ...

    @property
    def largest_clip_norm(self) -> float:
        """The norm never rises above this."""
        ...


def adapts_clipping(settings: ClippingSettings, t: int) -> bool:
    """Whether round t (from 1) releases where the users' norms lie; the last does not, since none follows."""
    return settings.clip_quantile is not None and 0 < t < settings.rounds


def adaptive_clip(settings: ClippingSettings, t: int) -> AdaptiveClip | None:
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


def clip_requests(settings: ClippingSettings, t: int) -> tuple[Request, ...]:
    """What round t asks of each user about her norm; nothing where the norm stays."""
    clip = adaptive_clip(settings, t)
    if clip is None:
        return ()
    name = _release_name(t)
    multiplier = noise_multiplier(settings.shared, name)
    return (clip.request(name, noise_multiplier=multiplier, adjacency=settings.shared.adjacency),)


def clip_rows(
    settings: ClippingSettings,
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


def clip_norm_of(board: Board, settings: ClippingSettings) -> float:
    """The clipping norm of the round after this board."""
    moved = board.arrays.get("clip_norm")
    return settings.clip_norm if moved is None else float(moved[0])


def next_clip_norm(
    board: Board, released: ReleasedSums, settings: ClippingSettings, t: int
) -> dict[str, Any]:
    """The board array that round t moves; none where the norm stays."""
    clip = adaptive_clip(settings, t)
    if clip is None:
        return {}
    moved = clip.update(clip_norm_of(board, settings), released.array(_release_name(t)))
    return {"clip_norm": np.array([moved])}


def _release_name(t: int) -> str:
    return f"round-{t}/clip"
