"""Splits of a block of users, compiled where it is large: what the split of everybody gives, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.splits import RatingSplitting, SplitRule, splitting
from fedboard.simulations.data.splits.coins import Fold, SplitCoins

ITEMS = 300


@pytest.fixture(scope="module")
def block() -> Cohort:
    """Two thousand people, some without ratings, in the middle of others."""
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 40, 2000)
    items = [np.sort(rng.choice(ITEMS, n, replace=False)) for n in counts]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=np.concatenate(items).astype(np.int32),
        ratings=rng.integers(1, 6, counts.sum()).astype(np.float32),
        n_items=ITEMS,
        first_row=70_000,
        user_keys=rng.integers(0, 1 << 63, 2000, dtype=np.uint64),
    )


@pytest.fixture(scope="module")
def item_keys() -> np.ndarray:
    return id_keys([str(number) for number in range(ITEMS)], Kind.ITEM)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(splitting, "_COMPILED_FROM", 1)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("fold", [None, Fold(number=0, of=4), Fold(number=2, of=3), Fold(number=9, of=10)])
@pytest.mark.parametrize("validation", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("test", [0.0, 0.25])
def test_what_is_learnt_is_what_the_split_of_everybody_gives(
    block: Cohort, item_keys: np.ndarray, fold: Fold | None, validation: float, test: float
) -> None:
    rule = SplitRule(coins=SplitCoins(3), validation=validation, test=test, fold=fold)

    found = RatingSplitting(rule=rule).train(block, item_keys)

    expected = RatingSplitting(rule=rule).split(block, item_keys).train
    for name in ("indptr", "items", "ratings", "user_keys"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
    assert (found.n_items, found.first_row) == (ITEMS, 70_000)
    assert 0 < found.n_ratings <= block.n_ratings


@pytest.mark.usefixtures("compiled")
def test_what_compiled_code_would_read_beyond_its_arrays_is_refused(
    block: Cohort, item_keys: np.ndarray
) -> None:
    split = RatingSplitting(rule=SplitRule(coins=SplitCoins(3), validation=0.1, test=0.1))
    elsewhere, last = block.items.copy(), block.indptr.copy()
    elsewhere[7], last[-1] = ITEMS, last[-1] - 1

    with pytest.raises(InputError, match="not in the catalogue"):
        split.train(replace(block, items=elsewhere), item_keys)
    with pytest.raises(InputError, match="follow each other"):
        split.train(replace(block, indptr=last), item_keys)
    with pytest.raises(InputError, match="one key for each item"):
        split.train(block, item_keys[:-1])
