"""Claims against exact recomputation: random plans, calibrated and certified, then recomputed at 60 digits.

50 plans each time, 200 in a thorough run: a claim that is too low by a factor is too low in each of them.
"""

import numpy as np
import pytest

from fedboard.common.certificate import Guarantee, certify
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.commitments import planned
from tests.common.privacy.exact_curves import gaussian_delta, gaussian_epsilon, gaussian_mu
from tests.common.releases import a_release

N_PLANS, EACH_TIME = 200, 50
ALLOWED = 1e-6


def random_certificate(seed: int):
    """A certified run with random budget, shares, shapes and adjacency."""
    rng = np.random.default_rng([2024, seed])
    epsilon, delta = float(np.exp(rng.uniform(np.log(0.05), np.log(30)))), float(10 ** rng.uniform(-9, -3))
    adjacency = Adjacency(rng.choice(["add-remove", "replace"]))
    parts = rng.dirichlet(np.full(int(rng.integers(1, 41)), rng.uniform(0.2, 5)))
    shares = {f"release-{k}": float(part) for k, part in enumerate(parts) if part > 1e-12}
    events = [
        a_release(
            name=name,
            rows=int(rng.integers(1, 1000)),
            width=int(rng.integers(1, 50)),
            grid_step=2.0**-20,
            l2_bound=int(rng.integers(1, 2**40)),
            same_sign=bool(rng.integers(2)),
            adjacency=adjacency,
            noise_multiplier=z,
        ).event()
        | SecureNoise().describe()
        for name, z in noise_multipliers(epsilon, delta, shares).items()
    ]
    claim = Guarantee(epsilon=epsilon, delta=delta, adjacency=str(adjacency))
    terms = planned(events, epsilon=epsilon, delta=delta, adjacency=str(adjacency))
    return certify(events, commitment=terms, claim=claim, trust=[], assumptions=[], dataset="made up")


def recomputed(certificate):
    """Mu at 60 digits from nothing but noise, bound and adjacency of each release."""
    multipliers = []
    for event in certificate.releases:
        factor = 1.0 if event["adjacency"] == "add-remove" else 2 ** (0.5 if event["same_sign"] else 1)
        multipliers.append(event["noise_stddev"] / (event["l2_bound"] * factor))
    return gaussian_mu(multipliers)


@pytest.mark.slow
@pytest.mark.parametrize(
    "decade",
    [
        *range(EACH_TIME // 10),
        *(pytest.param(k, marks=pytest.mark.thorough) for k in range(EACH_TIME // 10, N_PLANS // 10)),
    ],
)
def test_no_claim_is_below_what_exact_recomputation_finds(decade):
    for seed in range(10 * decade, 10 * decade + 10):
        certificate = random_certificate(seed)
        mu, claim = recomputed(certificate), certificate.claim

        exact = gaussian_epsilon(claim.delta, mu)

        assert exact <= certificate.composition.epsilon + 1e-12
        assert exact - claim.epsilon <= ALLOWED
        assert claim.epsilon - exact <= ALLOWED * max(1.0, claim.epsilon)
        assert gaussian_delta(claim.epsilon, mu) <= claim.delta * (1 + 1e-9)


def test_the_check_sees_a_release_that_is_not_counted():
    certificate = random_certificate(3)
    least = min(certificate.releases, key=lambda event: event["noise_multiplier"])
    mu = gaussian_mu(
        [event["noise_multiplier"] for event in certificate.releases] + [least["noise_multiplier"]]
    )

    assert gaussian_epsilon(certificate.claim.delta, mu) - certificate.claim.epsilon > 1e-3
