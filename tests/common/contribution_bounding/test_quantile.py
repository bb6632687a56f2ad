"""Private quantiles: right within what the noise implies, of sensitivity exactly 1, booked like any release."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedboard.common.algorithms.shared.adaptive_clipping import PRESENCE_BOUND, AdaptiveClip
from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import BudgetExceededError, PrivacyError
from fedboard.common.privacy.accounting.exact import epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protocols.trusted import Trusted, rows_within_bounds

CLIP = AdaptiveClip(target=0.5, initial=1.0, lower=1e-3, upper=1e3)
N_USERS = 20_000
NAMES = ("norms", "again")


def norms_of(n_users: int = N_USERS) -> np.ndarray:
    return np.random.default_rng(0).lognormal(-0.5, 0.6, n_users)


def asked(
    form: AdaptiveClip, *, name: str = "norms", multiplier: float = 10.0, adjacency: str = "add-remove"
) -> Request:
    run = RatingsConfig(adjacency=Adjacency(adjacency), noise_multipliers=dict.fromkeys(NAMES, multiplier))
    return form.request(run, name)


def all_rows() -> np.ndarray:
    """Every row that a user can have, and that of nobody."""
    rows = CLIP.rows(np.geomspace(1e-4, 1e4, 500), 1.0)
    return np.concatenate([np.unique(rows, axis=0), np.zeros((1, rows.shape[1]), dtype=np.int64)])


def contribution(rows: np.ndarray) -> Contribution:
    return Contribution(
        n_items=1,
        indptr=np.zeros(len(rows) + 1, dtype=np.int64),
        items=np.empty(0, dtype=np.int32),
        totals={"norms": rows},
    )


def published(
    request: Request, rows: np.ndarray, folder: Path, noise: SeededNoise | SecureNoise
) -> np.ndarray:
    sums = Trusted().combine([Trusted().encode(contribution(rows), [request])], [request])
    budget = Budget(epsilon=1e3, delta=1e-5, adjacency=request.release.adjacency)
    with Ledger.create(folder / "ledger", budget) as ledger:
        booked = request.release.book(ledger, noise)
    return booked.publish(sums.block([request], 0, 1)["norms"])


def largest_change(rows: np.ndarray, adjacency: str) -> float:
    if adjacency == "add-remove":
        return float(np.linalg.norm(rows, axis=1).max())
    return max(float(np.linalg.norm(first - second)) for first, second in product(rows, rows))


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_booked_sensitivity_is_the_largest_change_to_the_last_digit(adjacency: Adjacency) -> None:
    release = asked(CLIP, adjacency=adjacency).release
    rows = all_rows()

    assert largest_change(rows, adjacency) == pytest.approx(release.l2_sensitivity, rel=1e-12)
    # A twin whose rows are twice as long exceeds it.
    assert largest_change(2 * rows, adjacency) > 1.9 * release.l2_sensitivity


def test_the_aggregator_drops_rows_beyond_the_bound() -> None:
    request, rows = asked(CLIP), all_rows()
    one = rows[0]

    assert rows_within_bounds(contribution(rows), [request]).all()
    for wrong in (2 * one, -one, np.full_like(one, PRESENCE_BOUND)):
        assert not rows_within_bounds(contribution(wrong[None, :]), [request]).any()
    with pytest.raises(PrivacyError, match="bound"):
        Trusted().encode(contribution(2 * rows), [request])


@given(st.lists(st.floats(0, 1e300), max_size=20), st.floats(1e-3, 1e3))
def test_any_norms_give_one_place_each(norms: list[float], bound: float) -> None:
    rows = CLIP.rows(np.array(norms), bound)

    assert np.array_equal(rows[:, 0], PRESENCE_BOUND * (np.array(norms) <= bound))
    assert np.all(np.sort(rows, axis=1)[:, :-1] == 0)
    assert np.all(rows.sum(axis=1) == PRESENCE_BOUND)


def test_the_release_is_in_the_ledger_with_its_cost(tmp_path: Path) -> None:
    request = asked(CLIP, multiplier=4.0)
    budget = Budget(epsilon=1.5 * epsilon_of(1e-5, mu=0.25), delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(tmp_path / "ledger", budget) as ledger:
        request.release.book(ledger, SecureNoise())
        (event,) = ledger.events()

        assert event["noise_stddev"] == 4.0 * PRESENCE_BOUND
        assert ledger.spent().epsilon == pytest.approx(epsilon_of(1e-5, mu=0.25), rel=1e-9)
        again = asked(CLIP, name="again", multiplier=2.0)
        with pytest.raises(BudgetExceededError):
            again.release.book(ledger, SecureNoise())


def test_no_noise_is_refused() -> None:
    with pytest.raises(PrivacyError, match="noise_multiplier"):
        asked(CLIP, multiplier=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.1, 0.5, 0.85])
@pytest.mark.parametrize("start", [4.0, 0.25])
def test_the_bound_reaches_the_quantile_and_stays_within_its_noise(
    target: float, start: float, tmp_path: Path
) -> None:
    norms, multiplier = norms_of(), 40.0
    right = float(np.quantile(norms, target))
    form = AdaptiveClip(target=target, rate=2.0, initial=start * right, lower=1e-3, upper=1e3)
    bound, shares = form.initial, []
    for t in range(40):
        folder = tmp_path / str(t)
        folder.mkdir()
        rows = form.rows(norms, bound)
        bound = form.update(
            bound, published(asked(form, multiplier=multiplier), rows, folder, SeededNoise(t))
        )
        shares.append(float(np.mean(norms <= bound)))

    # Noise of (1 - target) w - target b, per user; the walk adds up less than a few of them.
    noise = multiplier * math.hypot(target, 1 - target) / N_USERS
    assert np.abs(np.array(shares[20:]) - target).max() < 8 * noise
    assert 8 * noise < 0.05  # so that a neighbouring quantile would be noticed


def test_noise_alone_never_moves_the_bound_far_nor_out_of_its_range() -> None:
    form = AdaptiveClip(target=0.5, rate=2.0, initial=1.0, lower=0.5, upper=2.0)

    assert form.update(1.0, np.array([-1e9, 1e9])) == 2.0
    assert form.update(1.0, np.array([1e9, -1e9])) == 0.5
    assert form.update(1.0, np.array([0.0, 0.0])) == 1.0
    wide = AdaptiveClip(target=0.5, rate=1.0, initial=1.0, lower=1e-9, upper=1e9)
    assert wide.update(1.0, np.array([-1e9, 1e9])) == pytest.approx(math.exp(0.5))


def test_norms_that_are_not_numbers_never_leave_the_device() -> None:
    for wrong in (np.nan, np.inf):
        with pytest.raises(PrivacyError, match="finite"):
            CLIP.rows(np.array([1.0, wrong]), 1.0)
