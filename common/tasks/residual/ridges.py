"""How much a device should trust the factors: the ridge on v_j, chosen by what it does for ratings not yet seen.

No ridge is right everywhere: with few ratings a user a weak one makes own models learn their own noise, with many
a strong one throws the factors away. So every user tells, for each candidate, how much better than without factors
her ratings are predicted when each is left out in turn; the sums are released, and the best candidate is used from
then on. Where none is better than nothing, the factors are dropped, and what follows improves the biases alone.

One user's row is ``sqrt(n_j) (mean squared error with a candidate - that without factors)``, in squared deviations
of a rating, scaled to norm at most 1: that is the sensitivity.
"""

from typing import Any

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.tasks.residual.config import ResidualConfig, StageKind, stage_of
from fedboard.common.tasks.shared.rating_level import spread_of
from fedboard.common.tasks.shared.ratings_config import RatingsConfig
from fedboard.common.tasks.shared.releases import calibrated_request

RIDGES = np.array([1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0])
"""The candidates, squared deviations of a rating."""
ROW_ONE = 1 << 20
"""1 in a user's row, grid units."""
_OLDER = 0.6
"""What the evidence of the round before counts in the next."""
_INSIDE = 1.0 - 1e-6


def release_name(t: int) -> str:
    """Of alternation t."""
    return f"round-{t}/ridges"


def evidence_request(shared: RatingsConfig, t: int) -> Request:
    """What alternation t asks of each user about the candidates."""
    return calibrated_request(
        shared,
        SumSource.TOTAL,
        release_name(t),
        width=RIDGES.size,
        grid_step=1.0 / ROW_ONE,
        l2_bound=ROW_ONE,
        same_sign=False,
        covers="how much worse than without factors each candidate ridge predicts a user's ratings, norm at most 1",
    )


def evidence_rows(
    cohort: Cohort,
    targets: Float32Array,
    factors: Float32Array,
    *,
    spread: float,
    exponent: float,
    bias_ridge: float,
    backend: str,
) -> IntArray:
    """Each user's part in the evidence; int64, shape (n_users, 7), norm of a row <= ``ROW_ONE``. Private.

    Args:
        cohort: the users. Private.
        targets: ratings less mean and item biases: float32, shape (n_ratings,). Private.
        factors: float32, shape (n_items, rank).
        spread: deviation of a rating, stars.
        exponent: ridges grow with a user's number of ratings to this power.
        bias_ridge: strength of the ridge on her own bias.
        backend: which kernels compute.
    """
    if not factors.any():  # every candidate is what no factors are
        return np.zeros((cohort.n_users, RIDGES.size), dtype=np.int64)
    own = np.maximum(cohort.counts, 1).astype(np.float64)
    gains = kernels.left_out_errors(
        cohort.indptr,
        cohort.items,
        targets,
        factors,
        ridges=RIDGES * spread**2,
        growth=own**exponent,
        bias_ridge=bias_ridge,
        backend=backend,
    )
    gains *= (np.sqrt(own) / spread**2)[:, None]
    # Absurd factors round a leverage to 1: nothing is known then, and an error would tell who rated such an item.
    gains[~np.isfinite(gains).all(axis=1)] = 0.0
    norms = np.linalg.norm(gains, axis=1, keepdims=True)
    gains *= _INSIDE * ROW_ONE / np.maximum(norms, 1.0)
    return np.trunc(gains).astype(np.int64)


def weighed_evidence(before: FloatArray | None, released: FloatArray, stddev: float) -> FloatArray:
    """Evidence so far: rounds weighted by their precision, older ones less; float64, shape (7,).

    Args:
        before: the same after the round before; None in the first.
        released: sums over users, float64, shape (7,).
        stddev: of the noise in each.
    """
    new: FloatArray = released / max(stddev, 1e-12) ** 2
    return new if before is None else _OLDER * before + new


def chosen_ridge(evidence: FloatArray) -> float | None:
    """The best candidate, in squared deviations of a rating; None where no factors are better than any."""
    best = int(np.argmin(evidence))
    return float(RIDGES[best]) if evidence[best] < 0.0 else None


def user_ridge(board: Board, settings: ResidualConfig) -> float:
    """lambda_v with this board, squared stars: as evidence says, or as configured where there is none."""
    done = stage_of(board.version, settings).kind is StageKind.DONE
    if done and settings.final_user_ridge is not None:
        return settings.final_user_ridge * _unit(board, settings)
    if settings.has_biases and "user_ridge" in board.arrays:  # whose rule binds boards of ratings alone
        return float(board.arrays["user_ridge"][0])
    return settings.user_ridge * _unit(board, settings)


def unit_of(board: Board, settings: ResidualConfig) -> float:
    """The unit of residuals in contributions: the released deviation of a rating, stars; 1 for presence.

    Devices divide by it, so that what a round asks does not depend on what was released.
    """
    return spread_of(board) if settings.has_biases else 1.0


def _unit(board: Board, settings: ResidualConfig) -> float:
    """Of a ridge: that of residuals squared; 1 where none is released yet."""
    return unit_of(board, settings) ** 2 if "spread" in board.arrays else 1.0


def after_evidence(
    board: Board, released: FloatArray, stddev: float, settings: ResidualConfig
) -> tuple[dict[str, Any], bool]:
    """Board arrays that follow from the evidence of a round, and whether factors are worth anything.

    Args:
        board: of before the round.
        released: sums over users, float64, shape (7,).
        stddev: of the noise in each.
        settings: public.
    """
    evidence = weighed_evidence(board.arrays.get("ridge_evidence"), released, stddev)
    chosen = chosen_ridge(evidence)
    ridge = user_ridge(board, settings) if chosen is None else chosen * _unit(board, settings)
    return {"ridge_evidence": evidence, "user_ridge": np.array([ridge])}, chosen is not None
