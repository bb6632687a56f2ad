"""From one board of the residual task to the next: reads the releases, updates the arrays. Post-processing."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request, SumSource
from fedboard.common.kernels.shared.packed import pack_symmetric, unpack_symmetric
from fedboard.common.per_user.clipping import VECTOR_BOUND
from fedboard.common.per_user.weights import WeightScheme, item_weights
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.residual.config import Curvature, ResidualConfig, stage_of
from fedboard.common.tasks.residual.curvature import credible_curvature
from fedboard.common.tasks.residual.start import leading_factors
from fedboard.common.tasks.residual.update import (
    ReleasedRound,
    credible_weighted_counts,
    gauge,
    moment_matrix,
    new_coordinates,
)
from fedboard.common.tasks.shared.adaptive_clipping import next_clip_norm
from fedboard.common.tasks.shared.preparation import head_of, released_mean
from fedboard.common.tasks.shared.releases import counts_request, real_stddev

Requests = Mapping[SumSource, Request]


def after_preparation(board: Board, released: ReleasedSums, settings: ResidualConfig) -> Board:
    """Mean, counts, weights and the number of users."""
    counts = np.maximum(released.array("counts")[:, 0], 1.0)
    return board.successor(
        mean=np.array([released_mean(released, settings.shared) if settings.has_biases else 0.0]),
        population=np.maximum(released.array("users")[0], 1.0),
        item_counts=counts,
        item_weights=item_weights(WeightScheme.ADAPTIVE, counts, exponent=settings.weight_exponent),
        learnt=head_of(counts, settings.head_fraction),
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
    weighted = np.ones(board.catalogue.n_items)
    weighted[rows] = credible_weighted_counts(
        released.array(request.name)[rows, 0],
        board.arrays["item_counts"][rows],
        settings.weight_exponent,
        stddev=real_stddev(request) * released.noise_ratio,
        counts_stddev=real_stddev(counts_request(settings.shared, n_items=1)) * released.noise_ratio,
    )
    if not settings.has_biases:
        return board.successor(weighted_counts=weighted)
    evidence = _evidence(board, released, requests, settings, weighted)
    found = np.zeros((weighted.size, 1))
    found[rows] = new_coordinates(found[rows], evidence, _design(board, settings, features), settings)
    biases = (found[:, 0] * settings.bias_scale).astype(np.float32)
    return board.successor(weighted_counts=weighted, item_biases=biases)


def after_pairs(board: Board, released: ReleasedSums, settings: ResidualConfig) -> Board:
    """Directions for the first alternation."""
    factors = leading_factors(released.array("pairs")[0], board.arrays["item_weights"], settings.rank)
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
    evidence = _evidence(board, released, requests, settings, _weighted_counts(board, settings))
    evidence = _with_curvature(evidence, board, released, requests)
    start = _coordinates(board, settings)[rows]
    found = new_coordinates(start, evidence, _design(board, settings, features), settings)
    t = stage_of(board.version, settings).alternation
    if t > 1:
        found += settings.iterate_memory * (start - found)
    change = _change(found, board.arrays["item_counts"][rows], evidence, settings)
    arrays = _item_arrays(found @ change, rows, board, settings)
    if settings.curvature is Curvature.ONCE and evidence.curvature is not None:
        back = np.linalg.inv(change)
        arrays["item_curvature"] = pack_symmetric(back @ evidence.curvature @ back.T).astype(np.float32)
    return board.successor(**arrays, **next_clip_norm(board, released, settings, t))


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
) -> ReleasedRound:
    """The releases of a round, for the items that are learnt."""
    linear, moment, rows = requests[SumSource.ITEM_LINEAR], requests[SumSource.QUADRATIC], _learnt(board)
    packed = released.array(moment.name)[0]
    sums = released.map_items((linear.name,), _Passed(linear.name), width=linear.release.width)
    population = float(board.arrays["population"][0])
    weighted, counts = weighted[rows], board.arrays["item_counts"][rows]
    omega = board.arrays["item_weights"][rows]
    # omega_i in units of c_i: an average user's weight on item i.
    of_user = omega * float(weighted.sum()) / float(counts @ omega)
    return ReleasedRound(
        linear=sums[rows].astype(np.float64),
        noise_stddev=real_stddev(linear) * released.noise_ratio,
        moment=moment_matrix(
            packed,
            stddev=real_stddev(moment) * released.noise_ratio,
            population=population,
            bound=math.sqrt(moment.release.grid_step) * VECTOR_BOUND,
        ),
        weighted_counts=weighted,
        mean_weights=np.minimum(weighted / counts, 1.0),
        unobserved=settings.item_unobserved_weight * population * of_user,
    )


def _with_curvature(
    evidence: ReleasedRound, board: Board, released: ReleasedSums, requests: Requests
) -> ReleasedRound:
    """Evidence with a matrix per item, where one was released now or before."""
    width = evidence.linear.shape[1]
    if SumSource.ITEM_QUADRATIC in requests:
        request = requests[SumSource.ITEM_QUADRATIC]
        noisy = unpack_symmetric(released.array(request.name)[_learnt(board)], rank=width)
        stddev = real_stddev(request) * released.noise_ratio
        return replace(
            evidence,
            curvature=credible_curvature(noisy, evidence.moment, evidence.weighted_counts, stddev),
        )
    if "item_curvature" in board.arrays:
        kept = unpack_symmetric(np.asarray(board.arrays["item_curvature"], dtype=np.float64), rank=width)
        return replace(evidence, curvature=kept)
    return evidence


def _learnt(board: Board) -> IntArray:
    """Numbers of the items that are learnt, int64, ascending."""
    return np.flatnonzero(board.arrays["learnt"]).astype(np.int64)


def _coordinates(board: Board, settings: ResidualConfig) -> FloatArray:
    factors: FloatArray = board.arrays["item_factors"].astype(np.float64)
    if not settings.has_biases:
        return factors
    return np.column_stack([board.arrays["item_biases"].astype(np.float64) / settings.bias_scale, factors])


def _design(board: Board, settings: ResidualConfig, features: FloatArray | None) -> FloatArray | None:
    """What an item's prior mean may depend on: 1, its standardised log count, its public features."""
    if not settings.popularity_prior:
        return None
    rows = _learnt(board)
    logs = np.log(board.arrays["item_counts"][rows])
    columns = [np.ones(logs.size), (logs - logs.mean()) / max(float(logs.std()), 1e-12)]
    return np.stack(columns if features is None else [*columns, *features[rows].T], axis=1)


def _change(
    found: FloatArray, counts: FloatArray, evidence: ReleasedRound, settings: ResidualConfig
) -> FloatArray:
    """The change of gauge of all coordinates: the bias, if any, stays what it is."""
    change = np.eye(found.shape[1])
    own = slice(found.shape[1] - settings.rank, None)
    change[own, own] = gauge(found[:, own], evidence.moment[own, own], counts, settings.gauge_exponent)
    return change


@dataclass(frozen=True, slots=True)
class _Passed:
    """Hands a release on as it is, so that the runtime's workers do the summing."""

    name: str

    def __call__(self, start: int, blocks: Mapping[str, FloatArray]) -> Float32Array:
        """Rows of the release from ``start`` on."""
        return blocks[self.name].astype(np.float32)
