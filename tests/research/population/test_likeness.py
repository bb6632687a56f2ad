"""Made-up people beside those whom they are fitted to: statistics, and a fit that turns towards them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.config import DataConfig
from fedboard.simulations.datasets.ratings import Ratings
from fedboard.simulations.datasets.synthetic.people import PeopleConfig, PeopleStream, ratings_of_people
from fedboard.simulations.datasets.synthetic.people.fitted import ML_1M
from research.population.fitting import first_shape, fitted, made_up, target_of
from research.population.likeness import likeness
from research.population.statistics import Statistics, statistics_of
from research.shared.experiment import Setting


@pytest.fixture(scope="module")
def people() -> Ratings:
    return ratings_of_people(PeopleStream(config=PeopleConfig(users=500, items=300, mean=30)))


@pytest.fixture(scope="module")
def statistics(people: Ratings) -> Statistics:
    return statistics_of(people)


def test_statistics_are_what_they_say(people: Ratings, statistics: Statistics) -> None:
    counts = np.bincount(people.users)
    sums, rated = np.bincount(people.items, people.values), np.bincount(people.items)
    by_item = sums[people.items] / rated[people.items]

    assert statistics.n_ratings == people.n_ratings
    assert statistics.activity[2] == pytest.approx(np.median(counts) / counts.mean())
    assert statistics.stars.sum() == pytest.approx(1)
    assert statistics.deviation == pytest.approx(people.values.std(), rel=1e-4)
    assert statistics.after_items == pytest.approx(np.sqrt(np.mean((people.values - by_item) ** 2)), rel=1e-4)
    assert statistics.after_levels < statistics.after_items < statistics.deviation
    assert statistics.of_items == pytest.approx(np.sqrt(statistics.deviation**2 - statistics.after_items**2))


def test_singular_values_are_those_of_the_whole_matrix(people: Ratings, statistics: Statistics) -> None:
    seen = np.zeros((people.n_users, people.n_items))
    seen[people.users, people.items] = 1
    seen = seen[:, seen.any(axis=0)]
    balanced = seen / np.sqrt(seen.sum(axis=1, keepdims=True) * seen.sum(axis=0, keepdims=True))

    exact = np.linalg.svd(balanced, compute_uv=False)

    assert exact[0] == pytest.approx(1)
    assert statistics.company[:8] == pytest.approx(exact[1:9], rel=1e-3)


def test_a_fit_comes_nearer_to_the_people_it_is_given(people: Ratings, statistics: Statistics) -> None:
    target = target_of(people, fewest=4)
    far = statistics_of(made_up(first_shape(target), target, seed=9))
    near = statistics_of(made_up(fitted(target, turns=4), target, seed=9))

    for name in ("of_items", "of_users"):
        wanted = getattr(statistics, name)
        assert abs(getattr(near, name) - wanted) < abs(getattr(far, name) - wanted), name
    assert np.abs(near.stars - statistics.stars).sum() < np.abs(far.stars - statistics.stars).sum()


def test_the_committed_shape_stands_beside_the_data(tmp_path: Path) -> None:
    source = "synthetic:users=400,items=300,mean=30"
    asked = Setting(data=DataConfig(source=source), seeds=1, scratch=tmp_path, on_progress=lambda *_: None)

    outcome = likeness(asked, turns=1)

    row = outcome.numbers["statistics"]["deviation of the ratings"]
    assert row["data"] == pytest.approx(row["made up, mean"], rel=0.2)
    assert outcome.settings["shape, committed"]["item_spread"] == ML_1M.item_spread
    assert set(outcome.figures) == {"popularity", "activity", "tastes"}
    assert outcome.numbers["test RMSE without privacy"]["item means"]["data"] > 0.5


def test_only_whole_stars_are_fitted(
    people: Ratings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = replace(people, values=people.values - np.float32(0.5) * (people.values == 3))
    monkeypatch.setattr("research.population.likeness.load_data", lambda _: halves)

    with pytest.raises(InputError, match="whole stars from 1 to 5"):
        likeness(Setting(seeds=1, scratch=tmp_path, on_progress=lambda *_: None))
