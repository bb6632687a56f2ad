"""Losses of a linear score, each by what a Newton step needs of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fedboard.common.arrays import FloatArray


class LossName(StrEnum):
    """The known losses."""

    SQUARED = "squared"
    """``(s - y)^2 / 2``."""
    LOGISTIC = "logistic"
    """``log(1 + e^s) - y s`` for labels 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One loss l(s, y) of scores and labels, elementwise."""

    value: Callable[[FloatArray, FloatArray], FloatArray]
    """l(s, y)."""
    residual: Callable[[FloatArray, FloatArray], FloatArray]
    """-dl/ds at (s, y)."""
    curvature: Callable[[FloatArray], FloatArray]
    """d^2 l / ds^2 at s."""
    predict: Callable[[FloatArray], FloatArray]
    """The expected label at score s."""
    centred: Callable[[FloatArray], FloatArray]
    """Labels on a scale around 0, whose correlation with the features points along the user's model."""
    newton_steps: int
    """Steps that reach the minimum; 1 where the loss is quadratic."""


def _logistic(s: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        found: FloatArray = 1.0 / (1.0 + np.exp(-s))
    return found


LOSSES = {
    LossName.SQUARED: Loss(
        value=lambda s, y: 0.5 * (s - y) ** 2,
        residual=lambda s, y: y - s,
        curvature=np.ones_like,
        predict=lambda s: s,
        centred=lambda y: y,
        newton_steps=1,
    ),
    LossName.LOGISTIC: Loss(
        value=lambda s, y: np.logaddexp(0.0, s) - y * s,
        residual=lambda s, y: y - _logistic(s),
        curvature=lambda s: _logistic(s) * _logistic(-s),
        predict=_logistic,
        centred=lambda y: 2.0 * y - 1.0,
        newton_steps=25,
    ),
}
