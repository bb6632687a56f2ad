"""The privacy loss distribution of one Gaussian that each user takes part in by a coin.

What dp-accounting's ``from_gaussian_mechanism`` gives, bit for bit, an array at a time: the library asks for each
of some hundred thousand cells by itself.
"""

import math
from typing import Any

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.errors import FedboardError


def gaussian_losses(library: Any, *, mu: float, probability: float, width: float) -> Any:
    """Add or remove one user, rounded up to cells by connecting dots: never below the exact curve.

    Args:
        library: ``dp_accounting``.
        mu: one over the noise multiplier, > 0. Public.
        probability: that a user takes part, in (0, 1]. Public.
        width: of a cell, > 0. Public.

    Returns:
        A ``PrivacyLossDistribution`` of the library.

    Raises:
        FedboardError: the numbers are so extreme that a part of the curve cannot be computed.

    Reference: Doroshenko et al. (2022), arXiv:2207.04380; the library's supplement on subsampling.
    """
    kinds = library.pld.privacy_loss_mechanism.AdjacencyType
    sides = (kinds.REMOVE,) if probability == 1.0 else (kinds.REMOVE, kinds.ADD)
    masses = [_masses(library, side, mu=mu, probability=probability, width=width) for side in sides]
    return library.pld.privacy_loss_distribution.PrivacyLossDistribution(*masses)


def _masses(library: Any, side: Any, *, mu: float, probability: float, width: float) -> Any:
    """Of the losses where a user is removed, or added."""
    stddev, pld = 1.0 / mu, library.pld
    loss = pld.privacy_loss_mechanism.GaussianPrivacyLoss(
        stddev, sampling_prob=probability, adjacency_type=side
    )
    bounds = loss.connect_dots_bounds()
    first, last = math.floor(bounds.epsilon_lower / width), math.ceil(bounds.epsilon_upper / width)
    epsilons = np.arange(first, last + 1) * width
    removed = side == pld.privacy_loss_mechanism.AdjacencyType.REMOVE
    inside, deltas = _ends(epsilons, probability, removed=removed)
    at = epsilons[inside]
    cut = _where_the_loss_is(at, stddev, probability, removed=removed)
    deltas[inside] = loss.mu_upper_cdf(cut) - np.exp(at + loss.mu_lower_log_cdf(cut))
    if np.isnan(deltas).any():  # the library would take them for numbers
        raise FedboardError(
            f"the losses of noise multiplier {stddev:g} with probability {probability:g} cannot be computed; "
            "change one of them a little"
        )
    return pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        width, first, last, np.clip(deltas, 0.0, 1.0)
    )


def _ends(epsilons: FloatArray, probability: float, *, removed: bool) -> tuple[BoolArray, FloatArray]:
    """Which epsilons some output has as its loss, and delta at the others: there no output has, or each has more.

    The loss where a user's coin came up tails is ``log(1 - probability)``; where she is removed, none is smaller.
    """
    deltas = np.zeros_like(epsilons)
    if probability == 1.0:
        return np.ones(epsilons.shape, dtype=np.bool_), deltas
    least = math.log1p(-probability)
    if not removed:
        return epsilons < -least, deltas
    inside = epsilons > least
    deltas[~inside] = -np.expm1(epsilons[~inside])
    return inside, deltas


def _where_the_loss_is(
    epsilons: FloatArray, stddev: float, probability: float, *, removed: bool
) -> FloatArray:
    """The output at which the loss, which falls, is epsilon; float64, shape of ``epsilons``.

    With x = epsilon where a user is removed and -epsilon where one is added, the loss of a user who certainly takes
    part would be ``log((exp(x) - 1) / probability + 1)`` there, of that sign.
    """
    sign = 1.0 if removed else -1.0
    whole = epsilons if probability == 1.0 else sign * _certain(sign * epsilons, probability)
    cut = -0.5 - whole * stddev**2
    return cut if removed else 1 + cut


def _certain(epsilons: FloatArray, probability: float) -> FloatArray:
    """``log(exp(x) / probability + 1 - 1 / probability)``, and minus infinity where that is the log of nothing."""
    least = math.log(1 - probability)
    scaled = epsilons + np.log(1 / probability)
    taken = np.log(-(1 - 1 / probability))
    nothing = np.abs(epsilons - least) <= 1e-9 * np.maximum(np.abs(epsilons), abs(least))
    with np.errstate(divide="ignore", invalid="ignore"):
        certain = scaled + np.log1p(-np.exp(taken - scaled))
    certain[epsilons == 0] = np.log(1 / probability + (1 - 1 / probability))
    certain[nothing] = -np.inf
    return np.asarray(certain, dtype=np.float64)
