"""ALS against the objective written out with dense matrices."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.als import AlsConfig, AlsModel, fit_als

STARS = (1.0, 5.0)
PLAIN = AlsConfig(
    feedback=Feedback.EXPLICIT,
    rank=3,
    sweeps=6,
    user_ridge=0.7,
    item_ridge=0.4,
    user_ridge_exponent=0.25,
    item_ridge_exponent=0.5,
    rating_range=STARS,
)
BIASED = replace(PLAIN, biases=True)
IMPLICIT = replace(
    PLAIN, feedback=Feedback.IMPLICIT, unobserved_weight=0.3, rating_range=None, user_ridge_exponent=1.0
)
VARIANTS = pytest.mark.parametrize("config", [PLAIN, BIASED, IMPLICIT], ids=["plain", "biased", "implicit"])


def training_set(config: AlsConfig, ratings: Cohort, choices: Cohort) -> Cohort:
    return choices if config.feedback is Feedback.IMPLICIT else ratings


@dataclass(frozen=True)
class DenseProblem:
    """The same objective with full matrices, float64, and no shared code."""

    config: AlsConfig
    rated: FloatArray
    labels: FloatArray

    @classmethod
    def of(cls, config: AlsConfig, train: Cohort) -> "DenseProblem":
        rated, values = np.zeros((2, train.n_users, train.n_items))
        rated[train.user_of_entry(), train.items] = 1.0
        values[train.user_of_entry(), train.items] = train.ratings
        mean = 0.0 if config.feedback is Feedback.IMPLICIT else values.sum() / rated.sum()
        return cls(config, rated, (values - mean) * rated)

    def ridges(self) -> tuple[FloatArray, FloatArray]:
        c = self.config
        active_users = np.count_nonzero(self.rated.sum(1))
        seen_by_user = np.maximum(self.rated.sum(1) + c.unobserved_weight * self.rated.shape[1], 1)
        seen_by_item = np.maximum(self.rated.sum(0) + c.unobserved_weight * active_users, 1)
        return (
            c.user_ridge * seen_by_user**c.user_ridge_exponent,
            c.item_ridge * seen_by_item**c.item_ridge_exponent,
        )

    def objective(self, users: Float32Array, items: Float32Array) -> float:
        v, u, first = users.astype(np.float64), items.astype(np.float64), int(self.config.biases)
        products = v[:, first:] @ u[:, first:].T
        errors = self.rated * (self.labels - products)
        if first:
            errors = self.rated * (self.labels - products - v[:, :1] - u[:, 0])
        user_ridge, item_ridge = self.ridges()
        return float(
            np.sum(errors**2)
            + self.config.unobserved_weight * np.sum(products**2)
            + np.sum(user_ridge[:, None] * v**2)
            + np.sum(item_ridge[:, None] * u**2)
        )


def every_model(train: Cohort, config: AlsConfig) -> list[AlsModel]:
    models: list[AlsModel] = []
    fit_als(train, config, on_progress=lambda _, model: models.append(model))
    return models


def slopes(problem: DenseProblem, users: Float32Array, items: Float32Array, *, of: str) -> FloatArray:
    """Central differences; the objective is quadratic in one side, so they are exact up to rounding."""
    step, moved = 1e-3, {"users": users.astype(np.float64), "items": items.astype(np.float64)}
    result = np.empty(moved[of].shape)
    for place in np.ndindex(result.shape):
        values = []
        for sign in (1, -1):
            shifted = moved[of].copy()
            shifted[place] += sign * step
            values.append(problem.objective(**(moved | {of: shifted})))
        result[place] = (values[0] - values[1]) / (2 * step)
    return result


@VARIANTS
def test_slope_is_zero_in_the_item_coordinates_after_the_item_step(config, ratings, choices, backend):
    train = training_set(config, ratings, choices)
    *_, before, after = every_model(train, replace(config, backend=backend))

    found = slopes(
        DenseProblem.of(config, train), before.fit_local(train), after.item_coordinates, of="items"
    )

    assert np.abs(found).max() < 1e-4


@VARIANTS
def test_each_sweep_lowers_the_objective(config, ratings, choices, backend):
    train = training_set(config, ratings, choices)
    problem = DenseProblem.of(config, train)

    values = [
        problem.objective(model.fit_local(train), model.item_coordinates)
        for model in every_model(train, replace(config, backend=backend))
    ]

    assert len(values) == config.sweeps
    assert np.all(np.diff(values) < 0)


@VARIANTS
def test_threads_and_repetition_do_not_change_a_bit(config, ratings, choices, backend):
    train = training_set(config, ratings, choices)

    model = fit_als(train, replace(config, backend=backend, threads=2))

    again = fit_als(train, replace(config, backend=backend))
    np.testing.assert_array_equal(model.item_coordinates, again.item_coordinates)


@pytest.mark.parametrize("config", [PLAIN, BIASED], ids=["plain", "biased"])
def test_ratings_that_a_small_model_explains_are_reproduced(config):
    rng = np.random.default_rng(0)
    users, items = (part.ravel().astype(np.int32) for part in np.mgrid[:40, :25])
    left, right = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, (25, 2))
    values = (3.0 + 0.9 * (left @ right.T)).ravel().astype(np.float32)
    train = cohort_from_triples(users, items, values, n_users=40, n_items=25)

    model = fit_als(train, replace(config, user_ridge=1e-4, item_ridge=1e-4, sweeps=30))

    assert np.abs(model.predict(train, users, items) - values).max() < 0.01


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (PLAIN, {"rank": 0}),
        (PLAIN, {"sweeps": 0}),
        (PLAIN, {"threads": 0}),
        (PLAIN, {"seed": -1}),
        (PLAIN, {"user_ridge": 0.0}),
        (PLAIN, {"item_ridge": float("nan")}),
        (PLAIN, {"item_ridge_exponent": 1.5}),
        (PLAIN, {"unobserved_weight": 0.1}),
        (PLAIN, {"rating_range": None}),
        (PLAIN, {"rating_range": (5.0, 1.0)}),
        (IMPLICIT, {"unobserved_weight": 0.0}),
        (IMPLICIT, {"biases": True}),
    ],
)
def test_option_out_of_range_is_refused_by_name(config, changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        replace(config, **changes)
