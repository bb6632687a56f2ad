"""Counts of several rounds together: against simulated truth, where the first round was the same for all."""

import numpy as np

from fedboard.common.tasks.topk.popularity import corrected, joined

N_ITEMS, N_USERS = 800, 4000


def true_counts(rng: np.random.Generator) -> np.ndarray:
    return 300.0 * (1.0 + np.arange(N_ITEMS)) ** -0.8 * rng.uniform(0.8, 1.25, N_ITEMS)


def test_a_round_among_fewer_items_is_brought_to_the_unit_of_the_first() -> None:
    rng = np.random.default_rng(0)
    truth = true_counts(rng)
    errors, claimed = [], []
    for _ in range(20):
        first = truth + 10.0 * rng.standard_normal(N_ITEMS)
        counted = np.arange(N_ITEMS) < 256
        again = np.where(counted, 2.5 * truth + 5.0 * rng.standard_normal(N_ITEMS), 0.0)
        noisy, variance = joined((first, np.full(N_ITEMS, 100.0)), again, counted, 5.0)
        errors.append((noisy - truth)[counted])
        claimed.append(variance[counted])
        assert np.abs(noisy - first)[~counted].max() < 1e-9
        assert np.abs(variance - 100.0)[~counted].max() < 1e-9
    assert np.mean(claimed) < 5.0  # 1 / (1 / 100 + 2.5^2 / 25) is 3.8
    assert np.mean(np.square(errors)) < 2.0 * np.mean(claimed)  # the gain is known to a few percent


def test_what_stands_beside_the_constant_corrects_the_counts_along_the_columns() -> None:
    rng = np.random.default_rng(3)
    truth, stddev, unit = true_counts(rng), 2.0, 0.8
    before, after = [], []
    for _ in range(20):
        noisy = truth + 20.0 * rng.standard_normal(N_ITEMS)
        columns = np.linalg.qr(np.column_stack([noisy, np.eye(N_ITEMS)[:, :64]]))[0][:, 1:]
        crossed = unit * (columns.T @ truth) + stddev / np.sqrt(2.0) * rng.standard_normal(64)
        found, variance = corrected(
            (noisy, np.full(N_ITEMS, 400.0)),
            np.arange(N_ITEMS, dtype=np.int32),
            columns,
            crossed,
            last=unit * 0.3 * N_USERS,
            population=N_USERS,
            stddev=stddev,
        )
        before.append(np.sum((columns.T @ (noisy - truth)) ** 2))
        after.append(np.sum((columns.T @ (found - truth)) ** 2))
        assert 0.0 < variance.min() < 40.0
    assert np.mean(after) < 0.02 * np.mean(before)
