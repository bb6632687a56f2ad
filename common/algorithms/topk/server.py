"""The server's part of top-k lists, round by round: from noised sums to the next board.

Everything here is post-processing of releases and of what is public, the decision whether more than popularity is
learnt included.

Counting on: what the rounds that are left do where nothing but popularity can be learnt.

What is asked, and so the ledger and the course of a run, is the same whatever was released. So devices put counts
into the sums that the plan has, z the row of counts of a user among the items that still matter, of norm 1:

* start: v v^T with v = (z among the items that lead so far, 1) / sqrt 2, of norm 1; beside the last coordinate
  stands z / 2, with noise that is smaller by sqrt 2 than on the diagonal: half the precision of counts alone;
* directions: z v^T with v = (0, ..., 0, 1): a release of z, whole, among the items that may yet lead;
* energies: z among the items that lead by then, as many as there are energies, at the bound.

A list shows few items. The fewer are still counted, the fewer share a person's norm, and the more each of hers
counts: later rounds tell leading items apart better than the same budget spent on all items at once.
"""

from collections.abc import Mapping

import numpy as np

from fedboard.common.algorithms.shared.preparation import answer, head_of
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.algorithms.topk import device
from fedboard.common.algorithms.topk.basis import (
    Counts,
    Directions,
    arrays_of,
    contenders,
    corrected,
    counts_of,
    denoised,
    first,
    gauge,
    joined,
    public_basis,
    started,
)
from fedboard.common.algorithms.topk.kernels import Kernels, Scores, public_kernels, scores_of
from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.board import AnyArray, Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.clipping import (
    RESPONSE_BOUND,
    VECTOR_BOUND,
    clip_vectors,
    quantise_weights,
)
from fedboard.common.kernels.packed import unpack_symmetric
from fedboard.common.task import ReleasedSums


def leaders(noisy: FloatArray, settings: device.TopKConfig) -> AnyArray:
    """The columns of the start: one for each item that leads so far; float32, shape (n_items, width)."""
    width = device.start_columns(settings, noisy.size)
    columns = np.zeros((noisy.size, width), dtype=np.float32)
    columns[first(noisy, width), np.arange(width)] = 1.0
    return columns


def recounted(cohort: Cohort, board: Board, stage: device.Stage, settings: device.TopKConfig) -> Contribution:
    """Counts in the form of a round's sums. Private."""
    none = np.zeros(cohort.n_users + 1, dtype=np.int64)
    match stage:
        case device.Stage.START:
            columns = np.asarray(board.arrays["item_factors"])
            own = cohort.where(np.any(columns != 0, axis=1)[cohort.items])
            given = np.column_stack(
                [device.times(own, device.unit_rows(own), columns), own.counts > 0]
            ) / np.sqrt(2.0)
            vectors = clip_vectors(given, 1.0)
            return Contribution(n_items=cohort.n_items, indptr=none, items=cohort.items[:0], vectors=vectors)
        case device.Stage.ENERGIES:
            width = device.energies_width(settings)
            places = first(np.asarray(board.arrays["item_counts"]), width)
            columns = np.zeros((cohort.n_items, width))
            columns[places, np.arange(places.size)] = settings.energy_bound
            own = cohort.where(np.isin(cohort.items, places))
            rows = device.bounded(device.times(own, device.unit_rows(own), columns), settings.energy_bound)
            totals = {str(stage): rows}
            return Contribution(n_items=cohort.n_items, indptr=none, items=cohort.items[:0], totals=totals)
        case _:
            return _counted_whole(cohort, board, settings)


def _counted_whole(cohort: Cohort, board: Board, settings: device.TopKConfig) -> Contribution:
    learnt = np.asarray(board.arrays["learnt"])[cohort.items] != 0
    weights = np.zeros(cohort.n_ratings)
    weights[learnt] = device.unit_rows(device.learnt_part(cohort, board))
    last = np.zeros((cohort.n_users, settings.width + 2), dtype=np.int16)
    last[:, -1] = VECTOR_BOUND
    return answer(
        cohort,
        weights=quantise_weights(weights),
        responses=np.full(cohort.n_ratings, RESPONSE_BOUND, dtype=np.int16),
        vectors=last,
    )


def counts_so_far(
    board: Board, released: ReleasedSums, request: Request, stage: device.Stage, settings: device.TopKConfig
) -> Counts:
    """The counts after a round that counted on."""
    n_items = board.catalogue.n_items
    stddev = real_stddev(request) * released.noise_ratio
    again, counted = np.zeros(n_items), np.zeros(n_items, dtype=np.bool_)
    sums = released.array(request.name)
    if stage is device.Stage.START:
        columns = np.asarray(board.arrays["item_factors"])
        items, places = np.nonzero(columns)
        again[items] = 2.0 * unpack_symmetric(sums, rank=columns.shape[1] + 1)[0][places, -1]
        counted[items] = True
        stddev *= np.sqrt(2.0)
    elif stage is device.Stage.DIRECTIONS:
        counted = np.asarray(board.arrays["learnt"]) != 0
        again[counted] = sums[counted, settings.width + 1]
    else:
        leading = first(np.asarray(board.arrays["item_counts"]), device.energies_width(settings))
        again[leading] = sums[0, : leading.size] / settings.energy_bound
        counted[leading] = True
        stddev /= settings.energy_bound
    return joined(counts_of(board), again, counted, stddev)


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


def model_width(settings: device.TopKConfig, board: Board) -> int:
    """Columns of the items on the last boards: directions, and kernels where the catalogue has features."""
    return settings.width + (settings.kernel_rank if board.catalogue.features is not None else 0)


def after_counts(
    board: Board, released: ReleasedSums, request: Request, settings: device.TopKConfig
) -> Board:
    """Which items are learnt, how popular they are, and along which columns the start is measured.

    More than popularity is learnt where the counts hold more of it than of noise: where ``sum c^2 - m s^2``, what
    their squares are above noise, exceeds the noise that the learnt items' counts have.
    """
    noisy = released.array(str(device.Stage.COUNTS))[:, 0]
    stddev = real_stddev(request) * released.noise_ratio
    population = max(float(released.array("users")[0, 0]), 1.0)
    learnt = head_of(noisy, device.head_size(settings, noisy.size) / noisy.size)
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


def useful_columns(
    population: float, noise_ratio: float, settings: device.TopKConfig, *, n_items: int
) -> int:
    """How many columns the start is measured along: noise raises eigenvalues with their root.

    So many that a direction along which people have a usual share of their items would just be seen.
    """
    (request,) = device.of_stage(device.Stage.START, settings, n_items=n_items)
    seen = _USUAL_SHARE * population / (real_stddev(request) * noise_ratio)
    return int(np.clip(seen**2 / 2.0, _FEWEST_COLUMNS, settings.start_width))


def after_recount(
    board: Board, released: ReleasedSums, request: Request, stage: device.Stage, settings: device.TopKConfig
) -> Board:
    """Counts from all rounds so far; on the last board they order every list."""
    counts = counts_so_far(board, released, request, stage, settings)
    n_items = board.catalogue.n_items
    known = arrays_of(counts)
    width = settings.width if stage is device.Stage.START else model_width(settings, board)
    biases = (counts[0] / known["item_counts"].max()).astype(np.float32)
    return board.successor(
        **known,
        learnt=contenders(counts),
        item_factors=np.zeros((n_items, width), dtype=np.float32),
        **_no_directions(settings, board) if stage is device.Stage.DIRECTIONS else {},
        **{"item_scale": np.ones(n_items), "item_biases": biases} if stage is device.Stage.ENERGIES else {},
    )


def after_start(board: Board, released: ReleasedSums, request: Request, settings: device.TopKConfig) -> Board:
    """Directions to measure next, in their gauge: popularity, and what rises from the start.

    Without features nothing but its size tells a direction from noise: where none is clearly above the largest
    eigenvalue that noise would give, the directions count.
    """
    stddev = real_stddev(request) * released.noise_ratio
    n_items = board.catalogue.n_items
    items, _ = _learnt(board)
    whole = unpack_symmetric(released.array(request.name), rank=device.start_columns(settings, n_items) + 1)[
        0
    ]
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
    diagonal = max(last, 0.0) / device.CONSTANT**2 * own / own.sum()
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


def after_directions(
    board: Board, released: ReleasedSums, request: Request, settings: device.TopKConfig
) -> Board:
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
    diagonal = _credible_diagonal(sums[:, settings.width], counts, stddev) / device.OWN_SHARE
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


def after_energies(
    board: Board, released: ReleasedSums, request: Request, settings: device.TopKConfig
) -> Board:
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
        np.concatenate([noisy[:n], noisy[settings.width : settings.width + device.KERNELS]]),
        _root_of(counts, board) ** 2,
        stddev=real_stddev(request) * released.noise_ratio,
        diagonal=settings.diagonal,
    )
    return board.successor(**_scored(board, items, scores, settings))


def _scored(
    board: Board, items: IndexArray, scores: Scores, settings: device.TopKConfig
) -> Mapping[str, AnyArray]:
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
    return predicted + believed / (believed + stddev**2) * (noisy - predicted)


def _no_directions(settings: device.TopKConfig, board: Board) -> dict[str, AnyArray]:
    none: dict[str, AnyArray] = {
        "direction_values": np.zeros(settings.width),
        "direction_agreement": np.zeros(settings.width),
    }
    if board.catalogue.features is not None:
        none["kernel_forms"] = np.zeros(
            (device.KERNELS, settings.kernel_rank, settings.kernel_rank), dtype=np.float32
        )
    return none
