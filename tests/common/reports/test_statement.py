"""The guarantee as a report states it."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import norm

from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.reports.statement import Statement, read_statement
from tests.simulations.reports.conftest import certificate as certificate_of


@pytest.fixture
def certificate() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(certificate_of(SecureNoise())))
    return content


@pytest.fixture
def statement(certificate: dict[str, Any]) -> Statement:
    return read_statement(certificate)


def test_releases_add_up_to_the_claim(statement: Statement) -> None:
    shares = [release.mu_squared for release in statement.releases]

    assert [share / sum(shares) for share in shares] == pytest.approx([0.2, 0.3, 0.5])
    assert statement.recomputed_epsilon == pytest.approx(3.0)
    assert statement.failures == ()
    assert statement.checks > 10


def test_sensitivity_and_noise_are_in_real_units(statement: Statement) -> None:
    release = statement.releases[0]

    assert release.sensitivity == pytest.approx(4.0)
    assert release.noise == pytest.approx(4.0 * release.noise_multiplier)


def test_the_rate_of_right_guesses_is_that_of_the_likelihood_ratio_test(statement: Statement) -> None:
    mu = statement.mu
    assert mu is not None
    # Absent: N(0, 1). Present: N(mu, 1). The best cut is half way; each case is half of all.
    assert statement.guess_rate == pytest.approx((norm.cdf(mu / 2) + norm.sf(mu / 2, loc=mu)) / 2)
    assert statement.detection_rate(0.01) == pytest.approx(norm.sf(norm.isf(0.01) - mu))


def test_without_mu_the_rate_follows_from_epsilon_and_delta(statement: Statement) -> None:
    bare = replace(statement, mu=None)

    expected = (math.exp(3.0) + 1e-5) / (math.exp(3.0) + 1)
    assert bare.guess_rate == pytest.approx(expected)
    assert bare.guess_rate > statement.guess_rate
    assert bare.detection_rate(0.01) is None


def test_a_mu_that_is_only_a_bound_is_not_used(certificate: dict[str, Any]) -> None:
    certificate["composition"]["exact"] = False

    assert read_statement(certificate).mu is None


@pytest.mark.slow
def test_releases_of_a_sampled_round_have_one_cost_which_a_live_page_leaves_out(
    certificate: dict[str, Any],
) -> None:
    stated = {"kind": "poisson", "probability": 0.5, "round": "round-1"}
    for event in certificate["releases"][1:]:
        event["participation"] = stated

    statement = read_statement(certificate)

    assert [release.cumulative_epsilon is None for release in statement.releases] == [False, True, False]
    live = read_statement(certificate, verified=False)
    assert [release.cumulative_epsilon is None for release in live.releases] == [False, True, True]
    assert live.checks is None
    assert statement.recomputed_epsilon is not None
    assert statement.recomputed_epsilon < 3.0


def test_one_unreadable_release_leaves_later_totals_unknown(certificate: dict[str, Any]) -> None:
    certificate["releases"][1]["noise_multiplier"] = 0.0

    statement = read_statement(certificate)

    assert [release.cumulative_epsilon is None for release in statement.releases] == [False, True, True]
    assert statement.recomputed_epsilon is None
    assert statement.failures


def test_what_is_no_certificate_is_refused(certificate: dict[str, Any]) -> None:
    for wrong in ({}, certificate | {"claim": None}, certificate | {"private": "yes"}):
        with pytest.raises(InputError, match="not a certificate"):
            read_statement(wrong)
