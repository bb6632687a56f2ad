"""The parts of any blocks together are those of a split of everything."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.data import Kind, Ratings, Triples, id_keys
from fedboard.simulations.data.stream import HeldStream
from fedboard.simulations.problem import problem_of, streamed_problem
from fedboard.simulations.splitting import splitting_of
from tests.simulations.engine.conftest import some_ratings


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return some_ratings()


CUTS = (0, 1, 2, 40, 41, 200, 230)
IMPLICIT = {"feedback": "implicit", "split": {"held_out_users": 0.2, "positive_above": 2.5}}
EXPLICIT = {"split": {"validation": 0.2, "test": 0.15, "seed": 3}}
FOLDED = {"split": {"folds": 4, "fold": 2}}


def keys_of(stream: HeldStream) -> np.ndarray:
    return id_keys(stream.item_ids.tolist(), Kind.ITEM)


def rows_of(cohort: Cohort, numbers: np.ndarray | None = None) -> set[tuple[int, int, float]]:
    users = cohort.user_of_entry() + cohort.first_row if numbers is None else numbers[cohort.user_of_entry()]
    return set(zip(users.tolist(), cohort.items.tolist(), cohort.ratings.tolist(), strict=True))


def triples_of(triples: Triples, first_row: int = 0) -> set[tuple[int, int, float]]:
    users = (triples.users + first_row).tolist()
    return set(zip(users, triples.items.tolist(), triples.values.tolist(), strict=True))


@pytest.mark.parametrize("settings", [EXPLICIT, FOLDED])
def test_blocks_of_a_rating_split_are_the_split(ratings: Ratings, settings: dict[str, object]) -> None:
    config, stream = parse_config(settings), HeldStream.of_ratings(ratings)
    splitting, whole = splitting_of(config, stream), problem_of(ratings, config).split

    blocks = [stream.read(start, stop) for start, stop in pairwise(CUTS)]
    parts = [splitting.split(block, keys_of(stream)) for block in blocks]
    learnt = [splitting.train(block, keys_of(stream)) for block in blocks]

    assert_array_equal(np.concatenate([part.items for part in learnt]), whole.train.items)
    assert_array_equal(np.concatenate([part.ratings for part in learnt]), whole.train.ratings)
    assert_array_equal(np.concatenate([part.counts for part in learnt]), whole.train.counts)
    assert_array_equal(np.concatenate([part.keys for part in learnt]), whole.train.keys)
    for name in ("train", "train_and_validation"):
        found = set.union(*(rows_of(getattr(part, name)) for part in parts))
        assert found == rows_of(getattr(whole, name))
    for name in ("validation", "test"):
        pairs = zip(parts, blocks, strict=True)
        found = set.union(*(triples_of(getattr(part, name), b.first_row) for part, b in pairs))
        assert found == triples_of(getattr(whole, name)) != set()


def test_blocks_of_a_user_split_are_the_split(ratings: Ratings) -> None:
    config, stream = parse_config(IMPLICIT), HeldStream.of_ratings(ratings)
    splitting, whole = splitting_of(config, stream), problem_of(ratings, config).split

    blocks = [stream.read(start, stop) for start, stop in pairwise(CUTS)]
    parts = [splitting.split(block, keys_of(stream)) for block in blocks]
    learnt = [splitting.train(block, keys_of(stream)) for block in blocks]

    assert set.union(*map(rows_of, learnt)) == rows_of(whole.train) != set()
    assert set.union(*(rows_of(part.train) for part in parts)) == rows_of(whole.train)
    for name in ("validation", "test"):
        for half in ("history", "target"):
            found = set()
            for part, block in zip(parts, blocks, strict=True):
                held = getattr(part, name)
                found |= rows_of(getattr(held, half), held.users + block.first_row)
            held = getattr(whole, name)
            assert found == rows_of(getattr(held, half), held.users) != set()


@pytest.mark.parametrize("split", [{"leave_last": 1}, {"test_from": "2005-12-01"}])
def test_a_split_by_time_is_refused_in_a_sentence(ratings: Ratings, split: dict[str, object]) -> None:
    with pytest.raises(InputError, match="streamed ratings are split by coins"):
        splitting_of(parse_config({"split": split}), HeldStream.of_ratings(ratings))


def test_a_data_set_with_a_test_part_of_its_own_is_no_stream(ratings: Ratings) -> None:
    test = Triples(users=np.zeros(1, np.int32), items=np.zeros(1, np.int32), values=np.ones(1, np.float32))

    with pytest.raises(InputError, match="brings a test part of its own"):
        HeldStream.of_ratings(replace(ratings, test=test))


def test_a_streamed_problem_says_what_the_other_says(ratings: Ratings) -> None:
    config = SimulationConfig()

    problem = problem_of(ratings, config)
    streamed = streamed_problem(HeldStream.of_ratings(ratings), config)

    assert streamed.statement == problem.statement
    assert streamed.catalogue == problem.catalogue
    assert streamed.catalogue_listed


def test_the_identity_is_of_every_rating(ratings: Ratings) -> None:
    values = ratings.values.copy()
    values[17] = 6 - values[17] if values[17] != 3 else 1
    other = replace(ratings, values=values)

    assert HeldStream.of_ratings(ratings).identity == HeldStream.of_ratings(ratings).identity
    assert HeldStream.of_ratings(ratings).identity != HeldStream.of_ratings(other).identity
