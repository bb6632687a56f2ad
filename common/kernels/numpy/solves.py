"""Ridge regressions, own models, leave-one-out errors and projected solves through numpy's solvers."""

from collections.abc import Callable
from typing import Final

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.packed import unpack_symmetric

_NUMBERS_AT_ONCE = 1 << 14
"""Of all systems that are solved in one call: they stay in a cache."""


def solve_ridges(
    indptr: IntArray,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridge: Float32Array,
    gram: FloatArray,
    start: int,
    stop: int,
    out: Float32Array,
) -> None:
    """Fill ``out[start:stop]``; arguments as in ``solve_ridge``."""
    rank = factors.shape[1]
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, rank * rank))
    for first in range(start, stop, at_once):
        rows = range(first, min(first + at_once, stop))
        systems, sides = np.empty((len(rows), rank, rank)), np.empty((len(rows), rank, 1))
        for place, row in enumerate(rows):
            entries = slice(indptr[row], indptr[row + 1])
            rated = factors[columns[entries]].astype(np.float64)
            systems[place] = rated.T @ rated
            sides[place, :, 0] = rated.T @ targets[entries].astype(np.float64)
        systems += ridge[rows.start : rows.stop, None, None].astype(np.float64) * np.eye(rank)
        systems += gram
        out[rows.start : rows.stop] = np.linalg.solve(systems, sides)[:, :, 0]


_Measured = Callable[[float], tuple[float, float]]
"""Ridge of content -> t^T K^-1 t and half the logarithm of det K."""

LEAST = 1e-12
"""Of the scale: less is left of nobody's ratings; and less precision is none."""


def solve_own(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    both: Float32Array,
    width: int,
    ridge: Float32Array,
    candidates: FloatArray,
    out: Float32Array,
    chosen: FloatArray,
) -> None:
    """Fill ``out`` and ``chosen``; arguments as in ``solve_own_models``, ``both`` = (vectors, content)."""
    for row in np.flatnonzero(np.diff(indptr)):
        entries = slice(indptr[row], indptr[row + 1])
        rated, wanted = both[items[entries]].astype(np.float64), targets[entries].astype(np.float64)
        own = float(ridge[row])
        chosen[row] = _content_ridge(rated, wanted, width, own, candidates)
        out[row] = _solution(rated, wanted, _penalties(rated, width, own, float(chosen[row])))


def _penalties(rated: FloatArray, width: int, own: float, of_content: float) -> FloatArray:
    return np.where(np.arange(rated.shape[1]) < width, own, of_content)


def _solution(rated: FloatArray, wanted: FloatArray, penalties: FloatArray) -> FloatArray:
    """(Z^T Z + P)^-1 Z^T t = P^-1 Z^T (I + Z P^-1 Z^T)^-1 t, by the smaller of both systems."""
    if rated.shape[0] < rated.shape[1]:
        lighter = rated / penalties
        found = lighter.T @ _solved(np.eye(wanted.size) + lighter @ rated.T, wanted)
    else:
        found = _solved(rated.T @ rated + np.diag(penalties), rated.T @ wanted)
    return np.asarray(found, dtype=np.float64)


def _solved(system: FloatArray, right: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(system, right), dtype=np.float64)
    except np.linalg.LinAlgError:  # singular in this precision: numbers that no honest board has
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0], dtype=np.float64)


def _content_ridge(
    rated: FloatArray, wanted: FloatArray, width: int, own: float, candidates: FloatArray
) -> float:
    """A mean of the candidates and infinity by their evidence; see ``solve_own_models``."""
    by_ratings = rated.shape[0] < rated.shape[1]
    measured = (
        _by_ratings(rated, wanted, width, own) if by_ratings else _by_coordinates(rated, wanted, width, own)
    )
    total = float(wanted @ wanted)
    found = []
    for ridge in (*candidates.tolist(), np.inf):
        try:
            left, half_log_det = measured(ridge)
        except np.linalg.LinAlgError:  # numbers that no honest board has: no evidence, and no failing either
            found.append(-np.inf)
            continue
        found.append(-0.5 * wanted.size * np.log(max(left, LEAST * max(total, LEAST))) - half_log_det)
    if not np.isfinite(max(found)):
        return 1.0 / LEAST
    shares = np.exp(np.array(found) - max(found))
    precision = float(np.sum(shares[:-1] / candidates)) / float(shares.sum())
    return 1.0 / max(precision, LEAST)


def _by_ratings(rated: FloatArray, wanted: FloatArray, width: int, own: float) -> _Measured:
    """From K = I + X X^T / own + Phi Phi^T / ridge, as wide as there are ratings."""
    board = np.eye(wanted.size) + rated[:, :width] @ rated[:, :width].T / own
    content = rated[:, width:] @ rated[:, width:].T

    def measured(ridge: float) -> tuple[float, float]:
        lower = np.linalg.cholesky(board + content / ridge)
        along = np.linalg.solve(lower, wanted)
        return float(along @ along), float(np.log(np.diag(lower)).sum())

    return measured


def _by_coordinates(rated: FloatArray, wanted: FloatArray, width: int, own: float) -> _Measured:
    """From I + Z^T Z, Z = (X / sqrt(own), Phi / sqrt(ridge)), as wide as there are coordinates."""
    gram, moment, total = rated.T @ rated, rated.T @ wanted, float(wanted @ wanted)

    def measured(ridge: float) -> tuple[float, float]:
        roots = 1.0 / np.sqrt(_penalties(rated, width, own, ridge))  # zeros for infinity
        lower = np.linalg.cholesky(np.eye(roots.size) + gram * np.outer(roots, roots))
        along = np.linalg.solve(lower, roots * moment)
        return total - float(along @ along), float(np.log(np.diag(lower)).sum())

    return measured


def errors_of_rows(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridges: FloatArray,
    growth: FloatArray,
    bias_ridge: float,
    most: int,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``left_out_errors``."""
    for row in np.flatnonzero(np.diff(indptr) > 1):
        entries = slice(indptr[row], indptr[row + 1])
        wanted = targets[entries].astype(np.float64)
        rated = np.column_stack([np.ones(wanted.size), factors[items[entries]].astype(np.float64)])
        own = growth[row]
        left_out = slice(0, None, -(-wanted.size // most))
        without = _mean_squares(rated[:, :1], wanted, np.array([[own * bias_ridge]]), left_out)
        pulls = np.repeat((own * ridges)[:, None], rated.shape[1], axis=1)
        pulls[:, 0] = own * bias_ridge
        out[row] = _mean_squares(rated, wanted, pulls, left_out) - without


def _mean_squares(rated: FloatArray, wanted: FloatArray, pulls: FloatArray, left_out: slice) -> FloatArray:
    """One for each row of ``pulls``; not finite where rounding leaves nothing: an error would be no answer."""
    systems = (rated.T @ rated) + pulls[:, None, :] * np.eye(rated.shape[1])
    inverses = _inverses(systems)
    seen = rated[left_out]
    leverages = np.einsum("pa,cab,pb->cp", seen, inverses, seen)
    models = inverses @ (rated.T @ wanted)
    residuals = wanted[left_out] - (seen @ models[:, :, None])[:, :, 0]
    with np.errstate(all="ignore"):
        found: FloatArray = np.mean((residuals / (1.0 - leverages)) ** 2, axis=1)
    return found


def _inverses(systems: FloatArray) -> FloatArray:
    """NaN for those that have none."""
    try:
        found: FloatArray = np.asarray(np.linalg.inv(systems), dtype=np.float64)
    except np.linalg.LinAlgError:
        if len(systems) == 1:
            return np.full_like(systems, np.nan)
        found = np.concatenate([_inverses(system[None]) for system in systems])
    return found


# Entries of the full matrices held at a time: 32 MB.
_ENTRIES_AT_ONCE: Final = 1 << 22


def solve_projected(
    quadratic: FloatArray,
    linear: FloatArray,
    ridge: FloatArray,
    gram: FloatArray | None,
    start: int,
    stop: int,
    out: FloatArray,
) -> None:
    """Fill ``out[start:stop]``; arguments as in ``solve_psd``."""
    rank = linear.shape[1]
    step = max(1, _ENTRIES_AT_ONCE // rank**2)
    for first in range(start, stop, step):
        rows = slice(first, min(first + step, stop))
        full = unpack_symmetric(quadratic[rows], rank=rank)
        values, vectors = np.linalg.eigh(full)
        projected = np.maximum(values, 0.0) + ridge[rows, np.newaxis]
        if gram is None:
            coordinates = np.einsum("kab,ka->kb", vectors, linear[rows]) / projected
            out[rows] = np.einsum("kab,kb->ka", vectors, coordinates)
        else:
            system = np.matmul(vectors * projected[:, np.newaxis, :], vectors.transpose(0, 2, 1)) + gram
            out[rows] = np.linalg.solve(system, linear[rows, :, np.newaxis])[:, :, 0]
