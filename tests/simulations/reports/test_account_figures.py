"""The privacy curve as a picture."""

from itertools import pairwise

import pytest

from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import epsilon_of, mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.simulations.reports.account_figures import account_curves
from tests.common.privacy.exact_curves import gaussian, sampled

pytestmark = pytest.mark.slow

DELTAS = (1e-8, 1e-5, 1e-3)


def test_curves_are_those_of_the_accountants_and_in_order() -> None:
    curves = account_curves([gaussian(4.0)], DELTAS)

    assert [curve.label for curve in curves] == ["exact", "loss distributions", "Renyi orders", "zCDP"]
    assert curves[0].epsilons == tuple(epsilon_of(delta, mu=0.25) for delta in DELTAS)
    assert curves[1].epsilons == pytest.approx(curves[0].epsilons, rel=1e-5)
    for tight, loose in pairwise(curves[1:]):
        assert all(a < b for a, b in zip(tight.epsilons, loose.epsilons, strict=True))


def test_no_curve_of_a_sampled_run_is_called_exact() -> None:
    events = [sampled(1.0, probability=0.01)]
    labels = [curve.label for curve in account_curves(events, DELTAS)]

    assert labels == ["loss distributions", "Renyi orders", "mu-GDP bound", "zCDP bound"]
    budget = Budget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    kept = account_curves(events, DELTAS, budget=budget)
    assert [curve.label for curve in kept] == ["the budget", "Renyi orders", "zCDP bound"]
    assert kept[0].epsilons == tuple(max(2.0, epsilon_of(d, mu=mu_for(2.0, 1e-5))) for d in DELTAS)
