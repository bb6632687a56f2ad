"""Weighted risk by noisy gradients: a part keeps its bound, the budget is spent exactly, the answer is right."""

from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from research.epasto.bounding import PublicSizes
from research.epasto.descent import NoisyDescent

SIZES = PublicSizes(sizes=np.array([1, 1, 2, 3, 8, 30]), public_because="they are made up")
USERS = np.repeat(np.arange(6), SIZES.sizes)
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(USERS.size, 3))
LABELS = np.where(FEATURES @ np.array([1.0, -2.0, 0.5]) + 3 * RNG.normal(size=USERS.size) > 0, 1.0, -1.0)
DELTA = 1e-6


def ledger_of(place: Path, epsilon: float) -> Ledger:
    return Ledger.create(place, Budget(epsilon=epsilon, delta=DELTA, adjacency=Adjacency.REPLACE_VALUES))


def answer(question: NoisyDescent, ledger: Ledger, z: float, labels: np.ndarray = LABELS) -> np.ndarray:
    return question.answer(
        FEATURES, labels, USERS, name="risk", noise_multiplier=z, ledger=ledger, noise=SeededNoise(0)
    )


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_exchanging_a_user_s_rows_moves_a_step_by_no_more_than_its_noise_covers(size: float) -> None:
    question = NoisyDescent(sizes=SIZES, bound=2.5, clip=0.7)
    release = question.release("risk", 1, width=3, noise_multiplier=1.0)
    theta, rng, largest = np.array([0.5, -1.0, 2.0]), np.random.default_rng(1), 0.0
    for _ in range(60):
        features, labels = FEATURES.copy(), LABELS.copy()
        user = rng.integers(6)
        mine = user == USERS
        features[mine] = size * rng.normal(size=(int(mine.sum()), 3))
        labels[mine] = rng.choice([-1.0, 1.0], int(mine.sum()))
        before, after = (
            question.parts(theta, f, y, USERS).sum(axis=0)
            for f, y in ((FEATURES, LABELS), (features, labels))
        )
        moved = float(np.linalg.norm((after - before).astype(float)))
        largest = max(largest, moved / release.l2_sensitivity)
    assert largest <= 1.0
    # The bound is reached: somebody with as many rows as count points all of them the other way.
    ends = []
    for sign in (-1.0, 1.0):
        features = FEATURES.copy()
        features[USERS == 5] = sign * size * np.array([1.0, 0.0, 0.0])
        ends.append(question.parts(np.zeros(3), features, np.ones(USERS.size), USERS).sum(axis=0))
    reached = float(np.linalg.norm((ends[1] - ends[0]).astype(float))) / release.l2_sensitivity
    assert reached <= 1.0
    assert reached > 0.999 or size == 1.0
    # With weights that forget h it would be broken.
    heavier = NoisyDescent(sizes=SIZES, bound=30.0, clip=0.7)
    assert heavier.longest > 2 * question.longest


def test_all_steps_together_spend_the_budget_and_one_more_is_refused(tmp_path: Path) -> None:
    question = NoisyDescent(sizes=SIZES, bound=2.0, steps=5)
    z = (1 + 1e-6) / mu_for(3.0, DELTA)
    with ledger_of(tmp_path / "l", 3.0) as ledger:
        answer(question, ledger, z)
        assert 2.999 < ledger.spent().epsilon <= 3.0
        with pytest.raises(BudgetExceededError):
            question.answer(
                FEATURES, LABELS, USERS, name="more", noise_multiplier=z, ledger=ledger, noise=SeededNoise(0)
            )


def test_without_noise_to_speak_of_it_finds_the_minimiser_of_the_clipped_weighted_risk(
    tmp_path: Path,
) -> None:
    """Clipping at a length that no gradient has leaves the risk as it is; scipy minimises that by itself."""
    question = NoisyDescent(sizes=SIZES, bound=2.0, steps=80, reach=60.0, clip=10.0)
    with ledger_of(tmp_path / "l", 1e13) as ledger:
        found = answer(question, ledger, 1e-6)

    capped = np.minimum(2.0, SIZES.sizes)
    weights = (capped / capped.sum() / SIZES.sizes)[USERS]

    def risk(theta: np.ndarray) -> float:
        return float(weights @ np.logaddexp(0.0, -LABELS * (FEATURES @ theta)))

    least = optimize.minimize(risk, np.zeros(3), bounds=[(-10, 10)] * 3).fun
    assert risk(found) <= least + 4e-3
    assert risk(np.zeros(3)) > least + 0.02


def test_gradients_are_clipped_row_by_row() -> None:
    question = NoisyDescent(sizes=SIZES, bound=30.0, clip=0.1)
    parts = question.parts(np.zeros(3), FEATURES, LABELS, USERS) * (question.longest / (1 << 30))

    weights = SIZES.value_weights(30.0)[USERS]
    wanted = np.zeros((6, 3))
    for row, (x, y, user) in enumerate(zip(FEATURES, LABELS, USERS, strict=True)):
        gradient = -0.5 * y * x  # of log(1 + exp(-y <theta, x>)) at 0
        wanted[user] += weights[row] * gradient * min(1.0, 0.1 / np.linalg.norm(gradient))
    np.testing.assert_allclose(parts, wanted, atol=1e-9)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"bound": 0.0}, {"box": -1.0}, {"clip": np.inf}, {"reach": 0.0}]
)
def test_settings_out_of_range_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        NoisyDescent(**({"sizes": SIZES, "bound": 1.0} | wrong))  # type: ignore[arg-type]


def test_what_is_not_as_declared_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    question = NoisyDescent(sizes=SIZES, bound=2.0, steps=3)
    with ledger_of(tmp_path / "l", 5.0) as ledger:
        with pytest.raises(InputError, match="labels of the logistic loss"):
            answer(question, ledger, 1.0, labels=np.zeros(USERS.size))
        with pytest.raises(PrivacyError, match="NaN"):
            answer(question, ledger, 1.0, labels=np.full(USERS.size, np.nan))
        with pytest.raises(InputError, match="declared contribution sizes"):
            question.answer(
                FEATURES,
                LABELS,
                USERS[::-1] % 5,
                name="r",
                noise_multiplier=1.0,
                ledger=ledger,
                noise=SeededNoise(0),
            )
        assert ledger.spent().epsilon == 0.0
