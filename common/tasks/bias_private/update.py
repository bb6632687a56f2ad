"""From one board of the private item biases to the next. Post-processing: reads releases, never a rating."""

import math

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.bias_private.config import BiasConfig
from fedboard.common.tasks.shared.levels import (
    LikelyCounts,
    NoisySums,
    confounding,
    likely_counts,
    posterior_effects,
    released_sums,
)
from fedboard.common.tasks.shared.rating_level import released_level, spread_of
from fedboard.common.tasks.shared.releases import real_stddev


def after_moments(board: Board, released: ReleasedSums, request: Request, settings: BiasConfig) -> Board:
    """Mean and deviation of ratings, and the users."""
    level = released_level(released, request, settings.shared)
    return board.successor(
        mean=np.array([level.mean]), spread=np.array([level.spread]), population=np.array([level.users])
    )


def after_first(board: Board, released: ReleasedSums, requests: tuple[Request, Request]) -> Board:
    """Weighted counts, and the effects that the first sums speak for."""
    asked, summed = requests
    counts = likely_counts(released.array(asked.name)[:, 0], stddev=real_stddev(asked) * released.noise_ratio)
    sums = released_sums(released, summed, spread=spread_of(board))
    # Were all to rate equally many, a rating would weigh this in every c_i.
    each = _mean_weight(board, counts.mean)
    return board.successor(
        item_biases=_effects(board, sums, counts).astype(np.float32),
        item_counts=np.maximum(counts.mean / each, 1.0),
        weighted_counts=counts.mean,
        count_variances=counts.variance,
        first_sums=sums.values,
    )


def after_second(board: Board, released: ReleasedSums, request: Request, first: Request) -> Board:
    """Both sums as one, the first trusted as far as it agrees with the second beyond their noise.

    The second was asked with the effects of the first taken out; put back, it is the sum that the first would have
    been without the users' own biases in it.
    """
    if (
        "weighted_counts" not in board.arrays
    ):  # the first round was lost, and without counts a sum means nothing
        return board.successor()
    counts = LikelyCounts(
        mean=np.asarray(board.arrays["weighted_counts"]), variance=np.asarray(board.arrays["count_variances"])
    )
    taken_out = np.asarray(board.arrays["item_biases"], dtype=np.float64)
    again = released_sums(released, request, spread=spread_of(board))
    second = NoisySums(
        values=again.values + counts.mean * taken_out,
        variances=again.variances + counts.variance * taken_out**2,
    )
    before = NoisySums(
        values=np.asarray(board.arrays["first_sums"]),
        variances=np.full(
            second.values.size, (spread_of(board) * real_stddev(first) * released.noise_ratio) ** 2
        ),
    )
    apart = confounding(before, second, counts.mean, spread=spread_of(board))
    trust = 1.0 / (before.variances + apart * counts.mean**2)
    share = trust / (trust + 1.0 / second.variances)
    both = NoisySums(
        values=share * before.values + (1.0 - share) * second.values,
        variances=share / trust,
    )
    doubtful = LikelyCounts(mean=counts.mean, variance=counts.variance * share)
    return board.successor(item_biases=_effects(board, both, doubtful).astype(np.float32))


def _effects(board: Board, sums: NoisySums, counts: LikelyCounts) -> FloatArray:
    return posterior_effects(
        sums, counts, spread=spread_of(board), mean_weight=_mean_weight(board, counts.mean)
    )


def _mean_weight(board: Board, counts: FloatArray) -> float:
    """What a rating weighs on average: a user's squared weights add to 1. In (0, 1]; 1 where users are unknown."""
    users = float(board.arrays["population"][0]) if "population" in board.arrays else math.inf
    return min(users / max(float(counts.sum()), 1.0), 1.0)
