"""The promise as odds: how often somebody is right at most who bets on one person, when a coin decided it.

The board page says the same by its own few lines (``client/page/script/seal/gaussian.js``, ``view/odds_view.js``);
a test holds one against the other.

Reference: Dong, Roth and Su (2022), arXiv:1905.02383, sec. 2 (mu); Kairouz, Oh and Viswanath (2015),
arXiv:1311.0776 (epsilon and delta alone); Nanayakkara et al. (2023), arXiv:2303.00738 (odds, not formulas).
"""

import math

from fedboard.common.privacy.accounting.guarantee import Composition, Guarantee

_ROUNDING = 1e-9


def right_bets_of_mu(mu: float) -> float:
    """Share of right bets at most, where the releases are exactly mu-GDP: ``Phi(mu / 2)``."""
    return 0.5 * math.erfc(-mu / (2.0 * math.sqrt(2.0)))


def right_bets_of_epsilon(epsilon: float, delta: float) -> float:
    """The same from (epsilon, delta) alone: ``(e^epsilon + delta) / (e^epsilon + 1)``."""
    return (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))


def right_bets(claim: Guarantee, composition: Composition) -> float:
    """Share of right bets at most: by mu where that is exact, else by what is claimed.

    Args:
        claim: of a certificate that holds. Public.
        composition: of the same. Public.
    """
    return (
        right_bets_of_mu(composition.mu)
        if composition.exact
        else right_bets_of_epsilon(claim.epsilon, claim.delta)
    )


def in_hundred(share: float) -> int:
    """Right bets in a hundred, rounded up."""
    return math.ceil(100.0 * share - _ROUNDING)
