"""The floating-point attack is real against naive noise, and finds nothing in what a release publishes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PROGRAM = Path(__file__).parents[4] / "benchmarks" / "privacy_parts" / "floating_point.py"


@pytest.fixture(scope="module")
def attack() -> ModuleType:
    specification = importlib.util.spec_from_file_location("floating_point_attack", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("noise", ["float64", "float32"])
@pytest.mark.parametrize("sigma", [1.0, 10.0, 100.0])
def test_naive_noise_on_a_tail_item_gives_its_user_away(attack: ModuleType, noise: str, sigma: float) -> None:
    one = attack.single_numbers(noise, sigma, 0.0, 4000)
    item = attack.whole_items(noise, sigma, 10)

    assert one.absence_proved > 0.05
    assert item.absence_proved >= 0.7


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("sigma", [1.0, 10.0, 100.0, 0.37])
@pytest.mark.parametrize("total", [0.0, 0.3, 3.7123, 1234.57])
def test_the_attack_never_excludes_what_happened(
    attack: ModuleType, kind: type, sigma: float, total: float
) -> None:
    sums = np.full(20_000, total, dtype=kind)
    draws = np.random.default_rng(0).standard_normal(sums.size, dtype=kind)

    assert attack.possible(sums + kind(sigma) * draws, sums, sigma).all()


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.25, 1.0, 10.0, 100.0])
def test_published_releases_give_nobody_away(attack: ModuleType, sigma: float) -> None:
    for others in (0.0, 0.3, 1234.57):
        one = attack.single_numbers("grid", sigma, others, 4000)
        assert one.absence_proved == one.presence_proved == 0.0
    item = attack.whole_items("grid", sigma, 10)

    assert item.absence_proved == item.presence_proved == 0.0


def test_the_search_on_the_grid_does_find_what_is_impossible(attack: ModuleType) -> None:
    sums = np.zeros((1, 3), dtype=np.int64)
    release = attack.GaussianRelease(
        name="twin",
        rows=1,
        width=3,
        layout="vector",
        grid_step=1.0,
        l2_bound=1,
        same_sign=False,
        adjacency=attack.Adjacency.ADD_REMOVE,
        noise_multiplier=2.0**30,
        covers="nothing",
    )

    # No draw lies 10 deviations out, and nothing lies between two units of what is published.
    published = np.array([[5.0 * 2**30, 10.0 * 2**30, 2.0 ** (release.release_shift - 1)]])

    assert attack.possible_on_grid(published, sums, release).tolist() == [[True, False, False]]


def test_looking_at_more_neighbours_finds_nothing_more(
    attack: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.random.default_rng(1).standard_normal(2000)
    published, other = 10.0 * draws, np.full(2000, 0.3)
    few = attack.possible(published, other, 10.0)

    monkeypatch.setattr(attack, "NEIGHBOURS", 24)

    assert np.array_equal(few, attack.possible(published, other, 10.0))
    assert not few.all()
