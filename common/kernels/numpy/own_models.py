"""Own models one person at a time, through numpy's solvers."""

from collections.abc import Callable

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray

_Measured = Callable[[float], tuple[float, float]]
"""Ridge of content -> t^T K^-1 t and half the logarithm of det K."""

LEAST = 1e-12
"""Of the scale: less is left of nobody's ratings; and less precision is none."""


def solve_rows(
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
