"""Results by users' activity: each group is judged as if it were alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import HeldOut
from fedboard.simulations.evaluation.tallies import EDGES, Census
from tests.simulations.evaluation.metrics.small_judgements import judge_held_out
from tests.simulations.evaluation.metrics.small_lists import targets_of, value_of

N_USERS, N_ITEMS = 23, 40
KNOWN = np.random.default_rng(1).permutation(N_USERS).astype(np.int64)
"""All different, so that the groups are those of an obvious sort."""


def known_by(known: IntArray, *, n_items: int = 100) -> Cohort:
    """Users with as many ratings, of whatever."""
    items = [np.arange(number, dtype=np.int32) for number in known]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(known)]).astype(np.int64),
        items=np.concatenate([*items, np.zeros(0, dtype=np.int32)]),
        ratings=np.ones(int(known.sum()), dtype=np.float32),
        n_items=n_items,
    )


@dataclass(frozen=True)
class Told:
    """Predicts and recommends what it is told, whoever asks."""

    predicted: FloatArray | None = None
    lists: IndexArray | None = None

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        return self.predicted

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        return self.lists


def ratings_by_activity(
    predicted: FloatArray, held_out: Triples, known: IntArray, *, part: str
) -> Mapping[str, Any]:
    counts = np.ones(100, dtype=np.int64)
    return judge_held_out(
        Told(predicted=predicted), known_by(known), held_out, part=part, counts=counts
    ).by_activity


def lists_by_activity(
    lists: IndexArray, targets: Cohort, known: IntArray, *, counts: IntArray
) -> Mapping[str, Any]:
    history = known_by(known, n_items=targets.n_items)
    users = np.arange(known.size, dtype=np.int32)
    held_out = HeldOut(users=users, history=history, target=targets)
    return judge_held_out(Told(lists=lists), history, held_out, counts=counts).by_activity


def obvious_groups(users: list[int]) -> list[list[int]]:
    by_activity = sorted(users, key=lambda user: KNOWN[user])
    sizes = [len(users) // 5 + (number < len(users) % 5) for number in range(5)]
    return [by_activity[sum(sizes[:number]) :][:size] for number, size in enumerate(sizes)]


def test_ratings_are_judged_within_each_group_of_those_who_have_some_held_out() -> None:
    rng = np.random.default_rng(2)
    users = np.sort(rng.choice(np.setdiff1d(np.arange(N_USERS), [0, 5]), 90)).astype(np.int32)
    held_out = Triples(
        users=users,
        items=np.zeros(90, dtype=np.int32),
        values=rng.integers(1, 6, 90).astype(np.float32),
    )
    predicted = rng.uniform(1, 5, 90)

    found = ratings_by_activity(predicted, held_out, KNOWN, part="test")

    groups = obvious_groups(np.unique(users).tolist())
    for group, value in zip(groups, found["test_rmse"], strict=True):
        own = np.isin(users, group)
        assert value == pytest.approx(np.sqrt(np.mean((predicted[own] - held_out.values[own]) ** 2)))
    assert found[EDGES] == [*(KNOWN[group[0]] for group in groups), KNOWN[groups[-1][-1]]]
    assert set(found) == {EDGES, "test_rmse", "test_mae"}


def test_lists_are_judged_within_each_group_as_if_there_were_no_other() -> None:
    rng = np.random.default_rng(3)
    lists = np.stack([rng.permutation(N_ITEMS) for _ in range(N_USERS)]).astype(np.int32)
    lists = np.pad(lists, ((0, 0), (0, 100 - N_ITEMS)), constant_values=-1)
    rows = [rng.permutation(N_ITEMS)[: rng.integers(1, 9)].tolist() for _ in range(N_USERS)]
    counts = rng.integers(0, 30, N_ITEMS)

    found = lists_by_activity(lists, targets_of(rows, n_items=N_ITEMS), KNOWN, counts=counts)

    for number, group in enumerate(obvious_groups(list(range(N_USERS)))):
        group = sorted(group)
        own, wanted = lists[group], targets_of([rows[user] for user in group], n_items=N_ITEMS)
        for name in ("recall", "coverage", "novelty"):
            alone = value_of(name, own, wanted, k=20, counts=counts)
            assert found[f"{name}@20"][number] == pytest.approx(alone)
    assert {len(values) for name, values in found.items() if name != EDGES} == {5}


def test_users_are_in_the_same_groups_in_whatever_spans_and_blocks_they_come() -> None:
    known = np.random.default_rng(4).integers(3, 9, 400)
    cuts = [0, 1, 150, 151, 390, 400]
    order = np.argsort(known, kind="stable")
    expected = np.empty(400, dtype=np.int32)
    for group, users in enumerate(np.array_split(order, 5)):
        expected[users] = group

    parts = [Census(np.zeros(1, dtype=np.int64)) for _ in range(2)]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        for block in np.array_split(known[start:stop], 3):
            parts[number % 2].add_users(start, block)
    whole = parts[1]
    whole.merge(parts[0])
    groups = whole.groups()

    for start, stop in pairwise(cuts):
        for users in np.array_split(np.arange(start, stop), 4):
            np.testing.assert_array_equal(groups[start].of(known[users]), expected[users])
    edges = [known[order[rank]] for rank in (0, 80, 160, 240, 320, 399)]
    assert whole.edges().tolist() == edges
