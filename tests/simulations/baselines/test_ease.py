"""EASE against its definition with dense matrices."""

import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.simulations.baselines import ease
from fedboard.simulations.baselines.ease import fit_ease


def dense(rows: Cohort) -> np.ndarray:
    found = np.zeros((rows.n_users, rows.n_items))
    found[rows.user_of_entry(), rows.items] = 1.0
    return found


def test_each_item_is_the_ridge_regression_on_all_others(choices: Cohort) -> None:
    rated = dense(choices)
    model = fit_ease(choices, ridge=7.0)

    assert np.all(np.diag(model.weights) == 0.0)
    for item in range(choices.n_items):
        others = np.delete(np.arange(choices.n_items), item)
        x, y = rated[:, others], rated[:, item]
        fitted = np.linalg.solve(x.T @ x + 7.0 * np.eye(others.size), x.T @ y)
        np.testing.assert_allclose(model.weights[others, item], fitted, atol=1e-5)


def test_lists_are_by_score_without_what_she_has(choices: Cohort) -> None:
    model = fit_ease(choices, ridge=7.0)
    scores = dense(choices) @ model.weights.astype(np.float64)
    found = model.recommend(choices, k=4)

    for user in range(choices.n_users):
        own = choices.rows(user, user + 1).items
        left = np.setdiff1d(np.arange(choices.n_items), own)
        best = np.sort(scores[user, left])[::-1][:4]
        kept = found[user][found[user] >= 0]
        assert not np.isin(kept, own).any()
        np.testing.assert_allclose(scores[user, kept], best, atol=1e-5)


def test_items_beyond_the_head_are_never_first(choices: Cohort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ease, "MOST_ITEMS", 5)
    model = fit_ease(choices, ridge=7.0)
    counts = np.bincount(choices.items, minlength=choices.n_items)

    assert model.weights.shape == (5, 5)
    assert counts[model.head].min() >= np.delete(counts, model.head).max()
    users = np.arange(choices.n_users, dtype=np.int32)
    rare = np.full(choices.n_users, np.setdiff1d(np.arange(choices.n_items), model.head)[0], dtype=np.int32)
    assert not model.predict(choices, users, rare).any()
