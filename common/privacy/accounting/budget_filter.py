"""What a budget promises where it is checked before each release, and nothing else was fixed beforehand.

Such a check is a *filter*: releases may be chosen, and the run may be stopped, by what earlier ones showed, and
what holds is the budget. It is not an *odometer*: what was spent when one stopped is no guarantee, because one
could have stopped where the outcomes suited. (Who stops at the best moment within 400 releases of mu 0.2, and
claims what they cost by then at delta 1e-5, is wrong with delta 1.5e-4.)

The filter lets a release through as long as all of them, with it, are within one of two limits:

* as Gaussian ones: ``sum mu_k^2 <= mu^2``, where mu-GDP is (epsilon, delta)-DP exactly;
* all of them pure: ``sum epsilon_k <= epsilon``.

Both together are (epsilon, delta)-DP: where the outcome lies within the second limit, the loss is at most epsilon
for certain, so it adds nothing to delta; all other outcomes are those of a run that the first limit alone would
have let through, which is mu-GDP. By the same two cases, at another delta epsilon is the larger of the budget's and
of what the curve of mu says there, and k users together have the larger of ``k epsilon`` and of the curve of
``k mu``. The budget's delta must be fixed beforehand, since mu follows from it.

Reference: Rogers, Roth, Ullman and Vadhan (2016), arXiv:1605.08294 (filters and odometers); Smith and Thakurta
(2022), arXiv:2210.17520 (the filter of GDP).
"""

from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.conversions import epsilon_through_renyi, epsilon_through_zcdp
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.common.privacy.accounting.guarantee import Composition, CurvePoint
from fedboard.common.privacy.accounting.rating_level import PAIR, Implied
from fedboard.common.privacy.adjacency import Adjacency


def budget_mu(budget: Budget) -> float:
    """What all releases may count as Gaussian ones: the mu whose curve passes through the budget."""
    return mu_for(budget.epsilon, budget.delta)


def budget_epsilon(budget: Budget, delta: float, *, n_users: int = 1) -> float:
    """Epsilon that the filter guarantees at any delta, for one user or for several together.

    Args:
        budget: public.
        delta: in (0, 1). Public.
        n_users: >= 1. Public.
    """
    return max(n_users * budget.epsilon, epsilon_of(delta, mu=n_users * budget_mu(budget)))


def budget_point(budget: Budget, delta: float) -> CurvePoint:
    """One point of the curve that the filter guarantees; the looser conversions start from mu, which is GDP's."""
    rho = budget_mu(budget) ** 2 / 2
    return CurvePoint(
        delta=delta,
        epsilon=budget_epsilon(budget, delta),
        epsilon_rdp=max(budget.epsilon, epsilon_through_renyi(delta, rho=rho)),
        epsilon_zcdp=max(budget.epsilon, epsilon_through_zcdp(delta, rho=rho)),
    )


def budget_composition(budget: Budget, delta: float) -> Composition:
    """What everything that the filter lets through may cost together."""
    mu, point = budget_mu(budget), budget_point(budget, delta)
    return Composition(
        mu=mu,
        rho=mu * mu / 2,
        exact=False,
        epsilon=point.epsilon,
        epsilon_rdp=point.epsilon_rdp,
        epsilon_zcdp=point.epsilon_zcdp,
    )


def budget_implied(budget: Budget, delta: float) -> Implied:
    """What follows for one rating and for two users: under add-remove a rating changed is two steps as well."""
    pair = budget_epsilon(budget, delta, n_users=PAIR)
    steps = PAIR if budget.adjacency is Adjacency.ADD_REMOVE else 1
    return Implied(rating_epsilon=budget_epsilon(budget, delta, n_users=steps), pair_epsilon=pair)
