"""The distribution of a sampled Gaussian's losses is the library's own, to the last bit."""

import dp_accounting
import numpy as np
import pytest

from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.gaussian_losses import gaussian_losses

MU = (0.05, 1.0, 7.3)
PROBABILITIES = (1e-6, 0.01, 0.3, 0.5, 0.999, 1.0 - 1e-9, 1.0)
CELLS = 1500


def width_of(mu: float) -> float:
    """Not a power of two: then no product of a cell's number with it is exact."""
    return (mu * mu + 28 * mu) / CELLS


@pytest.mark.parametrize("mu", MU)
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_every_delta_is_what_the_library_computes(mu, probability):
    told = dp_accounting.pld.privacy_loss_distribution.from_gaussian_mechanism(
        1.0 / mu, value_discretization_interval=width_of(mu), sampling_prob=probability
    )

    ours = gaussian_losses(dp_accounting, mu=mu, probability=probability, width=width_of(mu))

    epsilons = np.linspace(-mu * mu - 3 * mu, mu * mu + 6 * mu, 41)
    np.testing.assert_array_equal(
        [ours.get_delta_for_epsilon(epsilon) for epsilon in epsilons],
        [told.get_delta_for_epsilon(epsilon) for epsilon in epsilons],
    )
    for delta in (1e-3, 1e-9, 1e-14):
        assert ours.get_epsilon_for_delta(delta) == told.get_epsilon_for_delta(delta)
    composed, theirs = ours.self_compose(7), told.self_compose(7)
    assert composed.get_epsilon_for_delta(1e-6) == theirs.get_epsilon_for_delta(1e-6)


def test_what_cannot_be_computed_is_no_number(monkeypatch):
    monkeypatch.setattr(
        dp_accounting.pld.privacy_loss_mechanism.GaussianPrivacyLoss,
        "mu_upper_cdf",
        lambda self, x: np.full_like(x, np.nan),
    )

    with pytest.raises(FedboardError, match="cannot be computed"):
        gaussian_losses(dp_accounting, mu=1.0, probability=0.1, width=0.1)
