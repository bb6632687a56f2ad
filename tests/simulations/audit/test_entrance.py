"""The way in: what is written is what a run reads, and every row knows whose it is."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.errors import FedboardError, InputError
from fedboard.simulations.audit.entrance import Crowd, Entrance
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.data import SyntheticConfig, load_ratings, synthetic_ratings
from fedboard.simulations.problem import Problem, load_problem
from tests.simulations.audit.conftest import N_ITEMS, audited, changed


def test_the_file_holds_every_rating_as_it_was_in_whatever_order() -> None:
    _, entrance = audited()
    honest, seen = entrance.honest, []

    def looking(config: SimulationConfig) -> Problem:
        data = config.data
        read = load_ratings(
            data.source, rating_range=data.rating_range, titles=data.titles, catalogue="listed"
        )
        seen.append(read)
        return load_problem(config)

    shuffled = np.random.default_rng(0).permutation(honest.users.size)
    changed(entrance, read=looking).rows(
        Crowd(users=honest.users[shuffled], items=honest.items[shuffled], values=honest.values[shuffled])
    )

    (read,) = seen
    assert read.n_items == N_ITEMS
    np.testing.assert_array_equal(read.user_ids.astype(np.int64), honest.ids)
    np.testing.assert_array_equal(read.user_ids.astype(np.int64)[read.users], honest.users)
    np.testing.assert_array_equal(read.items, honest.items)
    np.testing.assert_array_equal(read.values, honest.values)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_strangers_lie_between_the_others_and_are_all_asked(kind: str) -> None:
    _, entrance = audited(kind)

    crowd = entrance.strangers(40, items_each=6, rng=np.random.default_rng(1))
    entered = entrance.rows(entrance.honest.joined(crowd))

    assert crowd.ids.size == 40
    assert not np.isin(crowd.ids, entrance.honest.ids).any()
    assert (entered.cohort.counts[entered.rows_of(crowd.ids)] > 0).all()
    between = (crowd.ids > entrance.honest.ids[0]) & (crowd.ids < entrance.honest.ids[-1])
    assert between.sum() > 20


def test_rows_of_some_are_those_of_a_file_with_them_alone() -> None:
    _, entrance = audited()
    chosen = entrance.honest.ids[[3, 20, 21]]

    together = entrance.honest_rows().in_order(chosen[::-1])
    alone = entrance.rows(entrance.honest.of(chosen)).in_order(chosen[::-1])

    np.testing.assert_array_equal(together.items, alone.items)
    np.testing.assert_array_equal(together.ratings, alone.ratings)
    np.testing.assert_array_equal(together.indptr, alone.indptr)
    np.testing.assert_array_equal(together.keys, alone.keys)


def test_users_who_leave_have_empty_rows_and_the_others_theirs() -> None:
    _, entrance = audited()
    everybody = entrance.honest_rows()

    left = everybody.without(everybody.ids[:10])

    assert left.n_users == everybody.cohort.n_users
    assert (left.counts[:10] == 0).all()
    np.testing.assert_array_equal(left.counts[10:], everybody.cohort.counts[10:])


def test_a_split_by_time_is_refused_since_made_up_users_have_none() -> None:
    config = parse_config({"split": {"leave_last": 1}})
    ratings = synthetic_ratings(SyntheticConfig(n_users=20, n_items=20, mean_ratings_per_user=3))

    with pytest.raises(InputError, match="the audit makes up users, who have no times"):
        Entrance(config, ratings)


def test_a_reader_that_loses_users_is_refused() -> None:
    _, entrance = audited()

    def losing(config: SimulationConfig) -> Problem:
        problem = load_problem(config)
        return replace(problem, train=problem.train.rows(0, problem.train.n_users - 1))

    with pytest.raises(FedboardError, match="rows of it"):
        changed(entrance, read=losing).rows(entrance.honest)
