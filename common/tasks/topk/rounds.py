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
from fedboard.common.tasks.topk.popularity import arrays_of, contenders, corrected, counts_of, joined
from fedboard.common.tasks.topk.recounting import counts_so_far, leaders
from fedboard.common.tasks.topk.releases import KERNELS, of_stage, start_columns
from fedboard.common.tasks.topk.scoring import Scores, scores_of
from fedboard.common.tasks.topk.spectra import Directions, denoised, gauge, started

_USUAL_SHARE = 0.05
"""Of her second moments a person has so much along a direction that is worth finding."""
_FEWEST_COLUMNS = 64
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
    population = max(float(released.array("users")[0, 0]), 1.0)
    learnt = head_of(noisy, head_size(settings, noisy.size) / noisy.size)
    above = float(np.sum(noisy**2)) - noisy.size * stddev**2
    worth = above > stddev**2 * int(learnt.sum())
    known = arrays_of((noisy.copy(), np.full(noisy.size, stddev**2)))
    factors = leaders(noisy, settings)
    if worth:
        factors[:] = 0.0
        items = np.flatnonzero(learnt).astype(np.int32)
        number = useful_columns(population, released.noise_ratio, settings, n_items=noisy.size)
        basis = public_basis(
            board.catalogue.features, known["item_counts"][items], items, settings, most=number
        )
        factors[items, : basis.columns.shape[1]] = basis.columns
    return board.successor(
        **known,
        item_weights=np.ones(noisy.size),
        learnt=learnt,
        population=np.array([population]),
        personal=np.array([worth], dtype=np.uint8),
        item_factors=factors,
    )


def useful_columns(population: float, noise_ratio: float, settings: TopKConfig, *, n_items: int) -> int:
    """How many columns the start is measured along: noise raises eigenvalues with their root.

    So many that a direction along which people have a usual share of their items would just be seen.
    """
    (request,) = of_stage(Stage.START, settings, n_items=n_items)
    seen = _USUAL_SHARE * population / (real_stddev(request) * noise_ratio)
    return int(np.clip(seen**2 / 2.0, _FEWEST_COLUMNS, settings.start_width))


def after_recount(
    board: Board, released: ReleasedSums, request: Request, stage: Stage, settings: TopKConfig
) -> Board:
    """Counts from all rounds so far; on the last board they order every list."""
    counts = counts_so_far(board, released, request, stage, settings)
    n_items = board.catalogue.n_items
    known = arrays_of(counts)
    width = settings.width if stage is Stage.START else model_width(settings, board)
    biases = (counts[0] / known["item_counts"].max()).astype(np.float32)
    return board.successor(
        **known,
        learnt=contenders(counts),
        item_factors=np.zeros((n_items, width), dtype=np.float32),
        **_no_directions(settings, board) if stage is Stage.DIRECTIONS else {},
        **{"item_scale": np.ones(n_items), "item_biases": biases} if stage is Stage.ENERGIES else {},
    )


def after_start(board: Board, released: ReleasedSums, request: Request, settings: TopKConfig) -> Board:
    """Directions to measure next, in their gauge: popularity, and what rises from the start.

    Without features nothing but its size tells a direction from noise: where none is clearly above the largest
    eigenvalue that noise would give, the directions count.
    """
    stddev = real_stddev(request) * released.noise_ratio
    n_items = board.catalogue.n_items
    items, _ = _learnt(board)
    whole = unpack_symmetric(released.array(request.name), rank=start_columns(settings, n_items) + 1)[0]
    columns = np.asarray(board.arrays["item_factors"], dtype=np.float64)[items]
    used = np.flatnonzero(np.any(columns != 0, axis=0))
    columns, last = columns[:, used], float(whole[-1, -1])
    counts = corrected(
        counts_of(board),
        items,
        columns,
        whole[used, -1],
        last=last,
        population=float(board.arrays["population"][0]),
        stddev=stddev,
    )
    known = arrays_of(counts)
    own = known["item_counts"][items]
    diagonal = max(last, 0.0) / CONSTANT**2 * own / own.sum()
    popularity = own / np.linalg.norm(own)
    found = started(
        whole[np.ix_(used, used)] - (columns * diagonal[:, None]).T @ columns,
        stddev,
        rank=settings.rank,
        known=columns.T @ popularity,
    )
    worth = board.catalogue.features is not None or found.above > 0
    factors = np.zeros((n_items, settings.width), dtype=np.float32)
    if worth:
        axes = np.column_stack([popularity, columns @ found.axes])
        factors[items, : axes.shape[1]] = axes * gauge(found.values, settings.gauge_exponent)
    return board.successor(
        **known,
        item_factors=factors,
        personal=np.array([worth], dtype=np.uint8),
        learnt=board.arrays["learnt"] if worth else contenders(counts),
    )


def after_directions(board: Board, released: ReleasedSums, request: Request, settings: TopKConfig) -> Board:
    """Denoised directions, the public kernels beside them, and the counts after what counted on."""
    share = settings.count_share
    stddev = real_stddev(request) * released.noise_ratio / np.sqrt(1.0 - share)
    items, _ = _learnt(board)
    sums = released.array(request.name)[items]
    again, learnt = np.zeros(board.catalogue.n_items), np.asarray(board.arrays["learnt"]) != 0
    again[items] = sums[:, -1] / np.sqrt(share)
    known = arrays_of(joined(counts_of(board), again, learnt, stddev * np.sqrt((1.0 - share) / share)))
    counts = known["item_counts"][items]
    sums = sums / np.sqrt(1.0 - share)
    measured = np.asarray(board.arrays["item_factors"], dtype=np.float64)[items]
    scale = np.linalg.norm(measured, axis=0)
    used = np.flatnonzero(scale > 0)
    diagonal = _credible_diagonal(sums[:, settings.width], counts, stddev) / OWN_SHARE
    columns = (sums[:, : settings.width] - diagonal[:, None] * measured)[:, used]
    basis = public_basis(board.catalogue.features, counts, items, settings, most=settings.start_width)
    found = denoised(columns, scale[used], basis.blocks, counts, stddev=stddev)
    root = _root_of(counts, board)
    kernels = public_kernels(board.catalogue, items, root, rank=settings.kernel_rank)
    factors = np.zeros((board.catalogue.n_items, model_width(settings, board)), dtype=np.float32)
    factors[items, : found.values.size] = found.axes
    arrays = _no_directions(settings, board)
    arrays["direction_values"][: found.values.size] = found.values
    arrays["direction_agreement"][: found.values.size] = found.agreement
    if kernels is not None:
        factors[items, settings.width :] = kernels.columns
        arrays["kernel_forms"] = kernels.forms.astype(np.float32)
    return board.successor(**known, item_factors=factors, **arrays)


def after_energies(board: Board, released: ReleasedSums, request: Request, settings: TopKConfig) -> Board:
    """What devices score by."""
    items, counts = _learnt(board)
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
        np.concatenate([noisy[:n], noisy[settings.width : settings.width + KERNELS]]),
        _root_of(counts, board) ** 2,
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


def _root_of(counts: FloatArray, board: Board) -> FloatArray:
    """sqrt(n p) of the learnt items: n users' worth of diagonal, shared by count."""
    root: FloatArray = np.sqrt(counts / counts.sum() * float(board.arrays["population"][0]))
    return root


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
