from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.errors import InputError
from research.block_solvers.rating_sweep import (
    FactorRows,
    RatingBlock,
    SweepRates,
    generator_state,
    item_waits,
    settle,
    sweep_ratings,
)

N_USERS, N_ITEMS, PER_SEGMENT = 12, 9, 4


def block_of(rng, n_segments=40):
    users = rng.integers(0, N_USERS, n_segments).astype(np.int32)
    items = np.concatenate([rng.choice(N_ITEMS, PER_SEGMENT, replace=False) for _ in range(n_segments)])
    return RatingBlock(
        users=users,
        bounds=np.arange(n_segments + 1, dtype=np.int64) * PER_SEGMENT,
        items=items.astype(np.int32),
        values=rng.uniform(1, 5, items.size).astype(np.float32),
    )


def sides(rng, rank):
    found = []
    for n in (N_USERS, N_ITEMS):
        side = FactorRows.zeros(n, rank)
        side.factors[:] = rng.standard_normal((n, rank)) * 0.3
        side.biases[:] = rng.standard_normal(n) * 0.1
        found.append(side)
    return found


def rates_of(rng, *, variance=0.0, **changed):
    def side(n):
        gain, scale = rng.uniform(0.01, 0.05, n), rng.uniform(0.5, 2.0, n)
        return np.column_stack([gain, gain / 10, np.sqrt(variance) * scale]).astype(np.float32)

    return SweepRates(
        weights=rng.uniform(0.2, 1.0, N_USERS).astype(np.float32),
        user_rates=side(N_USERS),
        item_rates=side(N_ITEMS),
        mean=3.0,
        noisy=variance > 0,
        **({"biased": True} | changed),
    )


def without_waiting():
    return {"waits": item_waits(np.ones(N_ITEMS, int)), "clock": 0, "state": generator_state(0, 0)}


@pytest.mark.parametrize("rank", [1, 3, 8, 16, 33, 128])
@pytest.mark.parametrize("biased", [False, True])
def test_one_step_is_the_gradient_of_the_squared_error(rank, biased):
    rng = np.random.default_rng(0)
    users, items = sides(rng, rank)
    rates = rates_of(rng, biased=biased)
    block = RatingBlock(
        users=np.array([4], np.int32),
        bounds=np.array([0, 1]),
        items=np.array([2], np.int32),
        values=np.array([4.5], np.float32),
    )
    own, shown = (
        np.append(side.factors[row], side.biases[row]).astype(float) for side, row in ((users, 4), (items, 2))
    )
    error = rates.weights[4] * (4.5 - 3.0 - own[-1] - shown[-1] - own[:-1] @ shown[:-1])

    sweep_ratings(block, users, items, rates, **without_waiting())

    for side, row, before, other, (gain, pull, _) in (
        (users, 4, own, shown, rates.user_rates[4].astype(float)),
        (items, 2, shown, own, rates.item_rates[2].astype(float)),
    ):
        expected = (1 - pull) * before + gain * error * np.append(other[:-1], 1.0)
        np.testing.assert_allclose(side.factors[row], expected[:-1], atol=2e-6)
        np.testing.assert_allclose(side.biases[row], expected[-1] if biased else before[-1], atol=2e-6)


def test_prediction_outside_the_range_pulls_at_nothing():
    rng = np.random.default_rng(1)
    block, (users, items) = block_of(rng), sides(rng, 8)
    rates = rates_of(rng, prediction_range=(10.0, 11.0))
    before = items.factors / np.linalg.norm(items.factors, axis=1, keepdims=True)

    sweep_ratings(block, users, items, rates, **without_waiting())

    after = items.factors / np.linalg.norm(items.factors, axis=1, keepdims=True)
    np.testing.assert_allclose(after, before, atol=1e-6)


def displacement(*, owed=1.0, **drawn_from):
    """What noise alone adds over many passes, over its deviation; ``owed`` spoils the variance."""
    rng, rank = np.random.default_rng(5), 64
    block = block_of(rng, n_segments=300)
    users, items = FactorRows.zeros(N_USERS, rank), FactorRows.zeros(N_ITEMS, rank)
    quiet = rates_of(rng, variance=owed * 1e-4)
    for side in (quiet.user_rates, quiet.item_rates):
        side[:] = 0.0, 0.0, np.sqrt(owed * 1e-4)
    rates = replace(quiet, user_gap=100)
    more = {"state": generator_state(9, 0)} | drawn_from
    waits, ticks = item_waits(np.bincount(block.items, minlength=N_ITEMS)), 0
    for _ in range(10):
        sweep_ratings(block, users, items, rates, waits=waits, clock=ticks, **more)
        ticks += block.items.size
    settle(users, items, rates, clock=ticks, **more)
    parts = (users.factors.ravel(), items.factors.ravel(), users.biases, items.biases)
    drawn = np.concatenate(parts).astype(float)
    assert np.all(drawn != 0), "a coordinate without noise"
    return drawn / np.sqrt(1e-4 * ticks)


def looks_normal(draws):
    """Mean, variance and fourth moment within 4.5 deviations of a standard normal sample's."""
    n = draws.size
    return (
        abs(draws.mean()) < 4.5 / np.sqrt(n)
        and abs(draws.var() - 1) < 4.5 * np.sqrt(2 / n)
        and abs(np.mean(draws**4) - 3) < 4.5 * np.sqrt(96 / n)
    )


@pytest.mark.slow
def test_lazy_noise_adds_up_to_the_variance_of_all_ticks():
    table = np.random.default_rng(0).standard_normal(1 << 20).astype(np.float32)

    assert looks_normal(displacement())
    assert looks_normal(displacement(table=table))


@pytest.mark.parametrize("owed", [0.8, 1.25])
def test_noise_that_forgets_some_ticks_is_noticed(owed):
    assert not looks_normal(displacement(owed=owed))


def test_drawn_numbers_are_standard_normal_and_independent_between_threads():
    drawn = []
    for stream in (0, 1):
        users, items = FactorRows.zeros(N_USERS, 8192), FactorRows.zeros(N_ITEMS, 8192)
        rates = rates_of(np.random.default_rng(0), variance=1.0)
        rates.item_rates[:, 2] = 1.0
        settle(users, items, rates, clock=1, state=generator_state(1, stream))
        drawn.append(items.factors.ravel().astype(float))
    one, other = drawn

    assert looks_normal(one)
    assert looks_normal(other)
    assert abs(np.mean(one * other)) < 4.5 / np.sqrt(one.size)
    assert abs(np.mean(one[1:] * one[:-1])) < 4.5 / np.sqrt(one.size)
    assert abs(np.mean(np.abs(one) > 3) / 0.0026998 - 1) < 0.2


def test_rows_that_there_are_not_are_refused():
    rng = np.random.default_rng(0)
    block = block_of(rng)

    block.require_within(N_USERS, N_ITEMS)
    with pytest.raises(InputError, match="items of a block"):
        block.require_within(N_USERS, N_ITEMS - 1)
    with pytest.raises(InputError, match="users of a block"):
        block.require_within(N_USERS - 1, N_ITEMS)
