"""Public configuration of the shared representation, how its budget is shared, and the losses of a linear score."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import ReleaseShares
from fedboard.common.arrays import FloatArray
from fedboard.common.checks import Positive, Share, require, require_ranges, whole
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.adjacency import Adjacency


class LossName(StrEnum):
    """The known losses."""

    SQUARED = "squared"
    """``(s - y)^2 / 2``."""
    LOGISTIC = "logistic"
    """``log(1 + e^s) - y s`` for labels 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One loss l(s, y) of scores and labels, elementwise."""

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
        residual=lambda s, y: y - s,
        curvature=np.ones_like,
        predict=lambda s: s,
        centred=lambda y: y,
        newton_steps=1,
    ),
    LossName.LOGISTIC: Loss(
        residual=lambda s, y: y - _logistic(s),
        curvature=lambda s: _logistic(s) * _logistic(-s),
        predict=_logistic,
        centred=lambda y: 2.0 * y - 1.0,
        newton_steps=25,
    ),
}


INITIALISATION = "initialisation"
"""Name of the first release."""


class AlternationTarget(StrEnum):
    """What users correlate with their features in an alternation."""

    RESIDUAL = "residual"
    """What the present model leaves unexplained: the sum is a step to add, and small once the board is good."""
    RESPONSE = "response"
    """The label itself, as in Alg. 2: the sum gives the representation anew. Squared loss only."""


class Pairs(StrEnum):
    """Which pairs of a user's examples start the representation."""

    ALL = "all"
    """Every two different ones."""
    DISJOINT = "disjoint"
    """First and second, third and fourth, ..., as in Alg. 3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisedSettings:
    """What every algorithm has whose users send rows of norm 1. Public."""

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise_multipliers: Mapping[str, float] = field(default_factory=dict)
    """Release name -> z; from ``calibrated``."""

    def __post_init__(self) -> None:
        """Check the range of every number.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        require_ranges(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalSettings(NoisedSettings):
    """What algorithms have that learn a representation and keep each user's vector on it at home. Public."""

    rank: Annotated[int, whole()] = 2
    """k: length of the personal vectors v_j."""
    loss: LossName = LossName.SQUARED
    response_bound: Positive | None = None
    """zeta: labels are clipped to ``[-zeta, zeta]`` in the start and where they are the answer; None: no bound."""
    vector_bound: Positive | None = None
    """R: personal vectors are shortened to this norm for what is sent; None for no bound."""
    user_ridge: Positive = 1e-3
    """Strength of the ridge on v_j."""
    pairs: Pairs = Pairs.ALL
    """Which pairs of a user's examples start the representation."""
    split_examples: bool = False
    """Whether v_j is fitted on the first half of a user's examples and the rest answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepresentationConfig(PersonalSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    answer: AlternationTarget = AlternationTarget.RESIDUAL
    step_bounds: tuple[float, ...] = (0.05, 0.01, 0.003)
    """rho of each alternation; their number is that of the rounds T. A user is scaled down where
    ``|b_j| > rho |W_j|``, as if her own step were longer than rho. A representation has columns of norm 1, so rho
    has no unit."""
    cohorts: int = 1
    """1: everybody answers in every alternation. T: alternation t asks the users whose public number is
    ``t - 1 mod T``, so that each answers once (beside the start)."""
    clip_norm: Positive = 1e-4
    """Norm in the units of the data up to which a user is not scaled; tiny, so that all weigh alike."""
    example_bound: Positive | None = None
    """eta: an example whose ``|x| |v_j|`` exceeds it is scaled down; None for no bound of its own, since the user's
    total is bounded anyhow."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        super(RepresentationConfig, self).__post_init__()
        bounds = self.step_bounds
        require(bool(bounds) and all(map(_positive, bounds)), "step_bounds", "numbers > 0", bounds)
        require(self.cohorts in (1, len(bounds)), "cohorts", f"1 or {len(bounds)}, the rounds", self.cohorts)
        logistic = self.loss is LossName.LOGISTIC and self.answer is AlternationTarget.RESPONSE
        require(not logistic, "answer", "'residual' for the logistic loss", str(self.answer))

    @property
    def rounds(self) -> int:
        """T, the alternations after the start."""
        return len(self.step_bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepresentationShares(ReleaseShares):
    """How mu^2 is shared; each in (0, 1)."""

    initialisation: Share = 0.3
    """Of the whole, for the start."""
    curvature: Share = 0.3
    """Of an alternation, for W; the rest is for b."""


def calibrated(
    settings: RepresentationConfig,
    *,
    epsilon: float,
    delta: float,
    shares: RepresentationShares | None = None,
) -> RepresentationConfig:
    """The same settings with the noise that keeps each user within (epsilon, delta).

    With cohorts a user is part of the start and of one alternation, so each alternation may cost what all of them
    may cost otherwise.

    Raises:
        PrivacyError: epsilon or delta is out of range.
    """
    answered = settings.rounds if settings.cohorts == 1 else 1
    by_release = _shares_of_one(answered, shares or RepresentationShares())
    multipliers = noise_multipliers(epsilon, delta, by_release)
    for t in range(answered + 1, settings.rounds + 1):
        multipliers[curvature_name(t)] = multipliers[curvature_name(1)]
        multipliers[gradient_name(t)] = multipliers[gradient_name(1)]
    return replace(settings, noise_multipliers=multipliers)


def shares_by_release(settings: RepresentationConfig, shares: RepresentationShares) -> dict[str, float]:
    """Share of mu^2 of each release of a run in which everybody answers in every round; sums to 1."""
    return _shares_of_one(settings.rounds, shares)


def _shares_of_one(answered: int, shares: RepresentationShares) -> dict[str, float]:
    """The same for a user who answers in the start and in so many alternations."""
    each, rounds = (1.0 - shares.initialisation) / answered, range(1, answered + 1)
    return (
        {INITIALISATION: shares.initialisation}
        | {curvature_name(t): each * shares.curvature for t in rounds}
        | {gradient_name(t): each * (1.0 - shares.curvature) for t in rounds}
    )


def curvature_name(t: int) -> str:
    """Name of the release of W in alternation t = 1, 2, ..."""
    return f"round-{t}/curvature"


def gradient_name(t: int) -> str:
    """Name of the release of b in alternation t = 1, 2, ..."""
    return f"round-{t}/gradient"


def _positive(value: float) -> bool:
    return 0 < value < math.inf
