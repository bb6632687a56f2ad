"""Conversions: what the same Gaussian releases are worth when they are stated through zCDP or Renyi orders."""

import math
from collections.abc import Callable

from fedboard.common.errors import OutOfRangeError
from fedboard.common.privacy.accounting.exact import require_delta, require_epsilon


def epsilon_through_zcdp(delta: float, *, rho: float) -> float:
    """Epsilon that rho-zCDP implies: ``rho + 2 sqrt(rho log(1 / delta))``.

    The same as Mironov's conversion of Renyi orders, minimised over all of them.

    Args:
        delta: in (0, 1). Public.
        rho: >= 0. Public.

    Reference: Bun and Steinke (2016), arXiv:1605.02065, proposition 1.3.
    """
    _require(delta, rho)
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def epsilon_through_renyi(delta: float, *, rho: float) -> float:
    """Epsilon that (alpha, alpha rho)-Renyi DP for every order alpha > 1 implies, at the best order.

    ``min over alpha of alpha rho + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1)``. The derivative vanishes
    where ``rho (alpha - 1)^2 = log(1 / (delta alpha))``, whose sides cross once. The best that accounting with
    Renyi orders can do for Gaussian releases; a list of orders does a little worse.

    Args:
        delta: in (0, 1). Public.
        rho: >= 0. Public.

    Reference: Canonne, Kamath and Steinke (2020), arXiv:2004.00010, proposition 12.
    """
    _require(delta, rho)
    if rho == 0:
        return 0.0
    low, high = 0.0, min(1.0 / delta - 1.0, math.sqrt(math.log(1.0 / delta) / rho))  # of alpha - 1
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        too_small = rho * middle * middle < -math.log(delta) - math.log1p(middle)
        low, high = (middle, high) if too_small else (low, middle)
    order = 1.0 + high
    epsilon = order * rho + math.log(high / order) - math.log(delta * order) / high
    return max(epsilon, 0.0)


def rho_through(conversion: Callable[..., float], epsilon: float, delta: float) -> float:
    """Largest rho that a conversion allows at (epsilon, delta): what accounting through it could spend.

    Against the exact ``mu^2 / 2`` it says how much more noise it demands: ``sqrt(mu^2 / (2 rho))`` times.

    Args:
        conversion: ``epsilon_through_zcdp`` or ``epsilon_through_renyi``.
        epsilon: > 0. Public.
        delta: in (0, 1). Public.

    Returns:
        rho within 1e-13, relatively, of where the conversion reaches epsilon, from below.

    Raises:
        PrivacyError: an argument is out of range.
    """
    require_epsilon(epsilon)
    low, high = 0.0, epsilon
    while conversion(delta, rho=high) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if conversion(delta, rho=middle) <= epsilon else (low, middle)
    return low


def _require(delta: float, rho: float) -> None:
    require_delta(delta)
    if not 0 <= rho < math.inf:
        raise OutOfRangeError(f"rho must be a finite number >= 0, got {rho}")
