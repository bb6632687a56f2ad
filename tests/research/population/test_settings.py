"""Settings of the curve: the nearest by how much noise there is, and such as each algorithm takes."""

from collections.abc import Iterator

import pytest

from fedboard.common.algorithms.shared.tuned import Preset
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.runs.calibrated import build_task
from research.population.curve import EPSILONS, LADDER, LEARNERS, NONE, TRIVIAL
from research.population.settings import TUNED_ON, equivalent, settings_for


def test_a_tenth_of_the_people_at_ten_times_the_epsilon_have_the_same_settings() -> None:
    assert equivalent(1.0, TUNED_ON) == 1.0
    assert settings_for("residual", 0.1, 10 * TUNED_ON) == settings_for("residual", 1.0, TUNED_ON)
    assert settings_for("residual", 1.0, TUNED_ON) != settings_for("residual", 1.0, 1000 * TUNED_ON)


def test_beyond_what_was_tuned_the_last_settings_hold() -> None:
    assert settings_for("adadpals", NONE, LADDER[-1]) == settings_for("adadpals", NONE, LADDER[-2])


def test_an_algorithm_that_was_not_tuned_has_its_defaults() -> None:
    assert settings_for(TRIVIAL, 1.0, 1000).settings == {}


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_all_settings_are_those_of_the_algorithm(algorithm: str) -> None:
    for tuned in different(algorithm):
        task = build_task(run_of(algorithm, tuned), rating_range=(1.0, 5.0), backend="numpy").task

        settings = task.config.get("settings", task.config)
        assert settings["rounds"] == tuned.settings["rounds"]


@pytest.mark.parametrize("wrong", [{"nonsense": 3}, {"rank": -1}])
def test_others_would_be_refused(wrong: dict[str, int]) -> None:
    tuned = next(different("residual"))

    with pytest.raises(InputError):
        build_task(
            run_of("residual", Preset(settings={**tuned.settings, **wrong}, shares=tuned.shares)),
            rating_range=(1.0, 5.0),
            backend="numpy",
        )


def different(algorithm: str) -> Iterator[Preset]:
    """Each of the settings once."""
    known = list[Preset]()
    for users in LADDER:
        for epsilon in (*EPSILONS, NONE):
            tuned = settings_for(algorithm, epsilon, users)
            if tuned not in known:
                known.append(tuned)
    assert len(known) > 3
    yield from known


def run_of(algorithm: str, tuned: Preset) -> SimulationConfig:
    return parse_config(
        {
            "algorithm": algorithm,
            "privacy": {"epsilon": 5.0, "shares": dict(tuned.shares)},
            "settings": dict(tuned.settings),
        }
    )
