"""The best bound is the best there is, weights are those of the paper, and its theorems hold in numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.errors import InputError, PrivacyError
from research.epasto.bounding import PublicSizes
from research.epasto.tradeoff import Tradeoff, laplace_noise_variance

MADE_UP = "they are made up"


def sizes_of(numbers: list[int]) -> PublicSizes:
    return PublicSizes(sizes=np.array(numbers), public_because=MADE_UP)


def slow_variance(numbers: list[int], bound: float, value: float, noise: float) -> float:
    """v(h) value by value."""
    total = sum(min(bound, s) for s in numbers)
    weights = [[min(bound, s) / (s * total)] * s for s in numbers]
    spread = sum(c * c for of_user in weights for c in of_user)
    return value * spread + noise * max(sum(of_user) for of_user in weights) ** 2


VARIANCES = st.sampled_from([0.0, 1e-4, 0.3, 1.0, 40.0])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), VARIANCES, VARIANCES)
def test_no_bound_on_a_fine_net_is_better_than_the_best(
    numbers: list[int], value: float, noise: float
) -> None:
    if value + noise == 0:
        return
    tradeoff = Tradeoff(sizes=sizes_of(numbers), value_variance=value, noise_variance=noise)
    best = tradeoff.optimum()
    net = np.linspace(min(numbers), max(numbers), 2001)
    tried = [tradeoff.variance(bound) for bound in net]

    assert min(numbers) <= best.bound <= max(numbers)
    assert best.variance <= min(tried) * (1 + 1e-9)
    assert best.variance >= min(tried) * (1 - 1e-2)
    assert best.variance == pytest.approx(slow_variance(numbers, best.bound, value, noise))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.floats(1e-3, 10), st.floats(1e-3, 100))
def test_sample_limits_lose_and_never_more_than_four_times(
    numbers: list[int], value: float, noise: float
) -> None:
    tradeoff = Tradeoff(sizes=sizes_of(numbers), value_variance=value, noise_variance=noise)
    limited, best = tradeoff.best_sample_limit(), tradeoff.optimum()
    slow = [
        value / sum(min(h, s) for s in numbers) + noise * (h / sum(min(h, s) for s in numbers)) ** 2
        for h in range(min(numbers), max(numbers) + 1)
    ]

    assert limited.variance == pytest.approx(min(slow))
    assert best.variance * (1 - 1e-9) <= limited.variance <= 4 * best.variance * (1 + 1e-9)


def test_the_papers_example_approaches_three_halves() -> None:
    g = 10_000
    tradeoff = Tradeoff(sizes=sizes_of([1] * g + [g] * g), value_variance=1.0, noise_variance=float(g))

    assert tradeoff.optimum().variance <= (2 * g + 1) / (4 * g * g) * (1 + 1e-12)
    assert tradeoff.best_sample_limit().variance >= 3 / (4 * g) * (1 - 1e-12)
    assert tradeoff.best_sample_limit().variance / tradeoff.optimum().variance == pytest.approx(1.5, abs=1e-4)


def test_weights_sum_to_one_and_those_of_a_user_with_few_values_are_not_cut() -> None:
    sizes = sizes_of([1, 2, 50])

    assert sizes.user_weights(4.0) == pytest.approx(np.array([1, 2, 4]) / 7)
    assert sizes.value_weights(4.0) @ sizes.sizes == pytest.approx(1.0)


def test_sizes_that_nobody_calls_public_are_refused() -> None:
    with pytest.raises(PrivacyError, match="say why in public_because"):
        PublicSizes(sizes=np.array([1, 2]), public_because=" ")


@pytest.mark.parametrize("numbers", [[], [0, 1], [-1]])
def test_sizes_below_one_are_refused(numbers: list[int]) -> None:
    with pytest.raises(InputError, match="whole numbers >= 1"):
        PublicSizes(sizes=np.array(numbers, dtype=np.int64), public_because=MADE_UP)


def test_bad_bounds_limits_and_variances_are_refused() -> None:
    sizes = sizes_of([1, 2])
    tradeoff = Tradeoff(sizes=sizes, value_variance=1.0, noise_variance=1.0)
    for call in (
        lambda: sizes.user_weights(0.0),
        lambda: tradeoff.sample_limit_variance(0),
        lambda: Tradeoff(sizes=sizes, value_variance=0.0, noise_variance=0.0),
        lambda: Tradeoff(sizes=sizes, value_variance=-1.0, noise_variance=1.0),
        lambda: laplace_noise_variance(1.0, 0.0),
    ):
        with pytest.raises(InputError):
            call()
