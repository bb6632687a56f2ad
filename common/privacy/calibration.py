"""Calibration: how a budget and its division into shares become noise multipliers."""

import math
from collections.abc import Mapping
from typing import TypeAlias

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting import mu_for

Shares: TypeAlias = Mapping[str, float]
"""Release name -> share of mu^2; each > 0, together at most 1. Public."""

_SLACK = 1e-9


def noise_multipliers(epsilon: float, delta: float, shares: Shares) -> dict[str, float]:
    """Noise multiplier of each release, so that all together stay within (epsilon, delta).

    ``z_k = 1 / (mu sqrt(share_k))`` with mu the largest that the budget allows; ``sum 1 / z_k^2 <= mu^2``.

    Args:
        epsilon: > 0. Public.
        delta: in (0, 1). Public.
        shares: of mu^2. A sum above 1 by rounding (1e-9) is scaled back to 1.

    Returns:
        Release name -> z, relative to the sensitivity of that release under its own adjacency.

    Raises:
        PrivacyError: a share is not a number > 0, or they add to more than 1.
    """
    if not 0 < epsilon < math.inf:
        raise PrivacyError(f"epsilon must be a finite number > 0, got {epsilon}")
    for name, share in shares.items():
        if not 0 < share < math.inf:
            raise PrivacyError(f"the share of release {name!r} must be > 0, got {share}")
    total = math.fsum(shares.values())
    if total > 1 + _SLACK:
        raise PrivacyError(f"the shares must add to at most 1, got {total}")
    mu = mu_for(epsilon, delta)
    return {name: math.sqrt(max(total, 1.0) / share) / mu for name, share in shares.items()}


__all__ = ["Shares", "noise_multipliers"]
