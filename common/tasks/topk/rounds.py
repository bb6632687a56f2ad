"""The server's part of top-k lists, round by round: from noised sums to the next board.

Everything here is post-processing of releases and of what is public, the decision whether more than popularity is
learnt included.
"""

from collections.abc import Mapping

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.board import AnyArray, Board
from fedboard.common.contribution import Request
from fedboard.common.kernels.shared.packed import unpack_symmetric
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.shared.preparation import head_of
from fedboard.common.tasks.shared.releases import real_stddev
from fedboard.common.tasks.topk.basis import public_basis
from fedboard.common.tasks.topk.config import Stage, TopKConfig, head_size
from fedboard.common.tasks.topk.kernels import Kernels, public_kernels
from fedboard.common.tasks.topk.local import CONSTANT, OWN_SHARE
from fedboard.common.tasks.topk.recounting import counts_so_far, leaders
from fedboard.common.tasks.topk.releases import KERNELS, start_columns
from fedboard.common.tasks.topk.scoring import Scores, scores_of
from fedboard.common.tasks.topk.spectra import Directions, denoised, gauge, started

_LEAST_OF_NOISE, _LEAST_OF_LARGEST = 0.02, 1e-3
_CREDIBLE = 0.3
"""How far an item's diagonal may be from what its count predicts, relatively."""
_TIE = 1e-6
"""Of popularity, in a score: it orders what a person's own items say nothing about."""


def personal(board: Board) -> bool:
    """Whether more than popularity is learnt, as the board says."""
    return bool(np.asarray(board.arrays["personal"])[0])


def model_width(settings: TopKConfig, board: Board) -> int:
    """Columns of the items on the last boards: directions, and kernels where the catalogue has features."""
    return settings.width + (settings.kernel_rank if board.catalogue.features is not None else 0)


def after_counts(board: Board, released: ReleasedSums, request: Request, settings: TopKConfig) -> Board:
    """Which items are learnt, how popular they are, and along which columns the start is measured.

    More than popularity is learnt where the counts hold more of it than of noise: where ``sum c^2 - m s^2``, what
    their squares are above noise, exceeds the noise that the learnt items' counts have.
    """
    noisy = released.array(str(Stage.COUNTS))[:, 0]
    stddev = real_stddev(request) * released.noise_ratio
    learnt = head_of(noisy, head_size(settings, noisy.size) / noisy.size)
    above = float(np.sum(noisy**2)) - noisy.size * stddev**2
    worth = above > stddev**2 * int(learnt.sum())
    counts = _positive(noisy, stddev)
    factors = leaders(noisy, settings)
    if worth:
        factors[:] = 0.0
        items = np.flatnonzero(learnt).astype(np.int32)
        columns = public_basis(board.catalogue.features, counts[items], items, settings).columns
        factors[items, : columns.shape[1]] = columns
    return board.successor(
        item_counts=counts,
        item_weights=np.ones(noisy.size),
        learnt=learnt,
        population=np.array([max(float(released.array("users")[0, 0]), 1.0)]),
        personal=np.array([worth], dtype=np.uint8),
        noisy_counts=noisy.copy(),
        count_variance=np.full(noisy.size, stddev**2),
        item_factors=factors,
    )


def after_recount(
    board: Board, released: ReleasedSums, request: Request, stage: Stage, settings: TopKConfig
) -> Board:
    """Counts from all rounds so far; on the last board they order every list."""
    noisy, variance = counts_so_far(board, released, request, stage, settings)
    counts = _positive(noisy, float(np.sqrt(variance.max())))
    width = settings.width if stage is Stage.START else model_width(settings, board)
    last = {"item_scale": np.ones(noisy.size), "item_biases": (noisy / counts.max()).astype(np.float32)}
    return board.successor(
        item_counts=counts,
        noisy_counts=noisy,
        count_variance=variance,
        learnt=head_of(noisy, head_size(settings, noisy.size) / noisy.size),
        item_factors=np.zeros((noisy.size, width), dtype=np.float32),
        **_no_directions(settings, board) if stage is Stage.DIRECTIONS else {},
        **last if stage is Stage.ENERGIES else {},
    )


def after_start(board: Board, released: ReleasedSums, request: Request, settings: TopKConfig) -> Board:
    """Directions to measure next, in their gauge: popularity, and what rises from the start.

    Without features nothing but its size tells a direction from noise: where none is clearly above the largest
    eigenvalue that noise would give, the directions count.
    """
    stddev = real_stddev(request) * released.noise_ratio
    n_columns = start_columns(settings, board.catalogue.n_items)
    items, counts = _learnt(board)
    whole = unpack_symmetric(released.array(request.name), rank=n_columns + 1)[0]
    columns = np.asarray(board.arrays["item_factors"], dtype=np.float64)[items]
    used = np.flatnonzero(np.any(columns != 0, axis=0))
    columns = columns[:, used]
    diagonal = max(float(whole[-1, -1]), 0.0) / CONSTANT**2 * counts / counts.sum()
    found = started(
        whole[np.ix_(used, used)] - (columns * diagonal[:, None]).T @ columns, stddev, rank=settings.rank
    )
    popularity = counts / np.linalg.norm(counts)
    axes = np.column_stack([popularity, columns @ found.axes]) * gauge(found.values, settings.gauge_exponent)
    worth = board.catalogue.features is not None or found.above > 0
    factors = np.zeros((board.catalogue.n_items, settings.width), dtype=np.float32)
    if worth:
        factors[items, : axes.shape[1]] = axes
    return board.successor(item_factors=factors, personal=np.array([worth], dtype=np.uint8))


def after_directions(board: Board, released: ReleasedSums, request: Request, settings: TopKConfig) -> Board:
    """Denoised directions, and the public kernels beside them."""
    stddev = real_stddev(request) * released.noise_ratio
    items, counts = _learnt(board)
    sums = released.array(request.name)[items]
    measured = np.asarray(board.arrays["item_factors"], dtype=np.float64)[items]
    scale = np.linalg.norm(measured, axis=0)
    used = np.flatnonzero(scale > 0)
    diagonal = _credible_diagonal(sums[:, settings.width], counts, stddev) / OWN_SHARE
    columns = (sums[:, : settings.width] - diagonal[:, None] * measured)[:, used]
    basis = public_basis(board.catalogue.features, counts, items, settings)
    found = denoised(columns, scale[used], basis.blocks, counts, stddev=stddev)
    kernels = public_kernels(board.catalogue, items, _root_own(board), rank=settings.kernel_rank)
    factors = np.zeros((board.catalogue.n_items, model_width(settings, board)), dtype=np.float32)
    factors[items, : found.values.size] = found.axes
    arrays = _no_directions(settings, board)
    arrays["direction_values"][: found.values.size] = found.values
    arrays["direction_agreement"][: found.values.size] = found.agreement
    if kernels is not None:
        factors[items, settings.width :] = kernels.columns
        arrays["kernel_forms"] = kernels.forms.astype(np.float32)
    return board.successor(item_factors=factors, **arrays)


def after_energies(board: Board, released: ReleasedSums, request: Request, settings: TopKConfig) -> Board:
    """What devices score by."""
    items, _ = _learnt(board)
    model = np.asarray(board.arrays["item_factors"], dtype=np.float64)[items]
    n = int(np.count_nonzero(board.arrays["direction_values"]))
    noisy = released.array(request.name)[0].copy()
    noisy[0] *= 2.0  # halved on the device
    directions = Directions(
        axes=model[:, :n],
        values=np.asarray(board.arrays["direction_values"])[:n],
        agreement=np.asarray(board.arrays["direction_agreement"])[:n],
    )
    kernels = None
    if "kernel_forms" in board.arrays:
        forms = np.asarray(board.arrays["kernel_forms"], dtype=np.float64)
        kernels = Kernels(columns=model[:, settings.width :], forms=forms)
    scores = scores_of(
        directions,
        kernels,
        np.concatenate([noisy[:n], noisy[settings.width :]]),
        _root_own(board) ** 2,
        stddev=real_stddev(request) * released.noise_ratio,
        diagonal=settings.diagonal,
    )
    return board.successor(**_scored(board, items, scores, settings))


def _scored(board: Board, items: IndexArray, scores: Scores, settings: TopKConfig) -> Mapping[str, AnyArray]:
    n_items, width = board.catalogue.n_items, scores.factors.shape[1]
    factors = np.zeros((n_items, model_width(settings, board)), dtype=np.float32)
    factors[items, :width] = scores.factors
    scale = np.ones(n_items)
    scale[items] = scores.scale
    counts = np.asarray(board.arrays["item_counts"])
    return {
        "item_factors": factors,
        "item_scale": scale,
        "item_biases": (_TIE * counts / counts.max()).astype(np.float32),
    }


def _learnt(board: Board) -> tuple[IndexArray, FloatArray]:
    """Numbers and counts of the learnt items."""
    items = np.flatnonzero(np.asarray(board.arrays["learnt"])).astype(np.int32)
    return items, np.asarray(board.arrays["item_counts"], dtype=np.float64)[items]


def _root_own(board: Board) -> FloatArray:
    """sqrt(n p) of the learnt items: n users' worth of diagonal, shared by count."""
    _, counts = _learnt(board)
    root: FloatArray = np.sqrt(counts / counts.sum() * float(board.arrays["population"][0]))
    return root


def _positive(noisy: FloatArray, stddev: float) -> FloatArray:
    """Counts as positive numbers, however noisy."""
    return np.maximum(noisy, max(_LEAST_OF_NOISE * stddev, _LEAST_OF_LARGEST * float(noisy.max())))


def _credible_diagonal(noisy: FloatArray, counts: FloatArray, stddev: float) -> FloatArray:
    """The diagonal, each item's pulled to what its count predicts as far as noise demands."""
    predicted = max(float(noisy @ counts) / float(counts @ counts), 0.0) * counts
    believed = (_CREDIBLE * predicted) ** 2
    pulled: FloatArray = predicted + believed / (believed + stddev**2) * (noisy - predicted)
    return pulled


def _no_directions(settings: TopKConfig, board: Board) -> dict[str, AnyArray]:
    none: dict[str, AnyArray] = {
        "direction_values": np.zeros(settings.width),
        "direction_agreement": np.zeros(settings.width),
    }
    if board.catalogue.features is not None:
        none["kernel_forms"] = np.zeros(
            (KERNELS, settings.kernel_rank, settings.kernel_rank), dtype=np.float32
        )
    return none
