import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.calibration import (
    noise_multipliers,
)
from fedboard.common.privacy.accounting.exact import compose, epsilon_of


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1, 17.0959), (5, 4.0871), (20, 1.3291)])
def test_equal_shares_give_the_known_multipliers(epsilon, multiplier):
    shares = {f"release-{k}": 1 / 21 for k in range(21)}

    assert noise_multipliers(epsilon, 1e-5, shares)["release-4"] == pytest.approx(multiplier, abs=5e-5)


@settings(max_examples=50, deadline=None)
@given(
    epsilon=st.floats(0.01, 50.0),
    parts=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30),
)
def test_shares_of_one_spend_the_budget_and_never_exceed_it(epsilon, parts):
    shares = {str(k): part / sum(parts) for k, part in enumerate(parts)}

    spent = epsilon_of(1e-5, mu=compose(noise_multipliers(epsilon, 1e-5, shares).values()))

    assert spent == pytest.approx(epsilon, rel=1e-9)
    assert spent <= epsilon * (1 + 1e-9)


def test_a_share_is_a_share_of_mu_squared():
    found = noise_multipliers(2.0, 1e-6, {"counts": 0.2, "items": 0.8})
    alone = noise_multipliers(2.0, 1e-6, {"all": 1.0})["all"]

    assert found["counts"] == pytest.approx(alone / math.sqrt(0.2))
    assert found["items"] == pytest.approx(alone / math.sqrt(0.8))


def test_budget_that_is_not_shared_out_is_left_unspent():
    half = noise_multipliers(2.0, 1e-6, {"items": 0.5})

    assert epsilon_of(1e-6, mu=compose(half.values())) < 1.5


def test_a_sum_above_one_by_rounding_is_scaled_back():
    found = noise_multipliers(1.0, 1e-5, {"a": 0.5, "b": 0.5 + 5e-10})

    assert epsilon_of(1e-5, mu=compose(found.values())) <= 1.0 + 1e-12


@pytest.mark.parametrize("shares", [{"a": 0.0}, {"a": -0.1}, {"a": math.nan}, {"a": math.inf}])
def test_a_share_that_is_not_positive_is_refused(shares):
    with pytest.raises(PrivacyError, match="share of release 'a'"):
        noise_multipliers(1.0, 1e-5, shares)


def test_shares_above_one_are_refused():
    with pytest.raises(PrivacyError, match="at most 1"):
        noise_multipliers(1.0, 1e-5, {"a": 0.6, "b": 0.6})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_without_meaning_is_refused(epsilon):
    with pytest.raises(PrivacyError, match="epsilon"):
        noise_multipliers(epsilon, 1e-5, {"a": 1.0})
