"""What one user adds to each release, by brute force on the integers that leave her device."""

import numpy as np
import pytest

from fedboard.common.algorithms.topk import device
from fedboard.common.algorithms.topk.device import ENERGY_UNITS, Stage, bounded, energies_width
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import PrivacyError
from fedboard.common.kernels.packed import unpack_symmetric
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from tests.common.algorithms.topk.boards import POSITIVES, a_task, board_before, cohort

MATRICES = (Stage.START, Stage.DIRECTIONS)


def norm(given: Contribution, request: Request) -> float:
    """Of everything that these rows add to a release, isometric, in exact integers up to the root."""
    (sums,) = whole_sums(FactoredSums.of(given), (request,)).values()
    weight = np.rint((request.release.noise_stddev / request.release.column_stddev()) ** 2).astype(int)
    squares = [int(value) ** 2 * int(w) for row in sums for value, w in zip(row, weight, strict=True)]
    return float(np.sqrt(float(sum(squares))))


@pytest.mark.parametrize("learnt_share", [1.0, 0.3])
@pytest.mark.parametrize("stage", list(Stage))
def test_nobody_adds_more_than_the_bound_after_rounding(stage: Stage, learnt_share: float) -> None:
    task, everybody = a_task(), cohort()
    board = board_before(stage, task, learnt_share=learnt_share)
    requests = task.requests(board)
    for user, number in enumerate(POSITIVES):
        own = everybody.rows(user, user + 1)
        given = task.contribute(own, board, requests)
        for request in requests:
            added = norm(given, request)
            assert added <= request.release.l2_bound * (1 + 1e-12)
            if (number < 2 and stage in (Stage.START, Stage.ENERGIES)) or number == 0:
                assert added == 0.0
            if number == 1 and stage is Stage.DIRECTIONS and board.arrays["learnt"][own.items[0]]:
                counts = np.sqrt(
                    task.settings.count_share
                )  # an item alone is half of no pair: it only counts
                assert added == pytest.approx(counts * request.release.l2_bound, rel=1e-3)
            if number > 40 and stage in MATRICES:  # nothing of the budget is left unused
                assert added > 0.97 * request.release.l2_bound


@pytest.mark.parametrize("learnt_share", [1.0, 0.3])
@pytest.mark.parametrize("stage", list(Stage)[1:])
def test_counting_on_keeps_the_bounds_and_gives_the_counts(stage: Stage, learnt_share: float) -> None:
    """Each person's row has norm 1 among the items that are still counted, whatever else she has."""
    task, everybody = a_task(), cohort()
    board = board_before(stage, task, personal=False, learnt_share=learnt_share)
    (request,) = task.requests(board)
    leading = np.argsort(-board.arrays["item_counts"], kind="stable")[: energies_width(task.settings)]
    still = {
        Stage.START: np.any(board.arrays["item_factors"] != 0, axis=1),
        Stage.DIRECTIONS: board.arrays["learnt"] != 0,
        Stage.ENERGIES: np.isin(np.arange(everybody.n_items), leading),
    }[stage]
    for user in range(everybody.n_users):
        own = everybody.rows(user, user + 1)
        added = norm(task.contribute(own, board, (request,)), request)
        assert added <= request.release.l2_bound * (1 + 1e-12)
        assert added > 0.97 * request.release.l2_bound if still[own.items].any() else added == 0.0
    (sums,) = whole_sums(FactoredSums.of(task.contribute(everybody, board, (request,))), (request,)).values()
    counts = np.zeros(everybody.n_items)
    counted = everybody.where(still[everybody.items])
    np.add.at(counts, counted.items, device.unit_rows(counted))
    if stage is Stage.START:
        items, places = np.nonzero(board.arrays["item_factors"])
        rank = task.settings.start_width + 1
        found = 2 * unpack_symmetric(sums * request.release.grid_step, rank=rank)[0][places, -1]
        assert np.abs(found - counts[items]).max() < 5e-3
    if stage is Stage.DIRECTIONS:
        assert np.abs(sums[:, -1] * request.release.grid_step - counts).max() < 1e-3
        assert (sums[:, :-1] == 0).all()
    if stage is Stage.ENERGIES:
        found = sums[0] * request.release.grid_step / task.settings.energy_bound
        assert np.abs(found - counts[leading]).max() < 1e-5


@pytest.mark.parametrize("stage", MATRICES)
def test_a_matrix_is_that_of_her_items_scaled_to_norm_one(stage: Stage) -> None:
    task, everybody = a_task(), cohort()
    board = board_before(stage, task)
    request = task.requests(board)[0]
    own = everybody.rows(4, 5)
    (sums,) = whole_sums(FactoredSums.of(task.contribute(own, board, (request,))), (request,)).values()
    z = np.zeros(everybody.n_items)
    z[own.items] = 1 / np.sqrt(own.n_ratings)
    along = z @ board.arrays["item_factors"].astype(np.float64)
    if stage is Stage.START:
        vector = np.append(along, device.CONSTANT)
        expected = np.outer(vector, vector)[np.triu_indices(vector.size)][None] / (vector @ vector)
    else:
        vector = np.append(along, device.OWN_SHARE / np.sqrt(own.n_ratings))
        share = task.settings.count_share
        unit = np.sqrt(1.0 - share) * vector / np.linalg.norm(vector)
        expected = np.outer(z, np.append(unit, np.sqrt(share)))
    assert np.abs(sums * request.release.grid_step - expected).max() < 2e-3


@pytest.mark.parametrize(
    ("adjacency", "factors"),
    [(Adjacency.ADD_REMOVE, (1.0, 1.0, 1.0, 1.0)), (Adjacency.REPLACE, (2**0.5, 2**0.5, 2.0, 2.0))],
)
def test_under_replace_what_may_cancel_counts_twice(adjacency: Adjacency, factors: tuple[float, ...]) -> None:
    plan = a_task(adjacency).plan()
    sensitivities = [asked[0].release.l2_sensitivity / asked[0].release.l2_bound for asked in plan]
    assert sensitivities == pytest.approx(factors)


def test_energies_keep_their_bound_in_integers_wherever_rounding_could_break_it() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((500, 31)) * rng.choice([1e-12, 1.0, 1e12], (500, 1))
    rows[0], rows[1] = 0.0, 0.4 / np.sqrt(31)
    units = bounded(rows, 0.4)
    assert max(sum(int(value) ** 2 for value in row) for row in units) <= ENERGY_UNITS**2
    assert np.linalg.norm(units[1]) > 0.99 * ENERGY_UNITS
    with pytest.raises(PrivacyError, match="finite"):
        bounded(np.full((1, 2), np.nan), 0.4)
