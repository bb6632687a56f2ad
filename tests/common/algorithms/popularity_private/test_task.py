"""Private popularity: what a user can move, and that the order is that of the released counts."""

import numpy as np

from fedboard.common.algorithms.popularity_private.algorithm import PopularityConfig, PopularityPrivate
from fedboard.common.algorithms.shared.ratings_config import with_noise
from fedboard.common.board import Catalogue
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from tests.common.algorithms.conftest import N_ITEMS, population, presence

CATALOGUE = Catalogue(item_ids=tuple(map(str, range(N_ITEMS))))


def a_task() -> PopularityPrivate:
    return PopularityPrivate(with_noise(PopularityConfig(), noise_multipliers(5.0, 1e-5, {"counts": 1.0})))


def test_every_user_moves_the_counts_by_her_whole_bound_and_no_more() -> None:
    task, cohort = a_task(), presence(population())
    board = task.first_board(CATALOGUE)
    requests = task.requests(board)
    whole = whole_sums(FactoredSums.of(task.contribute(cohort, board, requests)), requests)["counts"]
    for user in range(cohort.n_users):
        others = cohort.where(cohort.user_of_entry() != user)
        without = whole_sums(FactoredSums.of(task.contribute(others, board, requests)), requests)["counts"]
        moved = np.linalg.norm((whole - without).astype(np.float64))

        assert moved <= requests[0].release.l2_sensitivity
        assert moved > 0.99 * requests[0].release.l2_sensitivity or cohort.counts[user] == 0


def test_everybody_is_recommended_the_most_chosen_first() -> None:
    task, cohort = a_task(), presence(population())
    counts = np.random.default_rng(0).normal(0.0, 30.0, N_ITEMS).astype(np.float32)
    board = task.first_board(CATALOGUE).successor(popularity=counts)
    local = task.fit_local(cohort, board)
    users, items = task.ranking_factors(local, board)

    scores = task.predict(local, board, np.zeros(N_ITEMS, dtype=np.int32), np.arange(N_ITEMS, dtype=np.int32))
    np.testing.assert_array_equal(np.argsort(-scores), np.argsort(-counts))
    np.testing.assert_array_equal((users @ items.T)[7], counts)
