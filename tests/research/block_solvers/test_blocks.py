from pathlib import Path

import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.datasets import SyntheticConfig, synthetic_ratings
from research.block_solvers.blocks import (
    DiskStream,
    Layout,
    Stream,
    arrange,
    open_blocks,
    write_blocks,
)
from research.block_solvers.passes import READ_AHEAD, run_pass
from research.block_solvers.sgd import SgdConfig, fit_sgd

LAYOUT = Layout(users_per_block=64, users_per_batch=16, tiers=(5, 20))


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    people = SyntheticConfig(n_users=300, n_items=80, mean_ratings_per_user=15, minimum_ratings_per_user=3)
    return synthetic_ratings(people).cohort()


def parts_of(cohort: Cohort, size: int = 70) -> list[Cohort]:
    return [cohort.rows(start, min(start + size, cohort.n_users)) for start in range(0, cohort.n_users, size)]


def on_disk(cohort: Cohort, folder: Path) -> DiskStream:
    return write_blocks(lambda: parts_of(cohort), folder, n_items=cohort.n_items, layout=LAYOUT)


def triples(stream: Stream) -> set[tuple[int, int, float]]:
    found = []
    for number in range(stream.block_sizes.size):
        block = stream.read(number)
        users = np.repeat(block.users, np.diff(block.bounds))
        items = stream.head.item_of_row[block.items]
        found += zip(users.tolist(), items.tolist(), block.values.tolist(), strict=True)
    assert len(set(found)) == len(found)
    return set(found)


def test_every_rating_is_in_one_block_under_its_item(cohort: Cohort, tmp_path: Path) -> None:
    users = cohort.user_of_entry()
    wanted = set(zip(users.tolist(), cohort.items.tolist(), cohort.ratings.tolist(), strict=True))

    assert triples(arrange(cohort, LAYOUT)) == wanted
    assert triples(on_disk(cohort, tmp_path / "blocks")) == wanted


def test_popular_items_come_first_and_each_batch_goes_tier_by_tier(cohort: Cohort) -> None:
    stream = arrange(cohort, LAYOUT)

    assert np.all(np.diff(stream.head.item_counts) <= 0)
    for number in range(stream.block_sizes.size):
        block = stream.read(number)
        batch = block.users // LAYOUT.users_per_batch
        tier = np.searchsorted(LAYOUT.tiers, block.items[block.bounds[:-1]], side="right")
        assert np.all(np.diff(batch * 10 + tier) >= 0)


def test_training_from_disk_gives_the_bits_of_training_from_memory(cohort: Cohort, tmp_path: Path) -> None:
    config = SgdConfig(rank=5, passes=3)
    disk = write_blocks(
        lambda: parts_of(cohort, 128), tmp_path / "blocks", n_items=cohort.n_items, layout=LAYOUT
    )
    memory = arrange(cohort, LAYOUT)
    assert disk.block_sizes.tolist() == memory.block_sizes.tolist()

    held = fit_sgd(memory, config)
    streamed = fit_sgd(open_blocks(tmp_path / "blocks"), config, user_file=tmp_path / "users")

    np.testing.assert_array_equal(streamed.items.rows, held.items.rows)
    np.testing.assert_array_equal(streamed.users.rows, held.users.rows)
    mapped = np.memmap(tmp_path / "users", dtype=np.float32, mode="r", shape=held.users.rows.shape)
    np.testing.assert_array_equal(mapped, held.users.rows)


def test_no_more_blocks_are_held_than_promised(cohort: Cohort) -> None:
    stream = arrange(cohort, Layout(users_per_block=8, users_per_batch=8))
    read, done, most = [], [], [0]

    class Counting:
        head, block_sizes = stream.head, stream.block_sizes

        def read(self, number: int) -> object:
            read.append(number)
            return stream.read(number)

    def work(*_: object) -> None:
        most[0] = max(most[0], len(read) - len(done))
        done.append(1)

    run_pass(Counting(), work, order=np.arange(stream.block_sizes.size), clock=0, threads=1)

    assert len(done) == stream.block_sizes.size
    assert most[0] <= 1 + READ_AHEAD


def test_an_error_in_a_thread_ends_the_pass(cohort: Cohort) -> None:
    def work(*_: object) -> None:
        raise InputError("broken")

    for threads in (1, 2):
        with pytest.raises(InputError, match="broken"):
            run_pass(arrange(cohort, LAYOUT), work, order=np.arange(3), clock=0, threads=threads)


def test_a_file_that_ends_too_early_is_noticed(cohort: Cohort, tmp_path: Path) -> None:
    stream = on_disk(cohort, tmp_path / "blocks")
    values = tmp_path / "blocks" / "values"
    values.write_bytes(values.read_bytes()[:-4])

    with pytest.raises(InputError, match="ends too early"):
        stream.read(stream.block_sizes.size - 1)


def test_folders_that_are_no_blocks_or_not_empty_are_refused(cohort: Cohort, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no blocks"):
        open_blocks(tmp_path)
    on_disk(cohort, tmp_path / "blocks")
    with pytest.raises(InputError, match="not empty"):
        on_disk(cohort, tmp_path / "blocks")


@pytest.mark.parametrize("wrong", [{"users_per_block": 0}, {"tiers": (5, 5)}, {"tiers": (0,)}])
def test_layouts_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Layout(**wrong)  # type: ignore[arg-type]
