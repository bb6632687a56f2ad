"""Why there is no ``shuffled`` protocol: messages without names are put together by the vector that they carry."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.arrays import IndexArray, IntArray
from fedboard.common.contribution import Contribution, SumSource
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.simulate import simulate


def rows_of(source: dict[str, Any], place: Path) -> Contribution:
    """What all users of a data set give in an item round."""
    config = parse_config(
        {
            "algorithm": "residual",
            "data": source,
            "settings": {"rank": 8, "rounds": 1},
            "run": {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"},
        }
    )
    problem = load_problem(config)
    simulate(config, place / "run", problem=problem, report=False)
    run = RunDirectory(place / "run")
    task = build_task(
        config, rating_range=problem.rating_range, backend="numpy", features=problem.feature_values
    ).task
    store = BoardStore(run.boards)
    for board in map(store.load, reversed(store.versions())):
        requests = task.requests(board)
        if any(request.source is SumSource.ITEM_LINEAR for request in requests):
            return task.contribute(problem.train, board, requests)
    raise AssertionError("there was no item round")


def shuffled(rows: Contribution) -> tuple[IntArray, IndexArray]:
    """One message for each rating, w r v, in random order; and who sent it, which the server does not see."""
    assert rows.vectors is not None
    assert rows.weights is not None
    assert rows.responses is not None
    users = np.repeat(np.arange(rows.n_users, dtype=np.int32), np.diff(rows.indptr))
    scale = rows.weights.astype(np.int64) * rows.responses
    messages = scale[:, None] * rows.vectors[users].astype(np.int64)
    order = np.random.default_rng(0).permutation(users.size)
    order = order[messages[order].any(axis=1)]
    return messages[order], users[order]


def linked(messages: IntArray) -> IntArray:
    """Group messages by their direction: the integers divided by their greatest common divisor, up to sign."""
    directions = messages // np.gcd.reduce(messages, axis=1)[:, None]
    first = directions[np.arange(len(directions)), (directions != 0).argmax(axis=1)]
    _, groups = np.unique(directions * np.sign(first)[:, None], axis=0, return_inverse=True)
    return groups.reshape(-1)


def share_linked(groups: IntArray, users: IndexArray) -> float:
    """Share of users whose messages are one group, with nobody else's in it."""
    pairs = np.unique(np.stack([users, groups]), axis=1)
    group_of = np.bincount(pairs[0])[pairs[0]] == 1
    alone = np.bincount(pairs[1])[pairs[1]] == 1
    return float(np.count_nonzero(group_of & alone) / np.unique(users).size)


def test_every_users_messages_are_put_together_without_her_name(tmp_path: Path) -> None:
    source = {"source": "synthetic", "synthetic": {"n_users": 400, "n_items": 60}}

    messages, users = shuffled(rows_of(source, tmp_path))

    assert share_linked(linked(messages), users) > 0.99
    assert share_linked(np.random.default_rng(1).permutation(linked(messages)), users) < 0.01  # the control


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif("FEDBOARD_DATA" not in os.environ, reason="FEDBOARD_DATA is not set")
def test_on_real_ratings_too(tmp_path: Path) -> None:
    source = {"source": str(Path(os.environ["FEDBOARD_DATA"]) / "ml-100k")}

    messages, users = shuffled(rows_of(source, tmp_path))

    assert share_linked(linked(messages), users) > 0.99
