"""What a task gets to read is each sum with its own noise, cell by cell, whatever blocks it is handed over in."""

import itertools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.contribution import Request
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease, GaussianRelease
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.server import runtime as runtime_module
from fedboard.server.runtime import Gathered, NoisedSums
from fedboard.simulations.audit.pipeline import Recorder, RecordingSums
from fedboard.simulations.engine import Engine, WorkerPool
from tests.common.algorithms.conftest import a_prepared_board, a_task, population

pytestmark = pytest.mark.slow

TASK = a_task(rank=3)
NOISE = SeededNoise(11)
BUDGET = Budget(epsilon=1e6, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
SIZES = [1, 25, 64, 65, 300]
Booked = Mapping[str, BookedRelease]


def read(released: ReleasedSums, board: Board, folder: Path) -> dict[str, FloatArray]:
    """What the task gets to see of a round while it makes the next board, in this process and in the workers'."""
    recorder = Recorder(folder)
    TASK.update(board, RecordingSums(released, recorder))
    found = {request.name: recorder.read(request.name) for request in TASK.requests(board)}
    return {name: left.values for name, left in found.items() if left is not None}


def by_definition(release: GaussianRelease, exact: IntArray) -> FloatArray:
    """``floor((S + rint(sigma N)) / 2^shift) 2^shift`` in real units; N of a cell is the draw of its own number."""
    draws = NOISE.stream(release.name).normal(0, exact.size).reshape(exact.shape)
    noisy = exact + np.rint(draws * release.column_stddev()).astype(np.int64)
    coarse: FloatArray = (noisy >> release.release_shift).astype(np.float64)
    return coarse * release.published_step


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(2) as two:
        yield two


def boards(n_items: int) -> list[Board]:
    prepared = a_prepared_board(TASK, n_items=n_items)
    return [TASK.first_board(Catalogue(item_ids=prepared.catalogue.item_ids)), prepared]


def gathered(board: Board, n_items: int) -> tuple[tuple[Request, ...], Gathered]:
    requests, protocol = TASK.requests(board), Trusted()
    rows = TASK.contribute(population(1, n_items=n_items), board, requests)
    return requests, Gathered(sums=protocol.combine([protocol.encode(rows, requests)], requests))


def booked(requests: tuple[Request, ...], folder: Path) -> Booked:
    with Ledger.create(folder / "ledger.sqlite", BUDGET) as ledger:
        return {request.name: request.release.book(ledger, NOISE) for request in requests}


def assert_cells(
    found: Mapping[str, FloatArray], requests: tuple[Request, ...], exact: Mapping[str, IntArray]
) -> None:
    """Every number that was read is its sum with the noise of its own place."""
    assert set(found) == {request.name for request in requests}
    for request in requests:
        np.testing.assert_array_equal(
            found[request.name], by_definition(request.release, exact[request.name])
        )


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("n_items", SIZES)
@pytest.mark.parametrize("numbers", [40, 1 << 20])
def test_every_cell_has_its_own_noise_in_blocks_of_any_size(
    stage: int, n_items: int, numbers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "_NUMBERS_PER_BLOCK", numbers)
    board = boards(n_items)[stage]
    requests, all_rows = gathered(board, n_items)

    released = NoisedSums(sums=all_rows.sums, requests=requests, booked=booked(requests, tmp_path))

    assert_cells(read(released, board, tmp_path), requests, whole_sums(all_rows.sums, requests))


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("n_items", [65, 300])
def test_every_cell_has_its_own_noise_when_workers_share_the_items(
    stage: int, n_items: int, tmp_path: Path, pool: WorkerPool
) -> None:
    board, cohort = boards(n_items)[stage], population(1, n_items=n_items)
    requests = TASK.requests(board)
    with Engine(TASK, cohort, protocol=Trusted(), pool=pool) as engine:
        sums = engine.gather(board, requests).sums
        found = read(engine.open(sums, requests, booked(requests, tmp_path)), board, tmp_path)

        assert_cells(found, requests, whole_sums(sums, requests))


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 7000), max_size=6), width=st.sampled_from([10, 21]))
def test_a_publication_is_the_same_in_any_blocks_of_rows(cuts: list[int], width: int) -> None:
    """More than 2^16 numbers, so that the seams of the noise lie inside and between the blocks."""
    rows = 7000
    release = GaussianRelease(
        name="items", rows=rows, width=width, layout="vector", grid_step=2.0**-8, l2_bound=1000, same_sign=False,
        adjacency=Adjacency.ADD_REMOVE, noise_multiplier=2000.0, covers="a sum",
    )  # fmt: skip
    sums = np.random.default_rng(0).integers(-(2**30), 2**30, (rows, width))
    bounds = [0, *sorted(cuts), rows]

    with tempfile.TemporaryDirectory() as folder, Ledger.create(Path(folder) / "l", BUDGET) as ledger:
        owner = release.book(ledger, NOISE)
    blocks = [owner.publish(sums[a:b], start_row=a) for a, b in itertools.pairwise(bounds)]

    np.testing.assert_array_equal(np.concatenate(blocks), by_definition(release, sums))
