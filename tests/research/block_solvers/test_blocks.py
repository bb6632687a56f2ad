import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data import SyntheticConfig, synthetic_ratings
from research.block_solvers.factorisation import Factorisation, Layout, Stream, arrange
from research.block_solvers.sgd import SgdConfig, fit_sgd

LAYOUT = Layout(users_per_block=64, users_per_batch=16, tiers=(5, 20))


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    people = SyntheticConfig(n_users=300, n_items=80, mean_ratings_per_user=15, minimum_ratings_per_user=3)
    return synthetic_ratings(people).cohort()


def triples(stream: Stream) -> set[tuple[int, int, float]]:
    found = []
    for block in stream.blocks:
        users = np.repeat(block.users, np.diff(block.bounds))
        items = stream.head.item_of_row[block.items]
        found += zip(users.tolist(), items.tolist(), block.values.tolist(), strict=True)
    assert len(set(found)) == len(found)
    return set(found)


def test_every_rating_is_in_one_block_under_its_item(cohort: Cohort) -> None:
    users = cohort.user_of_entry()
    wanted = set(zip(users.tolist(), cohort.items.tolist(), cohort.ratings.tolist(), strict=True))

    assert triples(arrange(cohort, LAYOUT)) == wanted


def test_popular_items_come_first_and_each_batch_goes_tier_by_tier(cohort: Cohort) -> None:
    stream = arrange(cohort, LAYOUT)

    assert np.all(np.diff(stream.head.item_counts) <= 0)
    for block in stream.blocks:
        batch = block.users // LAYOUT.users_per_batch
        tier = np.searchsorted(LAYOUT.tiers, block.items[block.bounds[:-1]], side="right")
        assert np.all(np.diff(batch * 10 + tier) >= 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_thread_ends_the_pass(
    cohort: Cohort, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    def broken(*_: object) -> None:
        raise InputError("broken")

    monkeypatch.setattr(Factorisation, "_step", broken)
    with pytest.raises(InputError, match="broken"):
        fit_sgd(arrange(cohort, LAYOUT), SgdConfig(rank=2, passes=1, threads=threads))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pass_takes_each_block_once_with_its_own_place_in_time(
    cohort: Cohort, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    stream, taken = arrange(cohort, LAYOUT), []
    monkeypatch.setattr(Factorisation, "_step", lambda _, block, clock, *__: taken.append((clock, block)))

    fit_sgd(stream, SgdConfig(rank=2, passes=1, threads=threads))

    taken.sort(key=lambda job: job[0])
    ends = np.cumsum([block.items.size for _, block in taken])
    assert [clock for clock, _ in taken] == [0, *ends[:-1].tolist()]
    assert {id(block) for _, block in taken} == {id(block) for block in stream.blocks}


@pytest.mark.parametrize("wrong", [{"users_per_block": 0}, {"tiers": (5, 5)}, {"tiers": (0,)}])
def test_layouts_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Layout(**wrong)  # type: ignore[arg-type]
