"""Whoever is removed from a file of ratings, everybody else gives what they gave before, bit for bit.

From the file on: load, split, cohort, contributions of a real task. The split that fedboard had before, one
generator for all, is the negative control.
"""

import os
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.board import Board
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import SyntheticConfig, synthetic_ratings
from tests.simulations.runs.removal import (
    Parts,
    ProblemOf,
    Row,
    boards_of,
    changed,
    configured,
    parts_of,
    problem_of,
    problem_of_control,
    when,
    write_rows,
)
from tests.thorough import examples

ITEMS = tuple(str(number) for number in (1, 2, 3, 5, 8, 10, 11, 13, 20, 21, 30, 100))
FEEDBACKS = ("explicit", "implicit")
ALGORITHMS = ("residual", "adadpals", "dpals-uniform", "adadpsgd")
TASKS = [(feedback, name) for feedback in FEEDBACKS for name in ALGORITHMS] + [("explicit", "langevin")]
SLOW = settings(
    deadline=None, max_examples=examples(12, thorough=25), suppress_health_check=[HealthCheck.too_slow]
)
"""With one generator for the split, 15 of the 18 cases notice it in 8 examples, 17 in 25; each case is another
algorithm or format, and the split is the same in all.
"""


@cache
def asked(feedback: str, algorithm: str) -> tuple[RatingTask, tuple[Board, ...]]:
    """A task and the boards of a run on other people's ratings of the same items."""
    rng = np.random.default_rng(0)
    rows = [(f"{user}", item, float(rng.integers(1, 6))) for user in range(60) for item in ITEMS]
    with TemporaryDirectory() as folder:
        config = configured(write_rows(Path(folder) / "data", rows, ITEMS, "csv"), feedback, algorithm)
        task, boards = boards_of(config, Path(folder) / "run")
    return task, tuple(boards)


def given_by(
    rows: list[Row], kind: str, feedback: str, algorithm: str, problem: ProblemOf, **changes: object
) -> Parts:
    """What each user in a file of these rows gives."""
    task, boards = asked(feedback, algorithm)
    with TemporaryDirectory() as folder:
        data = write_rows(Path(folder), rows, ITEMS, kind)
        config = configured(data, feedback, algorithm, privacy={"noise": "secure"}, **changes)
        found, ids = problem(config)
    return parts_of(task, boards, found.train, ids)


@st.composite
def files(draw: st.DrawFn, kind: str) -> list[Row]:
    """A few users with a few ratings each, in any order."""
    ids = st.integers(1, 10_000).map(str)
    if kind == "csv":  # ids that are not numbers change how the others are sorted and numbered
        ids |= st.text("ab0", min_size=1, max_size=3)
    users = draw(st.lists(ids, min_size=2, max_size=8, unique=True))
    pairs = [(user, item) for user in users for item in draw(st.sets(st.sampled_from(ITEMS), min_size=1))]
    values = draw(st.lists(st.sampled_from((1, 3, 4, 5, 5)), min_size=len(pairs), max_size=len(pairs)))
    rows = [(user, item, float(value)) for (user, item), value in zip(pairs, values, strict=True)]
    return draw(st.permutations(rows))


@pytest.mark.slow
@pytest.mark.parametrize(("feedback", "algorithm"), TASKS)
@pytest.mark.parametrize("kind", ["csv", "movielens"])
@SLOW
@given(data=st.data())
def test_removing_any_user_changes_nobody_elses_contribution(kind, feedback, algorithm, data):
    rows = data.draw(files(kind))
    removed = data.draw(st.sampled_from(sorted({user for user, _, _ in rows})))
    others = data.draw(st.permutations([row for row in rows if row[0] != removed]))

    before = given_by(rows, kind, feedback, algorithm, problem_of)
    after = given_by(others, kind, feedback, algorithm, problem_of)

    assert set(before) - set(after) == {removed}
    assert not changed(before, after)


def made_up(n_users: int) -> list[Row]:
    rng = np.random.default_rng(1)
    return [
        (str(user), item, float(rng.integers(1, 6)))
        for user in range(n_users)
        for item in ITEMS
        if rng.random() < 0.9
    ]


@pytest.mark.parametrize("feedback", FEEDBACKS)
@pytest.mark.parametrize("problem", [problem_of, problem_of_control])
def test_the_split_of_before_would_be_noticed(feedback, problem):
    rows = made_up(40)
    before = given_by(rows, "movielens", feedback, "adadpals", problem)

    moved = [
        changed(
            before,
            given_by([row for row in rows if row[0] != removed], "movielens", feedback, "adadpals", problem),
        )
        for removed in ("0", "7", "39")
    ]

    assert any(moved) is (problem is problem_of_control)


@pytest.mark.parametrize("feedback", FEEDBACKS)
@pytest.mark.parametrize("fold", [0, 2])
def test_removing_a_user_changes_nobody_elses_contribution_in_any_fold(feedback, fold):
    rows, split = made_up(40), {"folds": 3, "fold": fold}
    before = given_by(rows, "movielens", feedback, "adadpals", problem_of, split=split)
    whole = given_by(rows, "movielens", feedback, "adadpals", problem_of)

    assert changed(before, whole)  # the folds are there
    for removed in ("0", "7", "39"):
        others = [row for row in rows if row[0] != removed]
        after = given_by(others, "movielens", feedback, "adadpals", problem_of, split=split)
        assert set(before) - set(after) == {removed}
        assert not changed(before, after)


BY_TIME: tuple[dict[str, object], ...] = (
    {"leave_last": 1},
    {"test_from": 4 * 86_400, "validation_from": "1970-01-04"},
)


@pytest.mark.parametrize("feedback", FEEDBACKS)
@pytest.mark.parametrize("split", BY_TIME, ids=["leave last", "dates"])
@pytest.mark.parametrize("kind", ["csv", "movielens"])
def test_removing_a_user_changes_nobody_elses_contribution_where_time_splits(feedback, split, kind):
    rows = made_up(40)
    before = given_by(rows, kind, feedback, "adadpals", problem_of, split=split)
    coins = given_by(rows, kind, feedback, "adadpals", problem_of)

    assert changed(before, coins)  # the split is there
    for removed in ("0", "7", "39"):
        others = [row for row in reversed(rows) if row[0] != removed]
        after = given_by(others, kind, feedback, "adadpals", problem_of, split=split)
        assert set(before) - set(after) == {removed}
        assert not changed(before, after)


@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_a_cut_at_a_share_of_all_times_would_be_noticed(feedback):
    """What the configuration refuses: the day from which the last fifth of the ratings was given."""
    last = 5 * 86_400

    def cut(rows: list[Row]) -> int:
        return sorted(when(user, item) for user, item, _ in rows)[4 * len(rows) // 5]

    def given(rows: list[Row]) -> Parts:
        return given_by(rows, "movielens", feedback, "adadpals", problem_of, split={"test_from": cut(rows)})

    rows, late = made_up(40), 100
    while cut(rows) < last:  # until one user more has moved the day
        late += 1
        rows += [(str(late), item, 5.0) for item in ITEMS if when(str(late), item) == last]

    assert changed(given(rows), given([row for row in rows if row[0] != str(late)]))


@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_an_item_that_only_the_removed_user_rated_moves_nobody_where_items_are_read_off_the_ratings(
    feedback, tmp_path
):
    task, _ = asked(feedback, "adadpals")
    rows = [(user, item, value) for user, item, value in made_up(12) if item != "2" or user == "3"]
    by_item: list[dict[str, set[tuple[str, float]]]] = []
    for number, kept in enumerate((rows, [row for row in rows if row[0] != "3"])):
        config = configured(
            write_rows(tmp_path / str(number), kept, ITEMS, "movielens") | {"catalogue": "rated"},
            feedback,
            "adadpals",
        )
        problem, ids = problem_of(config)
        first = task.first_board(problem.catalogue)
        given = task.contribute(problem.train, first, task.requests(first))
        assert given.weights is not None
        names = [problem.catalogue.item_ids[item] for item in given.items]
        owners = np.repeat(ids, np.diff(given.indptr))
        found: dict[str, set[tuple[str, float]]] = {}
        for owner, name, weight in zip(owners.tolist(), names, given.weights.tolist(), strict=True):
            found.setdefault(owner, set()).add((name, weight))
        by_item.append(found)

    assert by_item[0].pop("3", None) is not None or feedback == "implicit"
    assert by_item[0] == by_item[1]


DATA = os.environ.get("FEDBOARD_DATA")
ON_REAL_DATA = pytest.mark.skipif(not DATA, reason="FEDBOARD_DATA is not set to a folder with ml-1m, ml-100k")


def source_of(name: str, folder: Path) -> tuple[list[str], list[str], dict[str, object]]:
    """The lines of a data set's file, whose each line is, and the ``data`` section to read it with."""
    folder.mkdir()
    if name == "synthetic":
        made = synthetic_ratings(SyntheticConfig(n_users=600, n_items=120, mean_ratings_per_user=30))
        users = made.user_ids[made.users].tolist()
        items = made.item_ids[made.items].tolist()
        rows = [(str(u), str(i), float(v)) for u, i, v in zip(users, items, made.values, strict=True)]
        data = write_rows(folder, rows, made.item_ids.tolist(), "movielens")
        lines = (folder / "ratings.dat").read_text().splitlines()
        return lines, [line.split("::")[0] for line in lines], data
    titles, ratings, separator = (
        ("movies.dat", "ratings.dat", "::") if name == "ml-1m" else ("u.item", "u.data", "\t")
    )
    assert DATA is not None
    if not (Path(DATA) / name).is_dir():
        pytest.skip(f"FEDBOARD_DATA holds no {name}")
    (folder / titles).write_bytes((Path(DATA) / name / titles).read_bytes())
    lines = (Path(DATA) / name / ratings).read_text().splitlines()
    kind = "movielens-1m" if name == "ml-1m" else "movielens-100k"
    data = {"source": str(folder), "format": kind, "catalogue": "listed"}
    return lines, [line.split(separator)[0] for line in lines], data


@pytest.mark.slow
@pytest.mark.parametrize("feedback", FEEDBACKS)
@pytest.mark.parametrize(
    "name",
    [
        "synthetic",
        pytest.param("ml-100k", marks=ON_REAL_DATA),
        pytest.param("ml-1m", marks=[ON_REAL_DATA, pytest.mark.thorough]),
    ],
)
def test_removing_a_user_from_a_real_file_changes_nobody_elses_contribution(name, feedback, tmp_path):
    lines, owners, data = source_of(name, tmp_path / "data")
    ratings = tmp_path / "data" / ("u.data" if name == "ml-100k" else "ratings.dat")
    ratings.write_text("\n".join([*lines, ""]))
    run = {"kernels": "auto", "baselines": False, "evaluate_rounds": False}
    config = configured(data, feedback, "adadpals", run=run, settings={"rank": 3, "rounds": 1})
    task, boards = boards_of(config, tmp_path / "run")
    before = everybody(config, task, boards[:2], problem_of)
    control = everybody(config, task, boards[:1], problem_of_control)
    ((most, _),) = Counter(owners).most_common(1)

    for removed in (owners[0], most):
        kept = [line for line, owner in zip(lines, owners, strict=True) if owner != removed]
        ratings.write_text("\n".join([*reversed(kept), ""]))

        assert not changed(before, everybody(config, task, boards[:2], problem_of))
    assert len(changed(control, everybody(config, task, boards[:1], problem_of_control))) > 10


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize("algorithm", ["residual", "adadpals", "adadpsgd", "langevin"])
def test_no_kernel_lets_a_users_place_among_the_rows_show(algorithm, kernels, tmp_path):
    """Compiled kernels work on rows side by side; one row less puts all that follow into other places."""
    lines, owners, data = source_of("synthetic", tmp_path / "data")
    run = {"kernels": kernels, "baselines": False, "evaluate_rounds": False}
    config = configured(data, "explicit", algorithm, run=run)
    task, boards = boards_of(config, tmp_path / "run")
    before = everybody(config, task, boards[:3], problem_of)

    for removed in ("1", "300"):
        kept = [line for line, owner in zip(lines, owners, strict=True) if owner != removed]
        (tmp_path / "data" / "ratings.dat").write_text("\n".join([*kept, ""]))

        assert not changed(before, everybody(config, task, boards[:3], problem_of))


def everybody(config: SimulationConfig, task: RatingTask, boards: list[Board], problem: ProblemOf) -> Parts:
    found, ids = problem(config)
    return parts_of(task, boards, found.train, ids)
