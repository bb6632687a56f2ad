"""Whole runs on made-up people with tastes: better than popularity where it can be, popularity where it cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.recommending.recommend import explain, nearest_items, recommend
from fedboard.common import kernels
from fedboard.common.algorithms.registry import variant_of
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.topk.algorithm import TopK
from fedboard.common.algorithms.topk.device import STAGES, energies_width, of_stage
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.item_features import CatalogueFeatures
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.server.calibrating import Training, calibrated_task
from fedboard.server.round import run_round
from fedboard.server.run_spec import Promise
from fedboard.server.runtime import Gathered
from fedboard.simulations.engine import Engine, WorkerPool

N_USERS, N_ITEMS, KINDS = 700, 120, 4
DELTA = 1e-5


@pytest.fixture(scope="module")
def people() -> Cohort:
    """Each likes one kind of item best; popularity falls within each kind."""
    rng = np.random.default_rng(4)
    appeal = np.tile(np.linspace(1.0, 0.2, N_ITEMS // KINDS), KINDS)
    kind = np.repeat(np.arange(KINDS), N_ITEMS // KINDS)
    liked = np.where(kind[None, :] == rng.integers(0, KINDS, N_USERS)[:, None], 0.45, 0.05) * appeal
    users, items = np.nonzero(rng.random((N_USERS, N_ITEMS)) < liked)
    ones = np.ones(users.size, dtype=np.float32)
    return cohort_from_triples(
        users.astype(np.int32), items.astype(np.int32), ones, n_users=N_USERS, n_items=N_ITEMS
    )


def catalogue(*, with_features: bool) -> Catalogue:
    kind = np.repeat(np.arange(KINDS), N_ITEMS // KINDS)
    features = CatalogueFeatures(
        number_names=(),
        numbers=np.zeros((N_ITEMS, 0), dtype=np.float32),
        label_names=tuple(f"kind {number}" for number in range(KINDS)),
        labels=(kind[:, None] == np.arange(KINDS)).astype(np.uint8),
    )
    names = tuple(f"item {number}" for number in range(N_ITEMS))
    return Catalogue(item_ids=names, titles=names, features=features if with_features else None)


class Watched:
    """A runtime that tells what leaves the server: what is read of the noised sums."""

    def __init__(self, inner: Engine, left: list[str]) -> None:
        self._inner, self._left = inner, left

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        return self._inner.gather(board, requests, attendance)

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        released, left = self._inner.open(sums, requests, booked), self._left

        class Told:
            noise_ratio = released.noise_ratio
            map_items = released.map_items

            def array(self, name: str) -> FloatArray:
                left.append(name)
                return released.array(name)

        return Told()


def run(
    people: Cohort, folder: Path, epsilon: float, *, with_features: bool, left: list[str] | None = None
) -> tuple[TopK, Board]:
    promise = Promise(epsilon=epsilon, delta=DELTA, adjacency=Adjacency.ADD_REMOVE, seed=2)
    training = Training(algorithm=variant_of("topk"), feedback=Feedback.IMPLICIT, promise=promise)
    task = calibrated_task(training, rating_range=(0.0, 1.0), backend="numpy").task
    assert isinstance(task, TopK)
    budget = Budget(epsilon=epsilon, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    board = task.first_board(catalogue(with_features=with_features))
    with (
        Ledger.create(folder / f"{epsilon:g}-{with_features}", budget) as ledger,
        WorkerPool(1) as pool,
        Engine(task, people, protocol=Trusted(), pool=pool) as engine,
    ):
        runtime = Watched(engine, [] if left is None else left)
        while task.requests(board):
            board = run_round(task, board, runtime=runtime, ledger=ledger, noise=SeededNoise(1)).board
    return task, board


def hit_rate(task: TopK, board: Board, people: Cohort) -> float:
    """How often one of a person's items is among the ten that the others recommend."""
    enough = people.counts > 2
    place = people.indptr[:-1] + np.random.default_rng(6).integers(0, np.maximum(people.counts, 1))
    hidden = np.zeros(people.n_ratings, dtype=bool)
    hidden[place[enough]] = True
    known = people.where(~hidden)
    users, items = task.ranking_factors(task.fit_local(known, board), board)
    lists = kernels.top_k(
        users, items, k=10, exclude_indptr=known.indptr, exclude_items=known.items, backend="numpy"
    )
    found: np.ndarray = (lists[enough] == people.items[place[enough]][:, None]).any(axis=1)
    return float(found.mean())


@pytest.mark.slow
@pytest.mark.parametrize("with_features", [True, False])
def test_lists_follow_tastes_and_explain_themselves(
    people: Cohort, tmp_path: Path, with_features: bool
) -> None:
    task, board = run(people, tmp_path, 8.0, with_features=with_features)
    assert board.arrays["personal"][0] == 1
    floor_task, floor = run(people, tmp_path, 0.01, with_features=with_features)
    assert hit_rate(task, board, people) > 1.3 * hit_rate(floor_task, floor, people)

    own = people.rows(int(np.argmax(people.counts)), int(np.argmax(people.counts)) + 1)
    best = recommend(own, board, k=5)
    assert len(best) == 5
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    first = board.catalogue.item_ids.index(best[0].item_id)
    told = explain(own, board, first)
    assert told.prediction == pytest.approx(best[0].score)
    assert told.total == pytest.approx(told.prediction, rel=1e-4)
    alike = [board.catalogue.item_ids.index(one.item_id) for one in nearest_items(board, first, k=3)]
    assert [item // (N_ITEMS // KINDS) for item in alike] == [first // (N_ITEMS // KINDS)] * 3


@pytest.mark.parametrize("with_features", [True, False])
def test_where_noise_drowns_the_rest_the_whole_budget_counts(
    people: Cohort, tmp_path: Path, with_features: bool
) -> None:
    task, board = run(people, tmp_path, 0.05, with_features=with_features)

    assert board.arrays["personal"][0] == 0
    assert board.version == len(task.plan())
    deviation = {
        request.name: request.release.noise_stddev * request.release.grid_step
        for version in range(len(STAGES))
        for request in of_stage(STAGES[version], task.settings, n_items=N_ITEMS)
    }
    precision = deviation["counts"] ** -2 + deviation["start"] ** -2 / 2 + deviation["directions"] ** -2
    once_more = (deviation["energies"] / task.settings.energy_bound) ** -2
    variances = np.sort(board.arrays["count_variance"])
    leading = energies_width(task.settings)
    assert 0.5 / (precision + once_more) < variances[0]  # among fewer items each counts more
    assert variances[leading - 1] <= 1.0001 / (precision + once_more)
    assert 0.9 / precision < variances[leading]
    assert variances[-1] <= 1.0001 / precision
    counts = np.argsort(-board.arrays["noisy_counts"], kind="stable")
    learnt = counts[np.asarray(board.arrays["learnt"])[counts] != 0]
    nobody = people.rows(0, 1).where(np.zeros(people.counts[0], dtype=bool))
    best = [one.item_id for one in recommend(nobody, board, k=9)]
    assert best == [board.catalogue.item_ids[item] for item in learnt[:9]]


def test_a_run_takes_the_same_course_whatever_is_released(people: Cohort, tmp_path: Path) -> None:
    def course(users: Cohort, folder: str) -> tuple[object, int]:
        (tmp_path / folder).mkdir()
        left: list[str] = []
        task, board = run(users, tmp_path / folder, 8.0, with_features=True, left=left)
        shapes = {name: (str(array.dtype), array.shape) for name, array in board.arrays.items()}
        asked = [
            (one.name, one.source, one.release.rows, one.release.width)
            for version in range(len(STAGES))
            for one in task.requests(replace(board, version=version))
        ]
        return (asked, sorted(set(left)), shapes), int(board.arrays["personal"][0])

    everybody, learnt = course(people, "everybody")
    nobody, not_learnt = course(people.where(np.zeros(people.n_ratings, dtype=bool)), "nobody")
    assert (learnt, not_learnt) == (1, 0)
    assert everybody == nobody
