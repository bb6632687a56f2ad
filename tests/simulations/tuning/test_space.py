"""Search spaces: every default one is valid, faults are named."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.algorithms.registry import algorithm_names, variant_of
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.tuned import search_tables
from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.tuning.trials import Tables, configured, default_space, parse_space, space_of

PAIRS = [
    (algorithm, feedback)
    for algorithm in algorithm_names()
    for feedback in Feedback
    if search_tables(variant_of(algorithm), feedback)
]


def names(tables: Tables) -> set[str]:
    return {f"{title}.{name}" for title, table in tables.items() for name in table}


def test_every_algorithm_has_a_default_space_for_all_that_it_learns_from() -> None:
    """But those that have nothing to choose: no setting of their own, and one release."""
    choosing = [name for name in algorithm_names() if fields(variant_of(name).algorithm.shares)]
    assert {algorithm for algorithm, _ in PAIRS} == set(choosing)
    learning = {(name, kind) for name in choosing for kind in variant_of(name).algorithm.feedback}
    assert set(PAIRS) == learning
    assert set(algorithm_names()) - set(choosing) == {"popularity-private"}


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "feedback"), PAIRS)
@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_every_end_of_every_default_space_can_be_run(
    algorithm: str, feedback: Feedback, epsilon: float
) -> None:
    raw = {"algorithm": algorithm, "feedback": feedback.value, "privacy": {"epsilon": epsilon}}
    config = parse_config(raw)

    tables, source = default_space(variant_of(algorithm), feedback)
    for key, parameter in parse_space(tables, source=source).items():
        for value in (parameter.values[0], parameter.values[-1]):
            trial = configured(config, {key: value}, seed=0)
            build_task(trial, rating_range=(1.0, 5.0), backend="numpy")


def test_what_a_configuration_sets_is_not_searched() -> None:
    bare = {"algorithm": "adadpals"}
    fixed = {"settings": {"rank": 3, "rounds": 2}, "privacy": {"shares": {"quadratic": 0.4}}}

    space, left = (names(space_of(parse_config(raw), None)) for raw in (bare, {**bare, **fixed}))

    assert space - left == {"settings.rounds", "shares.quadratic"}
    assert not left - space


def test_a_sampled_weighting_searches_what_its_family_does_and_its_own() -> None:
    family, own = (
        names(default_space(variant_of(name), Feedback.EXPLICIT)[0]) for name in ("adadpals", "dpals-tail")
    )

    assert own - family == {"settings.items_per_user"}


def test_a_search_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "search.toml"
    path.write_text("[settings]\nrank = { int = [2, 9] }\n[shares]\ncounts = { log = [0.01, 0.2] }\n")

    assert names(space_of(parse_config({}), path)) == {"settings.rank", "shares.counts"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "nothing to search"),
        ({"sharez": {}}, "unknown table 'sharez'"),
        ({"settings": 3}, "must be a table"),
        ({"settings": {"rank": 8}}, r"settings.rank must be one of choice, int, log, uniform"),
        ({"settings": {"rank": {"int": [1, 2], "log": [1, 2]}}}, "must be one of"),
        ({"settings": {"rank": {"int": [2, 2]}}}, "two numbers, the lower first"),
        ({"settings": {"rank": {"int": [2.5, 4]}}}, "two numbers, the lower first"),
        ({"settings": {"step": {"log": [0, 1]}}}, "must be > 0"),
        ({"settings": {"step": {"uniform": [1, "2"]}}}, "two numbers"),
        ({"settings": {"step": {"choice": []}}}, "choice needs a list"),
    ],
)
def test_faults_are_named(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_space(raw, source="search.toml")
