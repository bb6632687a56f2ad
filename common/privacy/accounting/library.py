"""The accountants of dp-accounting: privacy loss distributions where no closed form is known, Renyi beside them.

Each noise multiplier is relative to the sensitivity under its own adjacency, so a pair of neighbours differs by
one unit whatever the adjacency; hence the library is always asked about add or remove. (Its accountants disagree
about ``REPLACE_ONE``: one of them would double the sensitivity again.)
"""

import math
from functools import lru_cache
from typing import Any

from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.grouping import Mechanisms, SampledRound

_TAILS = 28.0  # deviations of a loss that the library keeps, both sides
_WHOLE_ORDERS = (*range(2, 65), *range(72, 129, 8), 192, 256, 384, 512, 768, 1024)
"""For sampled rounds, where the library's series for broken orders may fail to converge."""
_CELLS = 100_000.0  # of the widest loss, or up to twice as many


def epsilon_by_loss_distributions(mechanisms: Mechanisms, delta: float, *, coarsening: float = 1.0) -> float:
    """Epsilon by privacy loss distributions, rounded up: tight, and never below the exact value.

    Args:
        mechanisms: public.
        delta: in (0, 1). Public.
        coarsening: how many times wider than usual the cells of the distributions are; faster, still an upper
            bound.

    Raises:
        FedboardError: dp-accounting is not installed.

    Reference: Koskela, Jalkoe and Honkela (2020), arXiv:1906.03049; Doroshenko et al. (2022),
    arXiv:2207.04380 (how the library rounds); Zhu, Dong and Wang (2022), arXiv:2106.08567 (why the pair of a
    Poisson-subsampled Gaussian composes).
    """
    return _epsilon(mechanisms, delta, coarsening * cell_width(mechanisms))


def epsilon_by_renyi_orders(mechanisms: Mechanisms, delta: float) -> float:
    """Epsilon through Renyi divergences at a list of orders: looser, and a proof of its own.

    Args:
        mechanisms: public.
        delta: in (0, 1). Public.

    Raises:
        FedboardError: dp-accounting is not installed.

    Reference: Mironov (2017), arXiv:1702.07476; Mironov, Talwar and Zhang (2019), arXiv:1908.10530.
    """
    return float(_renyi_accountant(mechanisms).get_epsilon(delta))


def is_installed() -> bool:
    """Whether dp-accounting can be asked."""
    try:
        _library()
    except FedboardError:
        return False
    return True


def cell_width(mechanisms: Mechanisms) -> float:
    """Width of the cells into which losses are rounded: small beside the losses, and few enough cells.

    A Gaussian's loss spans about ``mu^2 + 28 mu``, that of a pure mechanism 2 / z. The widest of them decides.
    """
    mus = [mechanisms.gaussian_mu, *(sampled.mu for sampled in mechanisms.sampled)]
    spans = [mu * mu + _TAILS * mu for mu in mus] + [
        2.0 / multiplier for multiplier in (*mechanisms.laplace, *mechanisms.choices)
    ]
    # A power of two, so that a ledger that grows keeps to the same cells for long.
    span = max(spans)
    return 2.0 ** math.floor(math.log2(span / _CELLS)) if span > 0 else 1.0


@lru_cache(maxsize=2)
def _renyi_accountant(mechanisms: Mechanisms) -> Any:
    """All parts together; remembered, because a curve asks at many deltas."""
    library = _library()
    parts = [library.LaplaceDpEvent(multiplier) for multiplier in mechanisms.laplace]
    parts += [library.ZCDpEvent(0.125 / multiplier**2) for multiplier in mechanisms.choices]
    if mechanisms.gaussian_mu > 0:
        parts.append(library.GaussianDpEvent(1.0 / mechanisms.gaussian_mu))
    for sampled in mechanisms.sampled:
        gaussian = library.GaussianDpEvent(1.0 / sampled.mu)
        parts.append(library.PoissonSampledDpEvent(sampled.probability, gaussian))
    orders = _WHOLE_ORDERS if mechanisms.sampled else None
    return library.rdp.RdpAccountant(orders).compose(library.ComposedDpEvent(parts))


@lru_cache(maxsize=1024)
def _epsilon(mechanisms: Mechanisms, delta: float, width: float) -> float:
    """Remembered, because the ledger, the certificate and whoever verifies them ask the same again."""
    return float(_loss_distribution(mechanisms, width).get_epsilon_for_delta(delta))


@lru_cache(maxsize=2)
def _loss_distribution(mechanisms: Mechanisms, width: float) -> Any:
    """All parts together; remembered, because a curve asks at many deltas."""
    module = _library().pld.privacy_loss_distribution
    together = module.identity(value_discretization_interval=width)
    if mechanisms.gaussian_mu > 0:
        together = together.compose(
            _gaussian(SampledRound(probability=1.0, mu=mechanisms.gaussian_mu), width)
        )
    for multiplier in sorted(set(mechanisms.laplace)):
        part = module.from_laplace_mechanism(multiplier, value_discretization_interval=width)
        together = together.compose(part.self_compose(mechanisms.laplace.count(multiplier)))
    for multiplier in sorted(set(mechanisms.choices)):
        part = _randomised_response(module, 1.0 / multiplier, width)
        together = together.compose(part.self_compose(mechanisms.choices.count(multiplier)))
    for sampled in sorted(set(mechanisms.sampled), key=lambda part: (part.probability, part.mu)):
        repeated = _gaussian(sampled, width).self_compose(mechanisms.sampled.count(sampled))
        together = together.compose(repeated)
    return together


@lru_cache(maxsize=16)
def _gaussian(sampled: SampledRound, width: float) -> Any:
    """One Gaussian; remembered, because a ledger that grows composes the finished rounds again and again."""
    return _library().pld.privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / sampled.mu, value_discretization_interval=width, sampling_prob=sampled.probability
    )


def _randomised_response(module: Any, epsilon: float, width: float) -> Any:
    """The worst of all mechanisms with this epsilon and delta 0 (Kairouz, Oh and Viswanath 2015, theorem 2.2)."""
    other = 2.0 / (1.0 + math.exp(epsilon))
    return module.from_randomized_response(other, 2, value_discretization_interval=width)


def _library() -> Any:
    try:
        import dp_accounting
    except ImportError:
        told = "this needs dp-accounting: run pip install 'fedboard[pld]', or '.[pld]' in the checkout"
        raise FedboardError(told) from None
    return dp_accounting
