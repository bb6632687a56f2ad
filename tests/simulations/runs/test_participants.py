"""Who takes part in a simulation and who asks for more privacy: public, and all of it in the certificate."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedboard.common.certificate import Certificate
from fedboard.common.contribution_bounding.participation import (
    FixedSizeCohort,
    FullParticipation,
    PoissonParticipation,
    ShuffledCohorts,
)
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import epsilon_of
from fedboard.common.reports.statement import read_statement
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.data import Kind, id_keys
from fedboard.simulations.runs.trainer import parse_participation, scales_by_key
from fedboard.simulations.simulate import RunResult, simulate
from tests.common.algorithms.conftest import a_task

pytestmark = pytest.mark.usefixtures("without_pictures")


def a_config(**privacy: Any) -> SimulationConfig:
    return parse_config(
        {
            "algorithm": "adadpals",
            "data": {"synthetic": {"n_users": 300, "n_items": 30, "mean_ratings_per_user": 12.0}},
            "settings": {"rank": 2, "rounds": 1},
            "run": {"baselines": False},
            "privacy": privacy,
        }
    )


def terms_of(kind: str) -> dict[str, str]:
    """Cohorts of a size are accounted where the number of users is public."""
    return {"adjacency": "replace"} if kind.startswith(("fixed-size", "shuffled-cohorts")) else {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("full", FullParticipation()),
        ("poisson:0.25", PoissonParticipation(0.25)),
        ("fixed-size:50", FixedSizeCohort(50)),
        ("shuffled-cohorts:3", ShuffledCohorts(3)),
    ],
)
def test_a_flag_names_a_participation(text: str, expected: object) -> None:
    config = a_config(participation=parse_participation(text), **terms_of(text))

    assert config.privacy.participation.chosen == expected


@pytest.mark.parametrize(
    ("privacy", "says"),
    [
        ({"participation": {"kind": "poisson"}}, "'poisson' needs probability"),
        ({"participation": {"kind": "poisson", "probability": 1.0}}, r"in \(0, 1\)"),
        ({"participation": {"kind": "poisson", "probability": 0.1, "size": 3}}, "'poisson' has no size"),
        ({"participation": {"kind": "full", "cohorts": 3}}, "'full' has no cohorts"),
        ({"participation": {"kind": "fixed-size", "size": 0}}, "whole number >= 1"),
        (
            {"participation": {"kind": "poisson", "probability": 0.1}, "adjacency": "replace"},
            "'add-remove' only",
        ),
        (
            {
                "participation": {"kind": "poisson", "probability": 0.1},
                "personal": [{"epsilon": 1.0, "share": 0.1}],
            },
            "together with participation 'poisson'",
        ),
        ({"epsilon": 1.0, "personal": [{"epsilon": 2.0, "share": 0.1}]}, "at most the run's 1, got 2"),
        ({"personal": [{"epsilon": 0.0, "share": 0.1}]}, "> 0"),
        ({"personal": [{"epsilon": 1.0, "share": 0.0}]}, r"share must be in \(0, 1\]"),
        ({"personal": [{"epsilon": 1.0, "share": 0.7}, {"epsilon": 2.0, "share": 0.7}]}, "at most 1"),
    ],
)
def test_what_cannot_be_accounted_is_refused_with_the_configuration(
    privacy: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        a_config(**privacy)


def test_levels_are_given_out_by_coins_of_each_user_in_their_shares() -> None:
    config = a_config(personal=[{"epsilon": 0.5, "share": 0.3}, {"epsilon": 2.0, "share": 0.2}])
    task = a_task()
    keys = id_keys(range(20_000), Kind.USER)
    scales = scales_by_key(config.privacy, task, seed=7)(keys)
    assert scales is not None

    levels, number = np.unique(scales, return_counts=True)
    assert len(levels) == 3
    assert levels[2] == 1.0
    assert abs(number / scales.size - [0.3, 0.2, 0.5]).max() < 6 * np.sqrt(0.25 / scales.size)
    others = np.arange(19_999, 500, -3)  # with some of them gone and in another order, hers is what it was
    fewer = scales_by_key(config.privacy, task, seed=7)(keys[others])
    assert fewer is not None
    np.testing.assert_array_equal(fewer, scales[others])
    mu = np.sqrt(sum(1 / z**2 for z in task.settings.shared.noise_multipliers.values()))
    for scale, epsilon in zip(levels, [0.5, 2.0, 5.0], strict=True):
        assert 0.99 * epsilon < epsilon_of(1e-5, mu=scale * mu) <= epsilon


def verified(result: RunResult) -> Certificate:
    assert [finding for finding in result.certificate.verify() if not finding.passed] == []
    return result.certificate


def test_a_certificate_states_the_levels_that_were_set(tmp_path: Path) -> None:
    levels = [{"epsilon": 0.5, "share": 0.3}]
    plain = simulate(a_config(), tmp_path / "plain")
    result = simulate(a_config(personal=levels), tmp_path / "personal")

    assert "0.3 at epsilon 0.5" in verified(result).assumptions[-1]
    assert result.certificate.claim == plain.certificate.claim  # whoever set no level has the run's
    assert result.board.digest != plain.board.digest


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["residual", "adadpals-clipped", "dpals-uniform"])
def test_every_algorithm_keeps_personal_levels(tmp_path: Path, algorithm: str) -> None:
    """The engine checks each row of each round against her own bounds, exactly, before it hands it over."""
    config = a_config(personal=[{"epsilon": 0.5, "share": 0.5}])

    result = simulate(msgspec.structs.replace(config, algorithm=algorithm), tmp_path / "run")

    assert "0.5 at epsilon 0.5" in verified(result).assumptions[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fixed-size:100", "shuffled-cohorts:2"])
def test_cohorts_are_stated_and_accounted_in_full(tmp_path: Path, kind: str) -> None:
    plain = simulate(a_config(**terms_of(kind)), tmp_path / "plain")
    config = a_config(participation=parse_participation(kind), **terms_of(kind))
    result = simulate(config, tmp_path / "cohorts")

    certificate = verified(result)
    assert certificate.claim.epsilon == pytest.approx(plain.certificate.claim.epsilon, rel=1e-12)
    assert {event["participation"]["kind"] for event in certificate.releases} == {kind.partition(":")[0]}
    assert "does not rely on it" in certificate.assumptions[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fixed-size:100", "shuffled-cohorts:2"])
def test_a_run_that_was_cut_off_asks_the_same_users_again(tmp_path: Path, kind: str) -> None:
    config = a_config(participation=parse_participation(kind), **terms_of(kind))
    whole = simulate(config, tmp_path / "run")
    (tmp_path / "run" / "boards" / "board-0002.board").unlink()  # as if killed before it was published

    assert simulate(config, tmp_path / "run", resume=True).board.digest == whole.board.digest


@pytest.mark.slow
def test_a_sampled_run_is_amplified_in_every_round(tmp_path: Path) -> None:
    result = simulate(a_config(participation=parse_participation("poisson:0.2")), tmp_path / "run")
    certificate = verified(result)

    rounds = {event["name"]: event["participation"]["round"] for event in certificate.releases}
    assert rounds["counts"] == "preparation"
    assert rounds["round-1/linear"] == "round-1"
    assert 4.99 < certificate.claim.epsilon <= 5.0
    assert epsilon_of(1e-5, mu=np.sqrt(sum(e["noise_multiplier"] ** -2 for e in certificate.releases))) > 7
    assert "a coin of her own" in certificate.assumptions[-1]

    stated = read_statement(json.loads(certificate.to_json()))
    assert stated.recomputed_epsilon == pytest.approx(certificate.claim.epsilon, rel=1e-6)
    assert stated.releases[0].cumulative_epsilon is None  # its round is not complete


def test_an_interrupted_sampled_run_is_not_resumed_with_another_sampling(tmp_path: Path) -> None:
    first, other = (
        a_config(participation=parse_participation(kind), **terms_of(kind))
        for kind in ("fixed-size:100", "fixed-size:99")
    )
    simulate(first, tmp_path / "run")

    with pytest.raises(InputError, match=re.escape("another 'privacy'")):
        simulate(other, tmp_path / "run", resume=True)
