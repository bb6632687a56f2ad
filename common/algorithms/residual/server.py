"""From one board of the residual task to the next: reads the releases, updates the arrays. Post-processing."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedboard.common.algorithms.residual import item_step, releases
from fedboard.common.algorithms.residual.config import ResidualConfig, releases_ridges, stage_of
from fedboard.common.algorithms.residual.device import after_evidence, unit_of
from fedboard.common.algorithms.residual.shrinkage import credible_curvature
from fedboard.common.algorithms.shared import preparation
from fedboard.common.algorithms.shared.adaptive_clipping import clip_norm_of, next_clip_norm
from fedboard.common.algorithms.shared.levels import likely_counts
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request, SumSource
from fedboard.common.contribution_bounding.clipping import VECTOR_BOUND
from fedboard.common.contribution_bounding.weights import WeightScheme, item_weights
from fedboard.common.kernels.packed import unpack_symmetric
from fedboard.common.task import ReleasedSums

Requests = Mapping[SumSource, Request]

LEAST_COUNT = 0.05
"""Users per item are taken to be at least so many."""
_TRUSTED = 0.3  # of the noise in a count: weights do not follow what is smaller
_FIRST_DROP = 3  # before this alternation nothing was learnt along which factors could help


def after_preparation(
    board: Board, released: ReleasedSums, requests: tuple[Request, ...], settings: ResidualConfig
) -> Board:
    """Level of ratings, counts, weights and the number of users."""
    level: dict[str, Any] = {"mean": np.array([0.0])}
    if settings.has_biases:
        moments, asked = requests
        found = preparation.released_level(released, moments, settings.shared)
        users, level = found.users, {"mean": np.array([found.mean]), "spread": np.array([found.spread])}
        stddev = real_stddev(asked) * released.noise_ratio
        shares = likely_counts(released.array(asked.name)[:, 0], stddev=stddev).mean
        # Were all to rate equally many, a rating would weigh this in every share.
        each = min(users / max(float(shares.sum()), 1.0), 1.0)
        counts = np.maximum(shares / each, LEAST_COUNT)
        trusted = np.maximum(counts, _TRUSTED * stddev / each)
    else:
        users = max(float(released.array("users")[0, 0]), 1.0)
        counts = trusted = np.maximum(released.array("counts")[:, 0], 1.0)
    return board.successor(
        **level,
        population=np.array([users]),
        item_counts=counts,
        item_weights=item_weights(WeightScheme.ADAPTIVE, trusted, exponent=settings.weight_exponent),
        learnt=preparation.head_of(counts, settings.head_fraction),
    )


def after_biases(
    board: Board,
    released: ReleasedSums,
    requests: Requests,
    settings: ResidualConfig,
    *,
    features: FloatArray | None,
) -> Board:
    """Weighted counts and, with explicit feedback, item biases."""
    request, rows = requests[SumSource.ITEM_COUNT], _learnt(board)
    weighted, doubt = np.ones(board.catalogue.n_items), np.zeros(board.catalogue.n_items)
    credible = item_step.credible_weighted_counts(
        released.array(request.name)[rows, 0],
        board.arrays["item_counts"][rows],
        settings.weight_exponent,
        stddev=real_stddev(request) * released.noise_ratio,
        counts_stddev=_counts_stddev(settings) * released.noise_ratio,
    )
    weighted[rows], doubt[rows] = credible.mean, credible.variance
    if not settings.has_biases:
        return board.successor(weighted_counts=weighted)
    board = replace(board, arrays={**board.arrays, "count_variances": doubt})
    everything = np.ones(1, dtype=np.bool_)
    evidence = _evidence(
        board, released, requests, settings, weighted, measured=everything, column=settings.bias_scale
    )
    found = np.zeros((weighted.size, 1))
    design = _design(board, features)
    step = item_step.new_coordinates(found[rows], evidence, design, settings, remembered=None)
    found[rows] = step.coordinates
    biases = (found[:, 0] * settings.bias_scale).astype(np.float32)
    return board.successor(
        weighted_counts=weighted,
        item_biases=biases,
        **_remembered_arrays(step.measured, settings),
        **_explores(board, step, evidence, settings, 1, released.noise_ratio),
    )


def after_pairs(board: Board, released: ReleasedSums, settings: ResidualConfig) -> Board:
    """Directions for the first alternation."""
    factors = releases.leading_factors(
        released.array("pairs")[0], board.arrays["item_weights"], settings.rank
    )
    return board.successor(sketch_factors=factors)


def after_alternation(
    board: Board,
    released: ReleasedSums,
    requests: Requests,
    settings: ResidualConfig,
    *,
    features: FloatArray | None,
) -> Board:
    """Item biases and factors, in the next gauge."""
    rows = _learnt(board)
    t = stage_of(board.version, settings).alternation
    measured = releases.measured_columns(board, settings, t)
    weighted = _weighted_counts(board, settings)
    evidence = _evidence(
        board,
        released,
        requests,
        settings,
        weighted,
        measured=measured,
        column=releases.bias_column(board, settings, t),
    )
    evidence = _with_curvature(evidence, board, released, requests)
    start, design = _coordinates(board, settings)[rows][:, measured], _design(board, features)
    step = item_step.new_coordinates(
        start, evidence, design, settings, remembered=_remembered(board, rows, settings)
    )
    found = step.coordinates
    if t > 1 and found.shape[1] > int(
        settings.has_biases
    ):  # biases alone are the best there is of all rounds
        found += settings.iterate_memory * (start - found)
    change = _change(found, board.arrays["item_counts"][rows], evidence, settings)
    moved = np.zeros((rows.size, settings.width))
    moved[:, measured] = found @ change
    ridges, useful = _ridges(board, released, settings, t)
    if not useful and t >= _FIRST_DROP:
        moved[:, -settings.rank :] = 0.0
    arrays = _item_arrays(moved, rows, board, settings)
    return board.successor(
        **arrays,
        **ridges,
        **_remembered_arrays(step.measured, settings),
        **_explores(board, step, evidence, settings, t + 1, released.noise_ratio),
        **next_clip_norm(board, released, settings, t),
    )


def _ridges(
    board: Board, released: ReleasedSums, settings: ResidualConfig, t: int
) -> tuple[dict[str, Any], bool]:
    """Board arrays that follow from the evidence of alternation t, and whether factors are worth anything."""
    if not releases_ridges(settings, t):
        return {}, True
    request = releases.evidence_request(settings.shared, t)
    stddev = real_stddev(request) * released.noise_ratio
    return after_evidence(board, released.array(request.name)[0], stddev, settings)


def _explores(
    board: Board,
    step: item_step.ItemStep,
    evidence: item_step.ReleasedRound,
    settings: ResidualConfig,
    t: int,
    ratio: float,
) -> dict[str, Any]:
    """Whether alternation t is to look for factors where there are none yet: from what is released and planned."""
    if not settings.has_biases or t > settings.rounds:
        return {}
    asked = releases.alternation(settings, t, n_items=1, clip_norm=clip_norm_of(board, settings))
    stddev = preparation.spread_of(board) * real_stddev(asked[0]) * ratio
    ratings = float(board.arrays["item_counts"].sum()) / float(board.arrays["population"][0])
    worth = releases.worth_measuring(
        step.bias_variance,
        evidence.weighted_counts,
        stddev,
        settings,
        ratings_of_user=ratings,
        spread=evidence.spread / settings.bias_scale,
    ) or releases.costs_little(evidence, stddev, settings, ratings_of_user=ratings)
    return {"explores": np.array([float(worth)])}


def _remembered(board: Board, rows: IntArray, settings: ResidualConfig) -> item_step.Remembered | None:
    """What earlier rounds measured of the biases, at what it is worth now; None where nothing is kept."""
    if "bias_precisions" not in board.arrays or settings.bias_memory == 0.0:
        return None
    # What a bias is changes with the factors that others are predicted by; without factors it does not.
    alone = not np.any(board.arrays["item_factors"])
    memory = 1.0 if alone else settings.bias_memory
    return item_step.Remembered(
        alone=alone,
        values=np.asarray(board.arrays["bias_measured"], dtype=np.float64)[rows] / settings.bias_scale,
        precisions=memory
        * np.asarray(board.arrays["bias_precisions"], dtype=np.float64)[rows]
        * settings.bias_scale**2,
    )


def _remembered_arrays(measured: item_step.Remembered, settings: ResidualConfig) -> dict[str, Any]:
    """Measurements of the biases up to now, in stars, for boards whose items all have one."""
    if not settings.has_biases or settings.bias_memory == 0.0 or settings.head_fraction < 1.0:
        return {}
    return {
        "bias_measured": (measured.values * settings.bias_scale).astype(np.float32),
        "bias_precisions": (measured.precisions / settings.bias_scale**2).astype(np.float32),
    }


def _counts_stddev(settings: ResidualConfig) -> float:
    """Noise that is left in the counts; those of ratings are posterior means already."""
    return 0.0 if settings.has_biases else real_stddev(preparation.counts_request(settings.shared, n_items=1))


def _weighted_counts(board: Board, settings: ResidualConfig) -> FloatArray:
    """c_i as released; where that round was lost, what the counts predict if all users have equally many items."""
    if "weighted_counts" in board.arrays:
        return np.asarray(board.arrays["weighted_counts"], dtype=np.float64)
    counts = board.arrays["item_counts"]
    shape = counts ** (1.0 - settings.weight_exponent)
    total = math.sqrt(float(board.arrays["population"][0]) * float(counts.sum()))
    return np.asarray(total / float(shape.sum()) * shape, dtype=np.float64)


def _item_arrays(moved: FloatArray, rows: IntArray, board: Board, settings: ResidualConfig) -> dict[str, Any]:
    biases = np.zeros(board.catalogue.n_items, dtype=np.float32)
    factors = np.zeros((board.catalogue.n_items, settings.rank), dtype=np.float32)
    if settings.has_biases:
        biases[rows] = moved[:, 0] * settings.bias_scale
    factors[rows] = moved[:, -settings.rank :]
    return {"item_biases": biases, "item_factors": factors}


def _evidence(
    board: Board,
    released: ReleasedSums,
    requests: Requests,
    settings: ResidualConfig,
    weighted: FloatArray,
    *,
    measured: BoolArray,
    column: float,
) -> item_step.ReleasedRound:
    """The releases of a round, for the items that are learnt and the coordinates that were measured.

    Where x_j was zero for everybody the sums are noise. ``column`` is what the first coordinate of each was: sums
    are turned into what they would be with ``bias_scale``, which is what item coordinates are in.
    """
    linear, moment, rows = requests[SumSource.ITEM_LINEAR], requests[SumSource.QUADRATIC], _learnt(board)
    packed = released.array(moment.name)[0]
    sums = released.map_items((linear.name,), preparation.Passed(linear.name), width=linear.release.width)
    population = float(board.arrays["population"][0])
    weighted, counts = weighted[rows], board.arrays["item_counts"][rows]
    omega = board.arrays["item_weights"][rows]
    spread = unit_of(board, settings)
    shorter = settings.bias_scale / column
    # omega_i in units of c_i: an average user's weight on item i.
    of_user = omega * float(weighted.sum()) / float(counts @ omega)
    return item_step.ReleasedRound(
        linear=shorter * spread * sums[rows][:, measured].astype(np.float64),
        noise_stddev=shorter * spread * real_stddev(linear) * released.noise_ratio,
        moment=shorter**2
        * item_step.moment_matrix(
            unpack_symmetric(packed[None, :], rank=measured.size)[0][np.ix_(measured, measured)],
            stddev=real_stddev(moment) * released.noise_ratio,
            population=population,
            bound=math.sqrt(moment.release.grid_step) * VECTOR_BOUND,
        ),
        weighted_counts=weighted,
        count_variances=_count_variances(board, rows),
        mean_weights=_mean_weights(weighted, counts, population, settings),
        spread=spread,
        unobserved=settings.item_unobserved_weight * population * of_user,
    )


def _count_variances(board: Board, rows: IntArray) -> FloatArray:
    """What is left to doubt in c_i; nothing is known of it where that round was lost."""
    if "count_variances" not in board.arrays:
        return np.zeros(rows.size)
    return np.asarray(board.arrays["count_variances"])[rows]


def _mean_weights(
    weighted: FloatArray, counts: FloatArray, population: float, settings: ResidualConfig
) -> FloatArray:
    """What a rating of each item weighs on average: a user's squared weights add to 1."""
    if settings.has_biases:
        return np.full(weighted.size, min(population / max(float(weighted.sum()), 1.0), 1.0))
    return np.minimum(weighted / counts, 1.0)


def _with_curvature(
    evidence: item_step.ReleasedRound, board: Board, released: ReleasedSums, requests: Requests
) -> item_step.ReleasedRound:
    """Evidence with a matrix per item, where one was released."""
    if SumSource.ITEM_QUADRATIC not in requests:
        return evidence
    request = requests[SumSource.ITEM_QUADRATIC]
    noisy = unpack_symmetric(released.array(request.name)[_learnt(board)], rank=evidence.linear.shape[1])
    stddev = real_stddev(request) * released.noise_ratio
    curvature = credible_curvature(noisy, evidence.moment, evidence.weighted_counts, stddev)
    return replace(evidence, curvature=curvature)


def _learnt(board: Board) -> IntArray:
    """Numbers of the items that are learnt, int64, ascending."""
    return np.flatnonzero(board.arrays["learnt"]).astype(np.int64)


def _coordinates(board: Board, settings: ResidualConfig) -> FloatArray:
    factors: FloatArray = board.arrays["item_factors"].astype(np.float64)
    if not settings.has_biases:
        return factors
    return np.column_stack([board.arrays["item_biases"].astype(np.float64) / settings.bias_scale, factors])


def _design(board: Board, features: FloatArray | None) -> FloatArray:
    """What an item's prior mean may depend on: 1, its standardised log count, its public features."""
    rows = _learnt(board)
    logs = np.log(board.arrays["item_counts"][rows])
    columns = [np.ones(logs.size), (logs - logs.mean()) / max(float(logs.std()), 1e-12)]
    return np.stack(columns if features is None else [*columns, *features[rows].T], axis=1)


def _change(
    found: FloatArray, counts: FloatArray, evidence: item_step.ReleasedRound, settings: ResidualConfig
) -> FloatArray:
    """The change of gauge of all coordinates: the bias, if any, stays what it is."""
    change = np.eye(found.shape[1])
    own = slice(int(settings.has_biases), None)
    if found[:, own].shape[1] == 0:
        return change
    change[own, own] = item_step.gauge(found[:, own], evidence.moment[own, own], counts)
    return change
