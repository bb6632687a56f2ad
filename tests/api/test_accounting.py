"""Noise for an epsilon and back, and the cost of what is there."""

from pathlib import Path

import pytest

import fedboard

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("releases", [1, 9])
def test_noise_and_epsilon_are_inverse(releases: int) -> None:
    z = fedboard.noise_multiplier(epsilon=2.0, delta=1e-6, releases=releases)

    assert fedboard.epsilon(noise_multiplier=z, releases=releases, delta=1e-6) == pytest.approx(2.0, rel=1e-6)
    plan = {f"round-{k}/sum": z for k in range(releases)}
    assert fedboard.epsilon(plan, delta=1e-6) == pytest.approx(2.0, rel=1e-6)


def test_sampling_costs_less() -> None:
    plain = fedboard.epsilon(noise_multiplier=2.0, releases=5)
    sampled = fedboard.epsilon(noise_multiplier=2.0, releases=5, poisson=0.1)

    assert sampled < 0.5 * plain


def test_a_run_costs_what_its_certificate_claims(run_place: Path) -> None:
    claim = fedboard.load_board(run_place).certificate
    assert claim is not None

    assert fedboard.epsilon(run_place) == pytest.approx(claim["claim"]["epsilon"], rel=1e-6)
