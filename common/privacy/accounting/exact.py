"""Accounting: what a sequence of releases costs together, by the exact curve of Gaussian mechanisms.

Conversions: what the same Gaussian releases are worth when they are stated through zCDP or Renyi orders.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from fedboard.common.errors import OutOfRangeError
from fedboard.common.normal_quantiles import mills_ratio, normal_below
from fedboard.common.privacy.accounting.grouping import (
    epsilon_by_loss_distributions,
    epsilon_by_renyi_orders,
    mechanisms_of,
    most_exposed,
)
from fedboard.common.privacy.events import Event, event_mu, is_pure, pure_epsilon, require_sound

Accountant = Literal["pld", "rdp"]

_ULP = 2.0**-52
_RELATIVE_PRECISION = 1e-13
_REMEMBERED = 4096
"""Points of the curve: a run, its boards and whoever verifies them ask for the same ones again and again."""
_FAR = 37.5  # standard deviations; the normal tail beyond is below 1e-300


def delta_of(epsilon: float, *, mu: float) -> float:
    """Probability that the loss of a mu-GDP mechanism exceeds epsilon, in the sense of (epsilon, delta)-DP.

    ``delta = Phi(-x) - e^epsilon Phi(-x - mu)`` with ``x = epsilon / mu - mu / 2``, evaluated as
    ``phi(x) (M(x) - M(x + mu))`` with the Mills ratio M, which neither overflows nor cancels early.

    Guarantee: never below the exact value (down to 1e-300), by a bound on the rounding error, which for
    delta > 1e-15 and mu > 1e-6 is below 1e-7 of the result.

    Args:
        epsilon: >= 0, natural-log units. Public.
        mu: >= 0. Public.

    Raises:
        PrivacyError: an argument is not finite or negative.

    Reference: Balle and Wang (2018), arXiv:1805.06530, theorem 8; Dong, Roth and Su (2022), corollary 2.13.
    """
    _require_finite(epsilon=epsilon, mu=mu)
    if mu == 0:
        return 0.0
    below, above = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if abs(below) > _FAR:
        return 0.0 if below > 0 else 1.0
    density = math.exp(-0.5 * below * below) / math.sqrt(2 * math.pi)
    lost = density * mills_ratio(above)
    kept = density * mills_ratio(below) if below >= 0 else normal_below(-below)
    spread = 1.0 + below * below + abs(below) * above
    difference = max(kept - lost, 0.0)
    margin = 8 * _ULP * (kept + lost * (1 if below >= 0 else spread)) + 8 * _ULP * spread * difference
    return min(difference + margin, 1.0)


@lru_cache(maxsize=_REMEMBERED)
def epsilon_of(delta: float, *, mu: float) -> float:
    """Smallest epsilon of a mu-GDP mechanism at ``delta``.

    Guarantee: ``delta_of(result, mu=mu) <= delta``; the result exceeds the exact value by about 1e-13
    relatively.

    Args:
        delta: in (0, 1). Public.
        mu: >= 0. Public.
    """
    require_delta(delta)
    if delta_of(0.0, mu=mu) <= delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + mu
    while high - low > _RELATIVE_PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle, mu=mu) <= delta else (middle, high)
    return high


@lru_cache(maxsize=_REMEMBERED)
def mu_for(epsilon: float, delta: float) -> float:
    """Largest mu whose curve passes through or below (epsilon, delta).

    Guarantee: ``delta_of(epsilon, mu=result) <= delta``, and spending the result never exceeds epsilon by
    rounding, ``epsilon_of(delta, mu=result) <= epsilon``; it lies about 1e-12 below the exact value
    (1e-9 for mu near 1e-6).

    Args:
        epsilon: >= 0. Public.
        delta: in (0, 1). Public.
    """
    require_delta(delta)
    low, high = 0.0, 1.0
    while delta_of(epsilon, mu=high) <= delta:
        low, high = high, 2 * high
    while high - low > _RELATIVE_PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(epsilon, mu=middle) <= delta else (low, middle)
    shrink = 10 * _RELATIVE_PRECISION
    while epsilon_of(delta, mu=low * (1 - shrink)) > epsilon:
        shrink *= 2  # where mu is tiny, rounding shows earlier
    return low * (1 - shrink)


def compose(noise_multipliers: Iterable[float]) -> float:
    """Return mu of Gaussian releases together: ``mu = sqrt(sum 1 / z_k^2)``, exactly.

    Args:
        noise_multipliers: each relative to the sensitivity under its own adjacency; > 0, finite. Public.

    Raises:
        PrivacyError: a multiplier is not a finite number > 0; such a release is never counted as free.
    """
    return compose_mu(1.0 / _positive(multiplier) for multiplier in noise_multipliers)


def compose_mu(parts: Iterable[float]) -> float:
    """Return mu of mechanisms together: ``mu = sqrt(sum mu_k^2)``.

    Raises:
        PrivacyError: the sum is not finite.
    """
    mu = math.sqrt(math.fsum(part * part for part in parts))
    _require_finite(mu=mu)
    return mu


def compose_events(events: Iterable[Event]) -> float:
    """Return mu of recorded events together; exact where all are Gaussian with full participation, else a bound.

    Of disjoint cohorts the costliest counts (``grouping.most_exposed``); that too is exact.

    Raises:
        PrivacyError: an event is not sound.
    """
    checked = list(events)
    for event in checked:
        require_sound(event)
    return compose_mu(event_mu(event) for event in most_exposed(checked))


def epsilon_when_adaptive(events: Sequence[Event], delta: float) -> float:
    """Epsilon that holds also where each event was chosen after the outcome of earlier ones was seen.

    By the GDP bound of each event, with sampled rounds in full; where all are pure (delta 0), the sum of their
    epsilons if that is smaller. The curve of loss distributions is no such filter: it composes what was fixed
    beforehand, and of two continuations that it holds to be equal, the worse one for the outcome can be chosen.
    The smaller of these two is: where all events are pure with a sum within epsilon, so is the loss, for certain;
    all other outcomes keep to the GDP bound, and together exceed epsilon with at most delta.

    Args:
        events: sound events. Public.
        delta: in (0, 1). Public.

    Raises:
        PrivacyError: an event is not sound.

    Reference: Smith and Thakurta (2022), Fully adaptive composition for Gaussian differential privacy,
    arXiv:2210.17520.
    """
    bound = epsilon_of(delta, mu=compose_events(events))
    if not all(is_pure(event) for event in events):
        return bound
    return min(bound, math.fsum(pure_epsilon(event) for event in events) * (1 + _RELATIVE_PRECISION))


def epsilon_of_events(events: Sequence[Event], delta: float, *, planned: bool = True) -> float:
    """Epsilon of recorded events together: the exact curve where all are Gaussian with full participation.

    Otherwise (Laplace noise, choices, Poisson participation) by dp-accounting's loss distributions, and never
    more than ``epsilon_when_adaptive``.

    Args:
        events: sound events, rounds of different runs named apart. Public.
        delta: in (0, 1). Public.
        planned: whether all were fixed before the first; if not, this is ``epsilon_when_adaptive``. Public.

    Raises:
        FedboardError: dp-accounting is needed and not installed; nothing is guessed.
        PrivacyError: an event is not sound, or the events of a round do not belong together.
    """
    require_delta(delta)
    bound = epsilon_when_adaptive(events, delta)
    mechanisms = mechanisms_of(events)
    if mechanisms.is_gaussian or not planned:
        return bound
    return min(epsilon_by_loss_distributions(mechanisms, delta), bound)


def epsilon_by_library(events: Sequence[Event], delta: float, *, accountant: Accountant = "pld") -> float:
    """Epsilon of recorded events by the accountants of dp-accounting: a second opinion.

    Args:
        events: as for ``epsilon_of_events``. Public.
        delta: in (0, 1). Public.
        accountant: "pld" (privacy loss distributions, tight) or "rdp" (Renyi, looser).

    Raises:
        FedboardError: dp-accounting is not installed.
        PrivacyError: as for ``epsilon_of_events``.
    """
    require_delta(delta)
    chosen = epsilon_by_loss_distributions if accountant == "pld" else epsilon_by_renyi_orders
    return chosen(mechanisms_of(events), delta)


def require_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is not a finite number > 0."""
    if not 0 < epsilon < math.inf:
        raise OutOfRangeError(f"epsilon must be a finite number > 0, got {epsilon}")


def require_delta(delta: float) -> None:
    """Refuse a delta outside (0, 1)."""
    if not 0 < delta < 1:
        raise OutOfRangeError(f"delta must be in (0, 1), got {delta}")


def _require_finite(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise OutOfRangeError(f"{name} must be a finite number >= 0, got {value}")


def _positive(noise_multiplier: float) -> float:
    if not 0 < noise_multiplier < math.inf:
        raise OutOfRangeError(f"noise multiplier must be a finite number > 0, got {noise_multiplier}")
    return noise_multiplier


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


def _require(delta: float, rho: float) -> None:
    require_delta(delta)
    if not 0 <= rho < math.inf:
        raise OutOfRangeError(f"rho must be a finite number >= 0, got {rho}")
